package object

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// ParseMetadata parses the metadata of an object, which the API server sends as a
// PartialObjectMetadata or as the whole object. The result is an object of the kind with
// [Object.MetadataOnly] set. It does not alias raw.
func ParseMetadata(raw []byte, kind abi.Kind) (*Object, error) {
	parts, err := findParts(raw)
	if err != nil {
		return nil, fmt.Errorf("parse metadata: %w", err)
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(kind.APIVersion)
		w.Name("kind").String(kind.Kind)
		if parts.metadata.to > 0 {
			w.Name("metadata").Raw(raw[parts.metadata.from:parts.metadata.to])
		}
	})
	return parse(w.Bytes(), kind, true)
}

// Metadata returns the object without anything but apiVersion, kind and metadata. The
// result does not alias the object.
func (o *Object) Metadata() *Object {
	if o.MetadataOnly {
		return o
	}
	m, err := ParseMetadata(o.Raw, o.Kind)
	if err != nil {
		return o // cannot happen for an object that was parsed
	}
	m.ManagedFields = o.ManagedFields
	return m
}
