package rawjson

import (
	"strings"
	"testing"
)

// object is an object of about 3 KB.
var object = []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","labels":{` +
	strings.Repeat(`"key":"some value here",`, 60) + `"z":1}},"spec":{"containers":[` +
	strings.Repeat(`{"name":"main","image":"example.com/image:1","ports":[{"containerPort":8080}]},`, 15) +
	`{}]},"status":{"phase":"Running","observed":7}}`)

func BenchmarkValid(b *testing.B) {
	b.SetBytes(int64(len(object)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Valid(object, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	b.SetBytes(int64(len(object)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Lookup(object, "status", "phase"); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkMergePatch(b *testing.B) {
	patch := []byte(`{"metadata":{"managedFields":null},"status":{"phase":"Failed"}}`)
	b.SetBytes(int64(len(object)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := MergePatch(object, patch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	unique := []byte(`{"spec":` + string(object[strings.Index(string(object), `{"containers"`):strings.Index(string(object), `,"status"`)]) + `}`)
	changed := []byte(strings.Replace(string(unique), "8080", "8081", 1))
	b.SetBytes(int64(len(unique)))
	b.ReportAllocs()
	for b.Loop() {
		if patch, err := Diff(unique, changed); err != nil || patch == nil {
			b.Fatal(patch, err)
		}
	}
}
