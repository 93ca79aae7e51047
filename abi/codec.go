package abi

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"unicode/utf8"

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
func EncodeManifest(m *Manifest) []byte { return encode(128, m.fields) }

// DecodeManifest decodes and checks what describe wrote. Every error is a
// [*rawjson.Error].
func DecodeManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	err := decodeStrict(data, m.fields)
	// The encoders write features first. A field of a feature that this package does
	// not have is unknown, which says less than the name of the feature.
	if unknown := m.checkFeatureNames(); unknown != nil {
		err = unknown
	}
	return checked(m, err, m.check)
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
	return withObject(encode(len(q.Memo)+len(q.Config)+256, q.fieldsBeforeObject), q.Object)
}

// withObject returns the parts of a text, which is an object with at least one member, and of
// its last member object.
func withObject(text, object []byte) [][]byte {
	const end, member = `}`, `,"object":`
	if len(object) == 0 {
		return [][]byte{text}
	}
	return [][]byte{append(text[:len(text)-len(end)], member...), object, []byte(end)}
}

// DecodeRequest decodes a request.
func DecodeRequest(data []byte) (*Request, error) { return ReadRequest(data, nil) }

// ReadRequest is [DecodeRequest] for a guest that decodes the object, which is
// most of a request, in the same pass. It calls object, if not nil, at an
// object that is not null, with the fields that were read before it. The
// callback reads the value or leaves it to be skipped.
func ReadRequest(data []byte, object func(*Request, *rawjson.Reader)) (*Request, error) {
	q, f := &Request{}, &fields{r: rawjson.NewReader(data)}
	f.value(func(f *fields) { q.fields(f, object) })
	return checked(q, f.r.End(), nil)
}

// EncodeResult returns the text of a result.
func EncodeResult(out *Result) []byte { return encode(512, out.fields) }

// DecodeResult decodes what reconcile wrote, checks it against the limits of
// this package and truncates messages that are too long. Every error is a
// [*rawjson.Error] and of class abi. Memo and Progress do not alias data, because they
// outlive the run. Empty data is an empty result: a guest that fails need not
// write one.
func DecodeResult(data []byte) (*Result, error) { return DecodeResultFor("", MaxIntents, data) }

// DecodeResultFor is [DecodeResult] for a controller whose status has this owner, and with another
// limit than [MaxIntents].
func DecodeResultFor(owner StatusOwner, intents int, data []byte) (*Result, error) {
	out := &Result{}
	if len(data) == 0 {
		return out, nil
	}
	err := decodeStrict(data, func(f *fields) { out.fieldsWithin(f, intents) })
	out.Memo, out.Progress = bytes.Clone(out.Memo), bytes.Clone(out.Progress)
	return checked(out, err, func() error { return cmp.Or(out.check(intents), out.checkStatus(owner)) })
}

// EncodeGetCall returns the message of the capability get.
func EncodeGetCall(c *GetCall) []byte { return encode(128, c.fields) }

// DecodeGetCall decodes and checks the message of the capability get. The host
// returns [CodeInvalid] to the guest if there is an error.
func DecodeGetCall(data []byte) (*GetCall, error) {
	c := &GetCall{}
	return checked(c, decodeCall(data, c.fields), c.check)
}

// EncodeListCall returns the message of the capability list.
func EncodeListCall(c *ListCall) []byte { return encode(128, c.fields) }

// DecodeListCall decodes and checks the message of the capability list. The
// host returns [CodeInvalid] to the guest if there is an error.
func DecodeListCall(data []byte) (*ListCall, error) {
	c := &ListCall{}
	return checked(c, decodeCall(data, c.fields), c.check)
}

// The methods below list the fields of each message, in the order in which they are
// encoded. See [fields], and the tables of SPEC.md.

func (m *Manifest) fields(f *fields) {
	f.required("name", &m.Name)
	f.text("version", &m.Version)
	f.text("memoVersion", &m.MemoVersion)
	texts(f, "features", MaxFeatures, &m.Features)
	objects(f, "controllers", MaxControllers, &m.Controllers, (*Controller).fields)
}

func (c *Controller) fields(f *fields) {
	f.required("name", &c.Name)
	f.object("for", true, c.For.fields)
	objects(f, "owns", MaxKinds, &c.Owns, (*Followed).fields)
	objects(f, "reads", MaxKinds, &c.Reads, (*Followed).fields)
	objects(f, "watches", MaxKinds, &c.Watches, (*Watch).fields)
	objects(f, "writes", MaxKinds, &c.Writes, (*Kind).fields)
	objects(f, "indexes", MaxIndexes, &c.Indexes, (*Index).fields)
	f.boolean("finalizer", &c.Finalizer)
	f.boolean("whileDeleting", &c.WhileDeleting)
	f.text("statusOwner", (*string)(&c.StatusOwner))
	f.text("applied", (*string)(&c.Applied))
	f.text("changes", (*string)(&c.Changes))
	f.boolean("gone", &c.Gone)
	f.duration("interval", &c.Interval)
	pointer(f, "daemon", &c.Daemon, (*Daemon).fields)
	objects(f, "scans", MaxScans, &c.Scans, (*Scan).fields)
	objects(f, "http", MaxHTTPHosts, &c.HTTP, (*HTTPHost).fields)
	objects(f, "receives", MaxReceives, &c.Receives, (*Receive).fields)
	objects(f, "gauges", MaxGauges, &c.Gauges, (*Gauge).fields)
	f.duration("timeout", &c.Timeout)
	f.count("concurrency", &c.Concurrency)
	f.object("retry", c.Retry != Retry{}, c.Retry.fields)
	f.object("conditions", !c.Conditions.IsZero(), c.Conditions.fields)
	texts(f, "validate", maxOperations, &c.Validate)
	texts(f, "mutate", maxOperations, &c.Mutate)
	f.boolean("convert", &c.Convert)
	f.sections(&c.Sections)
}

func (w *Followed) fields(f *fields) {
	w.Kind.fields(f)
	texts(f, "namespaces", MaxNamespaces, &w.Namespaces)
	f.text("labelSelector", &w.LabelSelector)
	f.text("fieldSelector", &w.FieldSelector)
	f.boolean("metadataOnly", &w.MetadataOnly)
	f.duration("pollInterval", &w.PollInterval)
}

func (w *Watch) fields(f *fields) {
	w.Followed.fields(f)
	f.required("by", (*string)(&w.By))
	f.text("key", &w.Key)
	f.text("field", &w.Field)
}

func (r *Retry) fields(f *fields) {
	f.duration("initial", &r.Initial)
	f.count("factor", &r.Factor)
	f.duration("cap", &r.Cap)
	f.count("jitter", &r.Jitter)
	f.count("attempts", &r.Attempts)
	f.text("then", (*string)(&r.Then))
}

func (k *Kind) fields(f *fields) {
	f.required("apiVersion", &k.APIVersion)
	f.required("kind", &k.Kind)
}

func (c *Conditions) fields(f *fields) {
	f.text("target", &c.Target)
	texts(f, "owned", MaxConditions, &c.Owned)
	texts(f, "summarized", MaxConditions, &c.Summarized)
	texts(f, "negativePolarity", MaxConditions, &c.NegativePolarity)
	objects(f, "summaries", MaxSummaries, &c.Summaries, (*Summary).fields)
}

func (s *Summary) fields(f *fields) {
	f.required("target", &s.Target)
	texts(f, "summarized", MaxConditions, &s.Summarized)
	texts(f, "negativePolarity", MaxConditions, &s.NegativePolarity)
}

// fields lists what is read of a request: the object last, so that a guest which reads it
// in place has read the other fields before it.
func (q *Request) fields(f *fields, object func(*Request, *rawjson.Reader)) {
	q.fieldsBeforeObject(f)
	if object == nil {
		f.raw("object", &q.Object)
	} else if f.reads("object") {
		if q.Object = nil; f.r.Null() {
			return
		}
		start := f.r.Pos()
		if object(q, f.r); f.r.Pos() == start {
			f.r.Skip()
		}
		q.Object = f.r.Since(start)
	}
}

func (q *Request) fieldsBeforeObject(f *fields) {
	f.required("controller", &q.Controller)
	f.boolean("deleting", &q.Deleting)
	f.boolean("gone", &q.Gone)
	texts(f, "reasons", math.MaxInt, &q.Reasons)
	f.count("attempt", &q.Attempt)
	pointer(f, "previous", &q.Previous, (*Previous).fields)
	f.raws("signals", math.MaxInt, &q.Signals)
	pointer(f, "change", &q.Change, (*Change).fields)
	f.raw("memo", &q.Memo)
	f.time("now", &q.Now)
	f.seed("seed", &q.Seed)
	f.raw("config", &q.Config)
	f.sections(&q.Sections)
}

func (c *Change) fields(f *fields) {
	f.required("type", (*string)(&c.Type))
	f.raw("old", &c.Old)
	f.raw("progress", &c.Progress)
}

func (p *Previous) fields(f *fields) {
	f.required("class", (*string)(&p.Class))
	objects(f, "failures", math.MaxInt, &p.Failures, (*EffectFailure).fields)
}

func (e *EffectFailure) fields(f *fields) {
	f.required("verb", &e.Verb)
	if f.reads("ref") {
		e.Ref = Ref{} // of a field given twice the last one counts
		f.value(e.Ref.fields)
	} else if f.writes("ref", true) {
		f.value(e.Ref.fields)
	}
	f.required("class", (*string)(&e.Class))
	f.text("reason", &e.Reason)
	f.text("message", &e.Message)
	f.text("group", &e.Group)
}

func (ref *Ref) fields(f *fields) {
	f.required("apiVersion", &ref.APIVersion)
	f.required("kind", &ref.Kind)
	f.text("namespace", &ref.Namespace)
	f.required("name", &ref.Name)
	f.text("uid", &ref.UID)
}

func (c *GetCall) fields(f *fields) {
	c.Ref.fields(f)
	texts(f, "fields", MaxFields, &c.Fields)
}

func (c *ListCall) fields(f *fields) {
	f.required("apiVersion", &c.APIVersion)
	f.required("kind", &c.Kind)
	f.text("namespace", &c.Namespace)
	f.text("labelSelector", &c.LabelSelector)
	f.text("fieldSelector", &c.FieldSelector)
	texts(f, "fields", MaxFields, &c.Fields)
	f.count("limit", &c.Limit)
	f.text("continue", &c.Continue)
	f.text("ownedBy", (*string)(&c.OwnedBy))
}

func (out *Result) fields(f *fields) { out.fieldsWithin(f, MaxIntents) }

// fieldsWithin is fields with the most entries of each list of intents, which are read.
func (out *Result) fieldsWithin(f *fields, intents int) {
	f.text("result", (*string)(&out.Result))
	f.duration("requeueAfter", &out.RequeueAfter)
	f.rawObject("status", &out.Status)
	objects(f, "conditions", MaxConditions, &out.Conditions, (*Condition).fields)
	f.rawObject("patch", &out.Patch)
	objects(f, "release", intents, &out.Release, (*Ref).fields)
	objects(f, "apply", intents, &out.Apply, (*Apply).fields)
	objects(f, "delete", intents, &out.Delete, (*Delete).fields)
	f.boolean("prune", &out.Prune)
	objects(f, "events", intents, &out.Events, (*Event).fields)
	objects(f, "groups", MaxIntents, &out.Groups, (*Group).fields)
	f.raw("memo", &out.Memo)
	f.raw("progress", &out.Progress)
	pointer(f, "error", &out.Error, (*Failure).fields)
}

// fields lists what a result may have of a condition.
func (c *Condition) fields(f *fields) {
	f.required("type", &c.Type)
	f.text("status", &c.Status)
	f.text("reason", &c.Reason)
	f.text("message", &c.Message)
}

func (a *Apply) fields(f *fields) {
	f.rawObject("object", &a.Object)
	f.boolean("adopt", &a.Adopt)
	f.boolean("create", &a.Create)
	f.boolean("replace", &a.Replace)
	f.text("group", &a.Group)
}

func (e *Event) fields(f *fields) {
	f.required("type", &e.Type)
	f.required("reason", &e.Reason)
	f.text("message", &e.Message)
	f.text("group", &e.Group)
}

func (e *Failure) fields(f *fields) {
	f.text("reason", &e.Reason)
	f.text("message", &e.Message)
	f.duration("after", &e.After)
	f.boolean("terminal", &e.Terminal)
}

// encode returns the text of a message, of which size is an estimate.
func encode(size int, list func(*fields)) []byte {
	w := rawjson.NewWriter(make([]byte, 0, size))
	f := &fields{w: w, member: noMember}
	f.value(list)
	return w.Bytes()
}

// decodeStrict reads a message that a guest has written.
func decodeStrict(data []byte, list func(*fields)) error {
	if !utf8.Valid(data) {
		valid := 0
		for c, size := utf8.DecodeRune(data); c != utf8.RuneError || size > 1; c, size = utf8.DecodeRune(data[valid:]) {
			valid += size
		}
		return &rawjson.Error{Offset: valid, Message: "the text is not UTF-8"}
	}
	f := &fields{r: rawjson.NewReader(data)}
	f.r.Strict, f.r.MaxDepth = true, MaxDepth
	f.value(list)
	return f.r.End()
}

// decodeCall is decodeStrict for the message of a capability call.
func decodeCall(data []byte, list func(*fields)) error {
	if len(data) > MaxCall {
		return &rawjson.Error{Offset: MaxCall, Message: "longer than " + strconv.Itoa(MaxCall) + " bytes"}
	}
	return decodeStrict(data, list)
}

// checked returns a message that was decoded, or the first error of decoding
// and checking it.
func checked[T any](m *T, err error, check func() error) (*T, error) {
	if err == nil && check != nil {
		err = check()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}
