// Package content has what layers over the SDK compare of objects.
package content

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// MaxDepth is the depth from which on objects and arrays are compared as texts. It bounds the
// recursion, for the stack of a guest is small.
const MaxDepth = 64

// Of returns the part of an object in which a difference counts as a change: labels,
// annotations, and everything else but apiVersion, kind, metadata and status. What belongs
// to the host is left out.
func Of(object []byte) []byte { return of(object, true) }

// Spec is [Of] without labels and annotations: what the generation of an object counts.
func Spec(object []byte) []byte { return of(object, false) }

func of(object []byte, withTexts bool) []byte {
	w := rawjson.NewWriter(make([]byte, 0, len(object)+2))
	w.Object(func() {
		for r, more := first(object); more; more = r.NextMember() {
			switch name := r.Name(); name {
			case "apiVersion", "kind", "status":
			case "metadata":
				if texts := textsOf(r.Raw()); withTexts && len(texts) > len("{}") {
					w.Name(name).Raw(texts)
				}
			default:
				w.Name(name).Raw(r.Raw())
			}
		}
	})
	return w.Bytes()
}

// textsOf returns the labels and annotations of metadata.
func textsOf(metadata []byte) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		for r, more := first(metadata); more; more = r.NextMember() {
			if name := r.Name(); name == "labels" || name == "annotations" {
				if texts := ofOthers(r.Raw()); len(texts) > len("{}") {
					w.Name(name).Raw(texts)
				}
			}
		}
	})
	return w.Bytes()
}

// ofOthers returns labels or annotations without those of the host, and for it.
func ofOthers(texts []byte) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		for r, more := first(texts); more; more = r.NextMember() {
			name := r.Name()
			if !abi.ReservedAnnotation(name) && !abi.ReservedLabel(name) && !strings.HasPrefix(name, "reconcile.thole.dev/") {
				w.Name(name).Raw(r.Raw())
			}
		}
	})
	return w.Bytes()
}

// first returns a reader at the first member of an object; more is false if there is none.
func first(object []byte) (r *rawjson.Reader, more bool) {
	r = rawjson.NewReader(object)
	return r, r.Kind() == '{' && r.FirstMember()
}

// Members returns the members of an object.
func Members(object []byte) (members map[string][]byte, ok bool) {
	list, err := rawjson.Members(object)
	members = make(map[string][]byte, len(list))
	for _, m := range list {
		members[m.Name] = m.Value // the last one of a name counts
	}
	return members, err == nil
}

// Equal reports whether two values are the same, in whatever order members are.
func Equal(a, b []byte, depth int) bool {
	return bytes.Equal(a, b) || bytes.Equal(appendSorted(nil, a, depth), appendSorted(nil, b, depth))
}

// appendSorted appends a value with the members of all objects sorted, and without those
// that are null.
func appendSorted(dst, value []byte, depth int) []byte {
	switch kind := rawjson.NewReader(value).Kind(); {
	case depth >= MaxDepth:
	case kind == '{':
		if members, ok := Members(value); ok {
			return appendMembers(dst, members, depth)
		}
	case kind == '[':
		if elements, err := rawjson.Elements(value); err == nil {
			dst = append(dst, '[')
			for _, e := range elements {
				dst = append(appendSorted(dst, e, depth+1), ',')
			}
			return append(dst, ']')
		}
	}
	return append(dst, value...)
}

func appendMembers(dst []byte, members map[string][]byte, depth int) []byte {
	dst = append(dst, '{')
	for _, name := range codec.Keys(members, make([]string, 0, len(members))) {
		if value := NonNull(members[name]); value != nil {
			dst = append(rawjson.AppendString(dst, name), ':')
			dst = append(appendSorted(dst, value, depth+1), ',')
		}
	}
	return append(dst, '}')
}

// NonNull returns nil for a value that is null or empty.
func NonNull(value []byte) []byte {
	if len(value) == 0 || rawjson.NewReader(value).Kind() == 'n' {
		return nil
	}
	return value
}

// Absent is the digest of no value.
const Absent = "-"

// Digest returns a digest of a value that does not depend on the order of members.
func Digest(value []byte) string {
	if value == nil {
		return Absent
	}
	sum := uint64(14695981039346656037) // FNV-1a
	for _, c := range appendSorted(nil, value, 0) {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	return strconv.FormatUint(sum, 36)
}
