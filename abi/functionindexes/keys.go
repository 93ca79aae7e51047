package functionindexes

import (
	"bytes"
	"cmp"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// This file has the messages of [Export].

// Request is the input of [Export]: an object of the kind of an index.
type Request struct {
	Index  string
	Object []byte // JSON, as in [abi.Request]
	Config []byte // JSON: the administrator's configuration of the plugin; nil if there is none
}

// Result is the message that [Export] writes: by what the object is found.
type Result struct {
	Entries []Entry // with distinct keys
	Message string  // with a code other than [abi.CodeOK]: why the object has no keys; truncated to [abi.MaxErrorMessage]
}

// Entry is a key of an object, and a value that is read with it.
type Entry struct {
	Key   string
	Value []byte // JSON of up to MaxValue bytes; nil for none
}

// EncodeRequestParts returns the text of a request in parts, as [abi.EncodeRequestParts] does.
func EncodeRequestParts(q *Request) [][]byte {
	return message.EncodeParts(len(q.Config)+64, q.fieldsBeforeObject, q.Object)
}

// EncodeRequest returns the text of a request.
func EncodeRequest(q *Request) []byte { return bytes.Join(EncodeRequestParts(q), nil) }

// DecodeRequest decodes a request.
func DecodeRequest(data []byte) (*Request, error) {
	q := &Request{}
	return message.Checked(q, message.Decode(data, q.fields), nil)
}

// EncodeResult returns the text that [Export] writes.
func EncodeResult(out *Result) []byte { return message.Encode(256, out.fields) }

// DecodeResult decodes and checks what [Export] has written. Every error is a [*rawjson.Error] and of class abi.
func DecodeResult(data []byte) (*Result, error) {
	out := &Result{}
	return message.Checked(out, message.DecodeStrict(data, out.fields), out.check)
}

func (q *Request) fields(f *message.Fields) {
	q.fieldsBeforeObject(f)
	f.Raw("object", &q.Object)
}

func (q *Request) fieldsBeforeObject(f *message.Fields) {
	f.Required("index", &q.Index)
	f.Raw("config", &q.Config)
}

func (out *Result) fields(f *message.Fields) {
	message.Objects(f, "entries", MaxEntries, &out.Entries, (*Entry).fields)
	f.Text("message", &out.Message)
}

func (e *Entry) fields(f *message.Fields) {
	f.Required("key", &e.Key)
	f.Raw("value", &e.Value)
}

func (out *Result) check() error {
	out.Message = rawjson.Truncate(out.Message, abi.MaxErrorMessage)
	seen := make(map[string]bool, len(out.Entries))
	return message.CheckEach("entries", out.Entries, func(e Entry) error {
		if seen[e.Key] {
			return rawjson.NewError("key", "is given twice") // without the key, which may be of a Secret
		}
		seen[e.Key] = true
		return e.check()
	})
}

func (e Entry) check() error {
	return cmp.Or(checkKey(e.Key), message.CheckLength("value", len(e.Value), MaxValue))
}

func checkKey(key string) error {
	if key == "" {
		return rawjson.NewError("key", "is required")
	}
	return message.CheckLength("key", len(key), MaxKey)
}
