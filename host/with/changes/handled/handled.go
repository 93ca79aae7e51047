// Package handled has the handled state of an object: what the last run that ended well was
// given of it, and how the object differs from that now. abi/changes/SPEC.md is the text
// that it follows. It does no I/O; the host and the test kit of the SDK use it.
package handled

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/rawjson"
)

// State is the handled state of an object. The zero value is that of an object for which no
// run has ended well.
type State struct {
	// Known is set if a run has ended well for the object, or may have.
	Known bool
	// Object is what that run was given, as JSON: the whole object, or its [Content]. It
	// is nil if the host does not have it.
	Object []byte
	Whole  bool // Object has the status, too
	// APIVersion is that in which the content was given. "" means that of the present object.
	APIVersion string
	// Digest is that of the content if that is too large to be kept. "" means that
	// nothing is known of the content, unless there is Object.
	Digest string
	// Progress is what the runs since then have stored, as JSON.
	Progress []byte
}

// Change returns how an object differs from the handled state. resumed is set if no run has
// ended well for it since the host began to reconcile it.
func (s State) Change(object []byte, deleting, resumed bool) changes.Type {
	switch {
	case deleting:
		return changes.Deleted
	case !s.Known:
		return changes.Created
	case resumed:
		return changes.Resumed
	}
	return s.difference(object)
}

// difference returns what kind of difference there is between the handled state and an object.
func (s State) difference(object []byte) changes.Type {
	switch {
	case bytes.Equal(s.Object, object):
		return changes.Resynced
	case !s.hasContentOf(object):
		return changes.Updated
	case s.Whole && !sameStatus(s.Object, object):
		return changes.StatusUpdated
	}
	return changes.Resynced
}

// hasContentOf reports whether the content is that of an object.
func (s State) hasContentOf(object []byte) bool {
	now, err := Content(object)
	if err != nil {
		return false
	}
	if s.Object == nil {
		return s.Digest == digestOf(now)
	}
	before, err := Content(s.Object)
	if err != nil {
		return false
	}
	return equal(before, now)
}

// Equal reports whether two states have the same in them.
func (s State) Equal(other State) bool {
	return s.Known == other.Known && s.Digest == other.Digest && s.APIVersion == other.APIVersion &&
		equal(s.Object, other.Object) && equal(s.Progress, other.Progress)
}

// equal reports whether two values, of which any may be absent, differ in nothing but nulls.
func equal(a, b []byte) bool {
	of := func(value []byte) []byte { return append(append([]byte(`{"value":`), orNull(value)...), '}') }
	diff, err := rawjson.Diff(of(a), of(b))
	return err == nil && diff == nil
}

func sameStatus(a, b []byte) bool {
	before, _ := rawjson.Lookup(a, "status")
	after, _ := rawjson.Lookup(b, "status")
	return equal(before, after)
}

func orNull(value []byte) []byte {
	if len(value) == 0 {
		return []byte("null")
	}
	return value
}

// Content returns the part of an object, as JSON, in which a difference counts as a change:
// the labels and annotations, and everything beside the metadata but apiVersion, kind and
// status. Annotations of the host, and requests of people to it, are left out.
func Content(object []byte) ([]byte, error) {
	r := rawjson.NewReader(object)
	w := rawjson.NewWriter(make([]byte, 0, len(object)))
	w.Object(func() {
		r.Object(func(field string) {
			switch field {
			case "apiVersion", "kind", "status":
			case "metadata":
				if metadata := metadataContent(r); len(metadata) > len("{}") {
					w.Name(field).Raw(metadata)
				}
			default:
				if value := r.Raw(); string(value) != "null" {
					w.Name(field).Raw(value)
				}
			}
		})
	})
	return w.Bytes(), r.End()
}

// metadataContent reads metadata and returns its labels and annotations.
func metadataContent(r *rawjson.Reader) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		r.Object(func(field string) {
			if field != "labels" && field != "annotations" || r.Kind() != '{' {
				return
			}
			if texts := content(r); len(texts) > len("{}") {
				w.Name(field).Raw(texts)
			}
		})
	})
	return w.Bytes()
}

// content reads labels or annotations and returns them without those of the host.
func content(r *rawjson.Reader) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		r.Object(func(name string) {
			if value := r.Raw(); !bookkeeping(name) {
				w.Name(name).Raw(value)
			}
		})
	})
	return w.Bytes()
}

// bookkeeping reports whether a label or annotation is one of the host, or for it.
func bookkeeping(name string) bool {
	return abi.ReservedAnnotation(name) || abi.ReservedLabel(name) || strings.HasPrefix(name, "reconcile.thole.dev/")
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
}
