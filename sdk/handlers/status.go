package handlers

import (
	"bytes"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/codec"
	"github.com/thole-dev/thole/sdk/internal/content"
)

// statusFields has what the handlers for fields of the status were called for. It is kept in
// the memo, around that of the author, because the handled state may have no status, and has
// the one from before the run that handled it:
//
//	{"statusFields":{"scale":"1x8…"},"memo":…}
//
// What is not known counts as changed if there is a value: after a restart, when the memo is
// lost, and after a run of which an effect failed.
//
// A nil *statusFields is that of a controller without such handlers.
type statusFields struct {
	memo   memo
	failed bool              // an effect of the last run failed
	seen   map[string]string // by handler, the digest of what it was called for
	paths  map[string][]string
	object []byte // the status of the object
	before []byte // the author's status at the start of the run, as JSON
	encode func() ([]byte, error)
}

// newStatusFields reads the memo of a run, which has that of the author afterwards.
func newStatusFields(r *sdk.Run, encode func() ([]byte, error)) *statusFields {
	s := &statusFields{encode: encode, seen: map[string]string{}, paths: map[string][]string{}}
	if _, err := r.Memo(&s.memo); err != nil {
		s.memo = memo{}
	}
	if s.memo.fields == nil { // a memo of an author alone
		s.memo.fields = map[string]string{}
	} else {
		setMemo(r, s.memo.author)
	}
	s.failed = r.Previous != nil && len(r.Previous.Failures) > 0
	s.object = valueAt(r.Object(), []string{"status"})
	s.before, _ = encode()
	return s
}

func setMemo(r *sdk.Run, memo sdk.Raw) {
	if memo == nil {
		r.SetMemo(nil)
		return
	}
	r.SetMemo(memo)
}

// now returns the status with what the run has changed, as the host will write it.
func (s *statusFields) now() []byte {
	after, err := s.encode()
	if err != nil || bytes.Equal(s.before, after) { // an error ends the run when the status is written
		return s.object
	}
	patch, err := rawjson.Diff(objectOrEmpty(s.before), objectOrEmpty(after))
	if err != nil || patch == nil {
		return s.object
	}
	merged, err := rawjson.MergePatch(objectOrEmpty(s.object), patch)
	if err != nil {
		return s.object
	}
	return merged
}

func objectOrEmpty(status []byte) []byte {
	if content.NonNull(status) == nil {
		return []byte("{}")
	}
	return status
}

// changed reports whether a handler must be called for a value.
func (s *statusFields) changed(handler string, value []byte) bool {
	known := s.memo.fields[handler]
	if known == "" || s.failed {
		return value != nil || known != ""
	}
	return known != content.Digest(value)
}

// handled notes the digest of the value that a handler was called for, or need not be.
func (s *statusFields) handled(handler string, path []string, digest string) {
	if s != nil && path != nil && path[0] == "status" {
		s.seen[handler], s.paths[handler] = digest, path
	}
}

// store adds what was handled to the memo of the author. The entry of a handler that must be
// called again stays as it was.
func (s *statusFields) store(r *sdk.Run) {
	if s == nil {
		return
	}
	s.memo.author = nil
	_, _ = r.Memo(&s.memo.author) // a Raw can be read from any memo
	for handler, digest := range s.seen {
		if digest != content.Absent || s.memo.fields[handler] != "" {
			s.memo.fields[handler] = digest
		}
	}
	if len(s.memo.fields) > 0 {
		r.SetMemo(&s.memo)
	}
}

// changedSince reports whether a later handler of the run has changed what an earlier one was
// called for.
func (s *statusFields) changedSince() bool {
	if s == nil {
		return false
	}
	for handler, path := range s.paths {
		if s.seen[handler] != content.Digest(valueAt(s.now(), path[1:])) {
			return true
		}
	}
	return false
}

// memo is the memo of a controller with handlers for fields of the status.
type memo struct {
	fields map[string]string
	author sdk.Raw
}

// AppendJSON implements the codec of the SDK.
func (m *memo) AppendJSON(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = codec.AppendStringMap(codec.AppendName(dst, "statusFields"), m.fields)
	if m.author != nil {
		dst = append(codec.AppendName(dst, "memo"), m.author...)
	}
	return codec.CloseObject(dst, start), nil
}

// DecodeJSON implements the codec of the SDK.
func (m *memo) DecodeJSON(r *sdk.Reader) {
	if r.Kind() != '{' {
		r.Skip()
		return
	}
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "statusFields":
			codec.ReadStringMap(r, &m.fields)
		case "memo":
			m.author = append(sdk.Raw(nil), r.Raw()...)
		}
	}
}
