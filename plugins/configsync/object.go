package main

import (
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/sdk"
)

// Object has the fields of a ConfigMap or a Secret that are copied. All copies of a source
// are read in every run, which is the reason for the generated codec.
type Object struct {
	sdk.TypeMeta
	Metadata   sdk.ObjectMeta    `json:"metadata"`
	Type       string            `json:"type,omitempty"` // of a Secret
	Immutable  bool              `json:"immutable,omitempty"`
	Data       map[string]string `json:"data,omitempty"`       // in base64 in a Secret
	BinaryData map[string]string `json:"binaryData,omitempty"` // of a ConfigMap, in base64
}

// sameContent reports whether two objects have the same content.
func (o *Object) sameContent(other *Object) bool {
	return o.Type == other.Type && o.Immutable == other.Immutable &&
		maps.Equal(o.Data, other.Data) && maps.Equal(o.BinaryData, other.BinaryData)
}

// sameSource reports whether a copy has the annotations of the desired copy.
func (o *Object) sameSource(want *Object) bool {
	for name, value := range want.Metadata.Annotations {
		if o.Metadata.Annotations[name] != value {
			return false
		}
	}
	return true
}

// digest returns a digest of the content. It shows that contents differ; equal digests
// do not prove that they are equal.
func (o *Object) digest() string {
	sum := fnv.New64a()
	word := func(s string) { _, _ = io.WriteString(sum, strconv.Itoa(len(s))+":"+s) }
	word(o.Type)
	word(strconv.FormatBool(o.Immutable))
	for _, entries := range []map[string]string{o.Data, o.BinaryData} {
		word(strconv.Itoa(len(entries)))
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			word(name)
			word(entries[name])
		}
	}
	return strconv.FormatUint(sum.Sum64(), 16)
}

// maxLabel is the maximum length of a label value.
const maxLabel = 63

// sourceLabel returns the label value by which the copies of a source are listed:
// <namespace>.<name>. If that is too long, its end is replaced by '_', which does not occur
// in names, and a digest.
func sourceLabel(namespace, name string) string {
	label := namespace + "." + name
	if len(label) <= maxLabel {
		return label
	}
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, label)
	end := "_" + strconv.FormatUint(sum.Sum64(), 16)
	return label[:maxLabel-len(end)] + end
}
