package handled

import (
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// This file keeps the handled state in an annotation of the object.

// MaxContent is the largest content that an annotation has a copy of, in bytes. The API
// server limits all annotations of an object together to 256 KiB.
const MaxContent = 64 << 10

// Annotation returns the name of the annotation of a controller. Its parts are DNS labels, so
// that the name is valid whatever their lengths are.
func Annotation(plugin, controller string) string {
	return controller + "." + plugin + ".thole.dev/handled"
}

// Of returns the state of an object that was handled, with the content alone. tooLarge is set
// if there is more of it than [MaxContent]: the state then has a digest of it.
func Of(object []byte) (s State, tooLarge bool, err error) {
	content, err := Content(object)
	if err != nil {
		return s, false, err
	}
	s = State{Known: true, Object: content}
	if version, ok := rawjson.Lookup(object, "apiVersion"); ok {
		s.APIVersion = rawjson.NewReader(version).String()
	}
	if len(content) > MaxContent {
		return s.WithoutObject(), true, nil
	}
	return s, false, nil
}

// WithoutObject returns the state with a digest instead of the content.
func (s State) WithoutObject() State {
	if s.Object != nil {
		s.Object, s.Digest, s.APIVersion = nil, digestOf(s.Object), ""
	}
	return s
}

// The value of the annotation is a JSON object. Its first member is a digest of all that
// follows, by which an edit is noticed, and the second one is of the object that was handled,
// by which a copy of it is:
//
//	{"sum":"32 hex digits","uid":"...","apiVersion":"...","object":{...},"digest":"...","progress":...}
const (
	sumStart  = `{"sum":"`
	sumEnd    = `"`
	sumLength = 32
)

// Value returns the value of the annotation of the object with a uid, "" if there is nothing
// to keep.
func (s State) Value(uid string) string {
	if !s.Known && s.Progress == nil {
		return ""
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("uid").String(uid)
		if s.APIVersion != "" {
			w.Name("apiVersion").String(s.APIVersion)
		}
		if s.Object != nil {
			w.Name("object").Raw(s.Object)
		}
		if s.Digest != "" {
			w.Name("digest").String(s.Digest)
		}
		if s.Progress != nil {
			w.Name("progress").Raw(s.Progress)
		}
	})
	rest := "," + string(w.Bytes()[1:])
	return sumStart + digestOf([]byte(rest)) + sumEnd + rest
}

// Parse returns the state that the value of the annotation of an object with a uid has. An
// annotation that the host has not written so is invalid: the object was handled, and nothing
// else is known. One that was copied from another object is as good as none.
func Parse(value, uid string) (s State, valid bool) {
	if value == "" {
		return State{}, true
	}
	unknown := State{Known: true}
	head, ok := strings.CutPrefix(value, sumStart)
	if !ok || len(head) < sumLength+len(sumEnd) {
		return unknown, false
	}
	sum, rest := head[:sumLength], head[sumLength+len(sumEnd):]
	if sum != digestOf([]byte(rest)) {
		return unknown, false
	}
	of := ""
	r := rawjson.NewReader([]byte(value))
	r.Object(func(field string) {
		switch field {
		case "uid":
			of = r.String()
		case "apiVersion":
			s.APIVersion = strings.Clone(r.String())
		case "object":
			s.Object = r.Raw()
		case "digest":
			s.Digest = r.String()
		case "progress":
			s.Progress = r.Raw()
		}
	})
	if r.End() != nil {
		return unknown, false
	}
	if of != uid {
		return State{}, true
	}
	s.Known = s.Object != nil || s.Digest != ""
	return s, true
}

// Old returns what a request has of the handled state, nil if there is nothing: its object,
// with the identity of the present object if it has none. A digest of the content of the
// present object is as good as that content.
func (s State) Old(object []byte) ([]byte, error) {
	if s.Whole {
		return s.Object, nil
	}
	content := s.Object
	if content == nil && s.Digest != "" {
		now, err := Content(object)
		if err != nil {
			return nil, err
		}
		if digestOf(now) == s.Digest {
			content = now
		}
	}
	if content == nil {
		return nil, nil
	}
	identity := rawjson.NewWriter(nil)
	member := func(path ...string) {
		if value, ok := rawjson.Lookup(object, path...); ok {
			identity.Name(path[len(path)-1]).Raw(value)
		}
	}
	identity.Object(func() {
		if s.APIVersion != "" {
			identity.Name("apiVersion").String(s.APIVersion)
		} else {
			member("apiVersion")
		}
		member("kind")
		identity.Name("metadata").Object(func() {
			member("metadata", "name")
			member("metadata", "namespace")
			member("metadata", "uid")
		})
	})
	return rawjson.MergePatch(identity.Bytes(), content)
}
