package abi

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The messages of [ExportIndex] and [ImportIndexGet]: SPEC.md, "Index".

// Index is what the host keeps the objects of a kind by. With a field it is by the values of
// that, so that a list with a field selector does not look at all of them. Without one it is
// by keys that the guest gives to each object in [ExportIndex], for [ImportIndexGet].
type Index struct {
	Name  string // a DNS label, distinct within the controller
	Kind  Kind   // one that get and list may read
	Field string // a path such as spec.volumes[*].secret.secretName, see [fieldpath.Path]; "" for keys of the guest
}

// IndexRequest is the input of [ExportIndex]: an object of the kind of an index.
type IndexRequest struct {
	Index  string
	Object []byte // JSON, as in [Request]
	Config []byte // JSON: the administrator's configuration of the plugin; nil if there is none
}

// IndexResult is the message that [ExportIndex] writes: by what the object is found.
type IndexResult struct {
	Entries []IndexEntry // with distinct keys
	Message string       // with a code other than [CodeOK]: why the object has no keys; truncated to MaxErrorMessage
}

// IndexEntry is a key of an object, and a value that is read with it.
type IndexEntry struct {
	Key   string
	Value []byte // JSON of up to MaxIndexValue bytes; nil for none
}

// IndexGetCall is the message of the capability index_get. The reply is an [IndexReply].
type IndexGetCall struct {
	Index     string
	Key       string
	Namespace string // "" means the primary's, or all where the plugin may read them
}

// IndexReply is the reply to an [IndexGetCall], ordered by namespace and name.
type IndexReply struct {
	Items []IndexItem
}

// IndexItem is an object that has the key.
type IndexItem struct {
	Namespace string
	Name      string
	Value     []byte // JSON; nil for none
}

// EncodeIndexRequestParts returns the text of a request of [ExportIndex] in parts, as
// [EncodeRequestParts] does.
func EncodeIndexRequestParts(q *IndexRequest) [][]byte {
	return message.EncodeParts(len(q.Config)+64, q.fieldsBeforeObject, q.Object)
}

// EncodeIndexRequest returns the text of a request of [ExportIndex].
func EncodeIndexRequest(q *IndexRequest) []byte { return bytes.Join(EncodeIndexRequestParts(q), nil) }

// DecodeIndexRequest decodes a request of [ExportIndex].
func DecodeIndexRequest(data []byte) (*IndexRequest, error) {
	q := &IndexRequest{}
	return message.Checked(q, message.Decode(data, func(f *message.Fields) {
		q.fieldsBeforeObject(f)
		f.Raw("object", &q.Object)
	}), nil)
}

// EncodeIndexResult returns the text that [ExportIndex] writes.
func EncodeIndexResult(out *IndexResult) []byte { return message.Encode(256, out.fields) }

// DecodeIndexResult decodes and checks what [ExportIndex] has written. Every error is a
// [*rawjson.Error] and of class abi.
func DecodeIndexResult(data []byte) (*IndexResult, error) {
	out := &IndexResult{}
	return message.Checked(out, message.DecodeStrict(data, out.fields), out.check)
}

// EncodeIndexGetCall returns the message of the capability index_get.
func EncodeIndexGetCall(c *IndexGetCall) []byte { return message.Encode(128, c.fields) }

// DecodeIndexGetCall decodes and checks the message of the capability index_get. The host
// returns [CodeInvalid] to the guest if there is an error.
func DecodeIndexGetCall(data []byte) (*IndexGetCall, error) {
	c := &IndexGetCall{}
	return message.Checked(c, DecodeCall(data, c.fields), c.check)
}

// EncodeIndexReply returns the text of a reply to index_get.
func EncodeIndexReply(r *IndexReply) []byte { return message.Encode(256, r.fields) }

// DecodeIndexReply decodes the reply to index_get.
func DecodeIndexReply(data []byte) (*IndexReply, error) {
	r := &IndexReply{}
	return message.Checked(r, message.Decode(data, r.fields), nil)
}

func (x *Index) fields(f *message.Fields) {
	f.Required("name", &x.Name)
	f.Object("kind", true, x.Kind.fields)
	f.Text("field", &x.Field)
}

func (q *IndexRequest) fieldsBeforeObject(f *message.Fields) {
	f.Required("index", &q.Index)
	f.Raw("config", &q.Config)
}

func (out *IndexResult) fields(f *message.Fields) {
	message.Objects(f, "entries", MaxIndexEntries, &out.Entries, (*IndexEntry).fields)
	f.Text("message", &out.Message)
}

func (e *IndexEntry) fields(f *message.Fields) {
	f.Required("key", &e.Key)
	f.Raw("value", &e.Value)
}

func (c *IndexGetCall) fields(f *message.Fields) {
	f.Required("index", &c.Index)
	f.Required("key", &c.Key)
	f.Text("namespace", &c.Namespace)
}

func (r *IndexReply) fields(f *message.Fields) {
	message.Objects(f, "items", math.MaxInt, &r.Items, (*IndexItem).fields)
}

func (i *IndexItem) fields(f *message.Fields) {
	f.Text("namespace", &i.Namespace)
	f.Required("name", &i.Name)
	f.Raw("value", &i.Value)
}

// checkIndex returns an error for an index of a kind that is not read: no list could
// use it. Whether the kind has the field is not known here.
func (c Controller) checkIndex(x Index) error {
	err := cmp.Or(CheckName("name", x.Name), rawjson.Within("kind", x.Kind.check()))
	if err == nil && x.Field != "" {
		err = CheckPath("field", x.Field, "spec.nodeName")
	}
	switch {
	case err != nil:
		return err
	case !c.MayRead(x.Kind):
		return rawjson.NewError("kind", rawjson.Quote(x.Kind.String())+" is not a kind that the controller may read: name it in reads")
	case x.Field != "" && !isMetadata(x.Field) && c.readsMetadataOnly(x.Kind):
		return rawjson.NewError("field", rawjson.Quote(x.Field)+" is not in the metadata, of which metadataOnly keeps nothing else")
	}
	return nil
}

// checkIndexes limits the indexes of one kind, which the controllers of a plugin share. Two indexes of keys that have one name must be of one kind: the guest is given the name.
func (m *Manifest) checkIndexes() error {
	indexes, kinds := map[Kind]map[string]bool{}, map[string]Kind{}
	add := func(kind Kind, by string) error {
		if indexes[kind] == nil {
			indexes[kind] = map[string]bool{}
		}
		indexes[kind][by] = true
		if len(indexes[kind]) <= MaxKindIndexes {
			return nil
		}
		return rawjson.NewError("", rawjson.Quote(kind.String())+" has more than "+strconv.Itoa(MaxKindIndexes)+" indexes in this plugin")
	}
	return message.CheckEach("controllers", m.Controllers, func(c Controller) error {
		return message.CheckEach("indexes", c.Indexes, func(x Index) error {
			if x.Field != "" {
				return add(x.Kind, x.Field)
			}
			if other, ok := kinds[x.Name]; ok && other != x.Kind {
				return rawjson.NewError("name", rawjson.Quote(x.Name)+" is an index of "+rawjson.Quote(other.String())+" in another controller: give one of them another name")
			}
			kinds[x.Name] = x.Kind
			return add(x.Kind, " "+x.Name) // no field has a space
		})
	})
}

// IndexesByKeys returns the indexes whose keys the guest gives, each once.
func (m *Manifest) IndexesByKeys() (all []Index) {
	for _, c := range m.Controllers {
		for _, x := range c.Indexes {
			if x.Field == "" && !slices.ContainsFunc(all, func(other Index) bool { return other.Name == x.Name }) {
				all = append(all, x)
			}
		}
	}
	return all
}

// PrimaryIndex returns the index of that name, by which the primaries are found. The error is a
// [*rawjson.Error].
func (c *Controller) PrimaryIndex(name string) (Index, error) {
	i := slices.IndexFunc(c.Indexes, func(x Index) bool { return x.Name == name })
	switch {
	case i < 0:
		return Index{}, rawjson.NewError("", rawjson.Quote(name)+" is not an index of the controller")
	case c.Indexes[i].Kind != c.For.Kind:
		return Index{}, rawjson.NewError("", rawjson.Quote(name)+" is an index of "+rawjson.Quote(c.Indexes[i].Kind.String())+", must be of the primary kind "+rawjson.Quote(c.For.Kind.String()))
	}
	return c.Indexes[i], nil
}

// IndexByKeys returns the index of that name whose keys the guest gives.
func (c *Controller) IndexByKeys(name string) (x Index, ok bool) {
	i := slices.IndexFunc(c.Indexes, func(x Index) bool { return x.Name == name && x.Field == "" })
	if i < 0 {
		return x, false
	}
	return c.Indexes[i], true
}

func (out *IndexResult) check() error {
	out.Message = rawjson.Truncate(out.Message, MaxErrorMessage)
	seen := make(map[string]bool, len(out.Entries))
	return message.CheckEach("entries", out.Entries, func(e IndexEntry) error {
		if seen[e.Key] {
			return rawjson.NewError("key", "is given twice") // without the key, which may be of a Secret
		}
		seen[e.Key] = true
		return e.check()
	})
}

func (e IndexEntry) check() error {
	return cmp.Or(checkIndexKey(e.Key), message.CheckLength("value", len(e.Value), MaxIndexValue))
}

func (c *IndexGetCall) check() error {
	return cmp.Or(CheckName("index", c.Index), checkIndexKey(c.Key), message.CheckLength("namespace", len(c.Namespace), MaxName))
}

func checkIndexKey(key string) error {
	if key == "" {
		return rawjson.NewError("key", "is required")
	}
	return message.CheckLength("key", len(key), MaxIndexKey)
}
