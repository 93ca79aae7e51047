package abi

import (
	"strings"
	"testing"
)

// largeObject returns an object of about 3 KB.
func largeObject() []byte {
	return []byte(`{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"shop","namespace":"default","labels":{"app":"shop"}},` +
		`"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat(`{"name":"main","image":"example.com/image:1.2.3",`+
		`"ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"cpu":"100m","memory":"64Mi"}}},`, 18), ",") +
		`]},"status":{"phase":"Running","observedGeneration":7}}`)
}

func benchRequest() *Request {
	q := fullRequest()
	q.Object = largeObject()
	return q
}

func BenchmarkEncodeRequest(b *testing.B) {
	q := benchRequest()
	b.SetBytes(int64(len(q.Object)))
	b.ReportAllocs()
	for b.Loop() {
		EncodeRequest(q)
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	benchmarkDecode(b, EncodeRequest(benchRequest()), DecodeRequest)
}

func BenchmarkEncodeResult(b *testing.B) {
	out := fullResult()
	b.SetBytes(int64(len(EncodeResult(out))))
	b.ReportAllocs()
	for b.Loop() {
		EncodeResult(out)
	}
}

func BenchmarkDecodeResult(b *testing.B) {
	benchmarkDecode(b, EncodeResult(fullResult()), DecodeResult)
}

func BenchmarkDecodeResultWithObject(b *testing.B) {
	out := fullResult()
	out.Apply[0].Object = largeObject()
	benchmarkDecode(b, EncodeResult(out), DecodeResult)
}

func BenchmarkDecodeManifest(b *testing.B) {
	benchmarkDecode(b, EncodeManifest(fullManifest()), DecodeManifest)
}

func benchmarkDecode[T any](b *testing.B, text []byte, decode func([]byte) (*T, error)) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(text); err != nil {
			b.Fatal(err)
		}
	}
}
