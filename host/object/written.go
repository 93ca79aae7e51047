package object

import (
	"bytes"
	"math/bits"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi/rawjson"
)

// This file finds how many bytes of an object the host's field managers have written, by
// metadata.managedFields.

// What an entry of managedFields is counted with beside its fields and their values. What was
// applied was usually created so: this is about its metadata.
const (
	applyBytes  = 512
	updateBytes = 256
)

// bytesNote is in the value of the host's annotations of applies that are large, before
// the size: where only metadata is known, nothing else shows it.
const (
	bytesNote    = " bytes="
	minNotedSize = 1024
	maxNotedSize = 4 << 20 // more than the API server stores: somebody else has written it
)

// NoteBytes returns what the value of the host's annotation of an apply ends in, for a body
// of that size: "" for a small one.
func NoteBytes(size int) string {
	if size < minNotedSize {
		return ""
	}
	return bytesNote + strconv.Itoa(size)
}

// CutNotedBytes returns the value of the host's annotation of an apply without what
// [NoteBytes] has added, and the size.
func CutNotedBytes(value string) (rest string, size int) {
	rest, noted, _ := strings.Cut(value, bytesNote)
	size, _ = strconv.Atoi(noted)
	return rest, max(0, min(size, maxNotedSize))
}

// BytesBy returns about how many bytes of the object the field managers have written whose
// names begin with a prefix, which begins with [ManagerPrefix].
func (o *Object) BytesBy(prefix string) int { return BytesBy(o.ManagedFields, prefix) }

// BytesBy is [Object.BytesBy] of the ManagedFields of an object.
func BytesBy(entries []metav1.ManagedFieldsEntry, prefix string) (size int) {
	for i := range entries {
		if e := &entries[i]; strings.HasPrefix(e.Manager, prefix) {
			n, _ := strconv.Atoi(e.FieldsType)
			size += n
		}
	}
	return size
}

// roughly rounds a size to one of eight between two powers of two, so that objects of
// about the same size share an entry.
func roughly(size int) int {
	shift := max(0, bits.Len(uint(size))-4)
	return (size + 1<<shift>>1) >> shift << shift
}

// writtenBy returns how many bytes the manager of an entry has written.
func (o *Object) writtenBy(e metav1.ManagedFieldsEntry, fields []byte) int {
	size := len(fields) + valueBytes(fields, o.Raw, maxFieldDepth)
	if e.Operation != metav1.ManagedFieldsOperationApply && (e.Subresource != "" || !MayBeCreation(e.Manager, fields)) {
		return size + updateBytes
	}
	if o.MetadataOnly {
		size += o.notedBytes(fields)
	}
	return size + applyBytes
}

// notedBytes returns the sizes in those of the host's annotations that are among the fields.
func (o *Object) notedBytes(fields []byte) (size int) {
	annotations, _ := rawjson.Lookup(fields, "f:metadata", "f:annotations")
	rawjson.NewReader(annotations).Object(func(name string) {
		if name = strings.TrimPrefix(name, "f:"); strings.Contains(name, appliedMark) {
			_, noted := CutNotedBytes(o.Annotations[name])
			size += noted
		}
	})
	return size
}

// appliedMark is in the names of the host's annotations of applies.
const appliedMark = "thole.dev/applied"

// maxFieldDepth bounds how deep values are looked into: what is deeper counts as a whole.
const maxFieldDepth = 8

// valueBytes returns the length of what a set of fields (FieldsV1) names of a value. A list
// counts as a whole.
func valueBytes(fields, value []byte, depth int) (size int) {
	v := rawjson.NewReader(value)
	if depth == 0 || len(bytes.TrimSpace(fields)) <= len("{}") || v.Kind() != '{' {
		return len(value)
	}
	set := map[string][]byte{}
	f := rawjson.NewReader(fields)
	f.Object(func(name string) { set[name] = f.Raw() })
	if len(set) == 0 {
		return len(value)
	}
	v.Object(func(name string) {
		if of, ok := set["f:"+name]; ok {
			size += len(name) + valueBytes(of, v.Raw(), depth-1)
		}
	})
	return size
}
