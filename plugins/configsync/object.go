package main

import (
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/sdk"
)

// Object is a ConfigMap or a Secret, as far as it is copied. The copies of a
// large one are many times its size, and all are read in every run: hence the
// generated codec.
type Object struct {
	sdk.TypeMeta
	Metadata   sdk.ObjectMeta    `json:"metadata"`
	Type       string            `json:"type,omitempty"` // of a Secret
	Immutable  bool              `json:"immutable,omitempty"`
	Data       map[string]string `json:"data,omitempty"`       // of a Secret in base64
	BinaryData map[string]string `json:"binaryData,omitempty"` // of a ConfigMap, in base64
}

// sameContent says whether two objects hold the same.
func (o *Object) sameContent(other *Object) bool {
	return o.Type == other.Type && o.Immutable == other.Immutable &&
		maps.Equal(o.Data, other.Data) && maps.Equal(o.BinaryData, other.BinaryData)
}

// sameSource says whether a copy names its source as it is wanted.
func (o *Object) sameSource(want *Object) bool {
	for name, value := range want.Metadata.Annotations {
		if o.Metadata.Annotations[name] != value {
			return false
		}
	}
	return true
}

// digest tells contents apart. It is no proof of being equal, and not used as
// one.
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

// mostLabel is how long the value of a label may be.
const mostLabel = 63

// sourceLabel is the value of the label that finds the copies of a source:
// <namespace>.<name>. Of a longer one the end is a digest, behind a mark that
// occurs in no name.
func sourceLabel(namespace, name string) string {
	label := namespace + "." + name
	if len(label) <= mostLabel {
		return label
	}
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, label)
	end := "_" + strconv.FormatUint(sum.Sum64(), 16)
	return label[:mostLabel-len(end)] + end
}
