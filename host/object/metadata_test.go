package object_test

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestMetadataIsThatOfTheKind(t *testing.T) {
	pod := abi.Kind{APIVersion: "v1", Kind: "Pod"}
	const metadata = `"metadata":{"name":"a","labels":{"x":"y"}}`
	const managed = `"metadata":{"name":"a","labels":{"x":"y"},"managedFields":[{"manager":"thole/p/c","operation":"Apply","apiVersion":"v1","fieldsV1":{"f:x":{}}}]}`
	const want = `{"apiVersion":"v1","kind":"Pod",` + metadata + `}`
	for _, text := range []string{
		`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` + metadata + `}`,
		`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` + managed + `}`,
		`{"apiVersion":"v1","kind":"Pod",` + managed + `,"spec":{"a":[1]},"status":{}}`,
		`{` + metadata + `}`,
	} {
		o, err := object.ParseMetadata([]byte(text), pod)
		if err != nil || string(o.Raw) != want || !o.MetadataOnly || o.Kind != pod || o.Name != "a" || o.Labels["x"] != "y" {
			t.Errorf("ParseMetadata(%s) = %+v, %v", text, o, err)
		}
	}
	whole, err := object.Parse([]byte(`{"apiVersion":"v1","kind":"Pod",`+managed+`,"spec":{}}`), pod)
	if err != nil {
		t.Fatal(err)
	}
	part := whole.Metadata()
	if _, known := part.AppliedBy("thole/p/c", "v1"); string(part.Raw) != want || !part.MetadataOnly || !known || part.Metadata() != part || whole.MetadataOnly {
		t.Errorf("Metadata() = %s of %s", part.Raw, whole.Raw)
	}
	for _, text := range []string{``, `[]`, `{"metadata":1}`, `{"metadata":{}`, `{"kind":"PartialObjectMetadata"}`} {
		if o, err := object.ParseMetadata([]byte(text), pod); err == nil {
			t.Errorf("ParseMetadata(%s) = %s", text, o.Raw)
		}
	}
}
