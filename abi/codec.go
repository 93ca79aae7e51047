package abi

import (
	"bytes"
	"cmp"
	"math"
	"strconv"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The encoders leave out optional fields that have the zero value. Raw values
// are written as they are and must be JSON.
//
// The decoders of what a guest writes (manifest, result and the calls) are
// strict: an unknown field, or a field given twice, is an error that names it,
// so that no host silently drops an intent. The decoders of what a host writes
// (request and list reply) ignore unknown fields and accept objects of any
// depth that the API server stores. The strings and raw values of a decoded
// message alias its text.

// EncodeManifest returns the text of a manifest.
func EncodeManifest(m *Manifest) []byte { return message.Encode(128, m.fields) }

// DecodeManifest decodes and checks what describe wrote. Every error is a
// [*rawjson.Error].
func DecodeManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	return message.Checked(m, message.DecodeStrict(data, m.fields), m.check)
}

// EncodeRequest returns the text of a request.
func EncodeRequest(q *Request) (text []byte) {
	for _, part := range EncodeRequestParts(q) {
		text = append(text, part...)
	}
	return text
}

// EncodeRequestParts returns the text of a request in parts, of which one is the object
// itself, and not a copy: most of the text.
func EncodeRequestParts(q *Request) [][]byte {
	return message.EncodeParts(len(q.Memo)+len(q.Config)+256, q.fieldsBeforeObject, q.Object)
}

// DecodeRequest decodes a request.
func DecodeRequest(data []byte) (*Request, error) { return ReadRequest(data, nil) }

// ReadRequest is [DecodeRequest] for a guest that decodes the object, which is
// most of a request, in the same pass. It calls object, if not nil, at an
// object that is not null, with the fields that were read before it. The
// callback reads the value or leaves it to be skipped.
func ReadRequest(data []byte, object func(*Request, *rawjson.Reader)) (*Request, error) {
	q := &Request{}
	return message.Checked(q, message.Decode(data, func(f *message.Fields) { q.fields(f, object) }), nil)
}

// EncodeResult returns the text of a result.
func EncodeResult(out *Result) []byte { return message.Encode(512, out.fields) }

// DecodeResult decodes what reconcile wrote, checks it against the limits of
// this package and truncates messages that are too long. Every error is a
// [*rawjson.Error] and of class abi. Memo does not alias data, because it outlives the run. Empty data is an empty result: a guest that
// fails need not write one.
func DecodeResult(data []byte) (*Result, error) { return DecodeResultFor("", MaxIntents, nil, data) }

// DecodeResultFor is [DecodeResult] for a controller whose status has this owner, with another limit than [MaxIntents],
// and with sections.
func DecodeResultFor(owner StatusOwner, intents int, sections SectionCheck, data []byte) (*Result, error) {
	out := &Result{}
	if len(data) == 0 {
		return out, nil
	}
	err := message.DecodeStrict(data, func(f *message.Fields) { out.fieldsWithin(f, intents, sections.has) })
	out.Memo = bytes.Clone(out.Memo)
	return message.Checked(out, err, func() error { return cmp.Or(out.check(intents), out.checkStatus(owner), out.checkSections(sections)) })
}

// EncodeGetCall returns the message of the capability get.
func EncodeGetCall(c *GetCall) []byte { return message.Encode(128, c.fields) }

// DecodeGetCall decodes and checks the message of the capability get. The host
// returns [CodeInvalid] to the guest if there is an error.
func DecodeGetCall(data []byte) (*GetCall, error) {
	c := &GetCall{}
	return message.Checked(c, DecodeCall(data, c.fields), c.check)
}

// EncodeListCall returns the message of the capability list.
func EncodeListCall(c *ListCall) []byte { return message.Encode(128, c.fields) }

// DecodeListCall decodes and checks the message of the capability list. The
// host returns [CodeInvalid] to the guest if there is an error.
func DecodeListCall(data []byte) (*ListCall, error) {
	c := &ListCall{}
	return message.Checked(c, DecodeCall(data, c.fields), c.check)
}

// The methods below list the fields of each message, in the order in which they are
// encoded. See [fields], and the tables of the specification.

func (m *Manifest) fields(f *message.Fields) {
	f.Required("name", &m.Name)
	f.Text("version", &m.Version)
	f.Text("memoVersion", &m.MemoVersion)
	f.Bool("managed", &m.Managed)
	message.Objects(f, "controllers", MaxControllers, &m.Controllers, (*Controller).fields)
}

func (c *Controller) fields(f *message.Fields) {
	f.Required("name", &c.Name)
	f.Object("for", true, c.For.fields)
	message.Objects(f, "owns", MaxKinds, &c.Owns, (*Followed).fields)
	message.Objects(f, "reads", MaxKinds, &c.Reads, (*Followed).fields)
	message.Objects(f, "watches", MaxKinds, &c.Watches, (*Watch).fields)
	message.Objects(f, "writes", MaxKinds, &c.Writes, (*Kind).fields)
	message.Objects(f, "indexes", MaxIndexes, &c.Indexes, (*Index).fields)
	f.Bool("finalizer", &c.Finalizer)
	f.Bool("whileDeleting", &c.WhileDeleting)
	f.Text("statusOwner", (*string)(&c.StatusOwner))
	f.Text("applied", (*string)(&c.Applied))
	f.Bool("gone", &c.Gone)
	f.Bool("prune", &c.Prune)
	f.Duration("interval", &c.Interval)
	f.Duration("timeout", &c.Timeout)
	f.Count("concurrency", &c.Concurrency)
	f.Object("retry", c.Retry != Retry{}, c.Retry.fields)
	f.Object("conditions", !c.Conditions.IsZero(), c.Conditions.fields)
	f.Sections(&c.Sections)
}

func (w *Followed) fields(f *message.Fields) {
	w.Kind.fields(f)
	message.Texts(f, "namespaces", MaxNamespaces, &w.Namespaces)
	f.Text("labelSelector", &w.LabelSelector)
	f.Text("fieldSelector", &w.FieldSelector)
	f.Bool("metadataOnly", &w.MetadataOnly)
	f.Duration("pollInterval", &w.PollInterval)
}

func (w *Watch) fields(f *message.Fields) {
	w.Followed.fields(f)
	f.Required("by", (*string)(&w.By))
	f.Text("key", &w.Key)
	f.Text("field", &w.Field)
}

func (r *Retry) fields(f *message.Fields) {
	f.Duration("initial", &r.Initial)
	f.Count("factor", &r.Factor)
	f.Duration("cap", &r.Cap)
	f.Count("jitter", &r.Jitter)
	f.Count("attempts", &r.Attempts)
	f.Text("then", (*string)(&r.Then))
}

func (k *Kind) fields(f *message.Fields) {
	f.Required("apiVersion", &k.APIVersion)
	f.Required("kind", &k.Kind)
}

func (c *Conditions) fields(f *message.Fields) {
	f.Text("target", &c.Target)
	message.Texts(f, "owned", MaxConditions, &c.Owned)
	message.Texts(f, "summarized", MaxConditions, &c.Summarized)
	message.Texts(f, "negativePolarity", MaxConditions, &c.NegativePolarity)
	message.Objects(f, "summaries", MaxSummaries, &c.Summaries, (*Summary).fields)
}

func (s *Summary) fields(f *message.Fields) {
	f.Required("target", &s.Target)
	message.Texts(f, "summarized", MaxConditions, &s.Summarized)
	message.Texts(f, "negativePolarity", MaxConditions, &s.NegativePolarity)
}

// fields lists what is read of a request: the object last, so that a guest which reads it
// in place has read the other fields before it.
func (q *Request) fields(f *message.Fields, object func(*Request, *rawjson.Reader)) {
	q.fieldsBeforeObject(f)
	if object == nil {
		f.Raw("object", &q.Object)
	} else if f.Reads("object") {
		r := f.Reader()
		if q.Object = nil; r.Null() {
			return
		}
		start := r.Pos()
		if object(q, r); r.Pos() == start {
			r.Skip()
		}
		q.Object = r.Since(start)
	}
}

func (q *Request) fieldsBeforeObject(f *message.Fields) {
	f.Required("controller", &q.Controller)
	f.Bool("deleting", &q.Deleting)
	f.Bool("gone", &q.Gone)
	message.Texts(f, "reasons", math.MaxInt, &q.Reasons)
	f.Count("attempt", &q.Attempt)
	message.Pointer(f, "previous", &q.Previous, (*Previous).fields)
	f.Raws("signals", math.MaxInt, &q.Signals)
	f.Raw("memo", &q.Memo)
	f.Time("now", &q.Now)
	f.Seed("seed", &q.Seed)
	f.Raw("config", &q.Config)
	f.Sections(&q.Sections)
}

func (p *Previous) fields(f *message.Fields) {
	f.Required("class", (*string)(&p.Class))
	message.Objects(f, "failures", math.MaxInt, &p.Failures, (*EffectFailure).fields)
}

func (e *EffectFailure) fields(f *message.Fields) {
	f.Required("verb", &e.Verb)
	if f.Reads("ref") {
		e.Ref = Ref{} // of a field given twice the last one counts
		f.Value(e.Ref.fields)
	} else if f.Writes("ref", true) {
		f.Value(e.Ref.fields)
	}
	f.Required("class", (*string)(&e.Class))
	f.Text("reason", &e.Reason)
	f.Text("message", &e.Message)
	f.Text("group", &e.Group)
}

func (ref *Ref) fields(f *message.Fields) {
	f.Required("apiVersion", &ref.APIVersion)
	f.Required("kind", &ref.Kind)
	f.Text("namespace", &ref.Namespace)
	f.Required("name", &ref.Name)
	f.Text("uid", &ref.UID)
}

func (c *GetCall) fields(f *message.Fields) {
	c.Ref.fields(f)
	message.Texts(f, "fields", MaxFields, &c.Fields)
}

func (c *ListCall) fields(f *message.Fields) {
	f.Required("apiVersion", &c.APIVersion)
	f.Required("kind", &c.Kind)
	f.Text("namespace", &c.Namespace)
	f.Text("labelSelector", &c.LabelSelector)
	f.Text("fieldSelector", &c.FieldSelector)
	message.Texts(f, "fields", MaxFields, &c.Fields)
	f.Count("limit", &c.Limit)
	f.Text("continue", &c.Continue)
	f.Text("ownedBy", (*string)(&c.OwnedBy))
}

func (out *Result) fields(f *message.Fields) { out.fieldsWithin(f, MaxIntents, nil) }

// fieldsWithin is fields with the most entries of each list of intents, and the sections, which are read.
func (out *Result) fieldsWithin(f *message.Fields, intents int, section func(name string) bool) {
	f.Text("result", (*string)(&out.Result))
	f.Duration("requeueAfter", &out.RequeueAfter)
	f.RawObject("status", &out.Status)
	message.Objects(f, "conditions", MaxConditions, &out.Conditions, (*Condition).fields)
	f.RawObject("patch", &out.Patch)
	message.Objects(f, "release", intents, &out.Release, (*Ref).fields)
	message.Objects(f, "apply", intents, &out.Apply, (*Apply).fields)
	message.Objects(f, "delete", intents, &out.Delete, (*Delete).fields)
	f.Bool("prune", &out.Prune)
	message.Objects(f, "events", intents, &out.Events, (*Event).fields)
	message.Objects(f, "groups", MaxIntents, &out.Groups, (*Group).fields)
	f.Raw("memo", &out.Memo)
	message.Pointer(f, "error", &out.Error, (*Failure).Fields)
	f.SectionsOf(section, &out.Sections)
}

// fields lists what a result may have of a condition.
func (c *Condition) fields(f *message.Fields) {
	f.Required("type", &c.Type)
	f.Text("status", &c.Status)
	f.Text("reason", &c.Reason)
	f.Text("message", &c.Message)
}

func (a *Apply) fields(f *message.Fields) {
	f.RawObject("object", &a.Object)
	f.Bool("adopt", &a.Adopt)
	f.Bool("create", &a.Create)
	f.Bool("replace", &a.Replace)
	f.Text("group", &a.Group)
}

func (e *Event) fields(f *message.Fields) {
	f.Required("type", &e.Type)
	f.Required("reason", &e.Reason)
	f.Text("message", &e.Message)
	f.Text("group", &e.Group)
}

// Fields lists the fields of a failure, for messages of capabilities.
func (e *Failure) Fields(f *message.Fields) {
	f.Text("reason", &e.Reason)
	f.Text("message", &e.Message)
	f.Duration("after", &e.After)
	f.Bool("terminal", &e.Terminal)
}

// DecodeCall is [message.DecodeStrict] for the message of a capability call.
func DecodeCall(data []byte, list func(*message.Fields)) error {
	if len(data) > MaxCall {
		return &rawjson.Error{Offset: MaxCall, Message: "longer than " + strconv.Itoa(MaxCall) + " bytes"}
	}
	return message.DecodeStrict(data, list)
}
