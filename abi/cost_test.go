package abi

import (
	"strconv"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/internal/costtest"
)

// TestHostileMessagesCostNoMoreThanTheirLength feeds the decoders what would
// be dear to a careless one. rawjson has the same test for what JSON itself
// can do; here it is the messages' own arrays, objects and checks.
func TestHostileMessagesCostNoMoreThanTheirLength(t *testing.T) {
	result := func(text []byte) { _, _ = DecodeResult(text) }
	request := func(text []byte) { _, _ = DecodeRequest(text) }
	manifest := func(text []byte) { _, _ = DecodeManifest(text) }
	distinct := func(i int) string { return `"k` + strconv.Itoa(i) + `":""` }
	numbered := func(open, closing string) func(int) []byte {
		return func(n int) []byte { return costtest.Number(n, open, distinct, closing) }
	}
	repeated := func(open, part, closing string) func(int) []byte {
		return func(n int) []byte { return costtest.Repeat(n, open, part, closing) }
	}
	nested := func(open, closing string) func(int) []byte {
		deep := strings.Repeat(`{"a":[`, 30) + strings.Repeat(`]}`, 30)
		return repeated(open, deep, closing)
	}
	for _, c := range []struct {
		name   string
		decode func([]byte)
		text   func(n int) []byte
	}{
		{"conditions", result, repeated(`{"conditions":[`, `{}`, `]}`)},
		{"intents", result, repeated(`{"delete":[`, `{}`, `]}`)},
		{"unknown fields", result, numbered(`{`, `}`)},
		{"status", result, numbered(`{"status":{`, `}}`)},
		{"deep status", result, nested(`{"status":{"a":[`, `]}}`)},
		{"labels", result, numbered(`{"patch":{"metadata":{"labels":{`, `}}}}`)},
		{"labels out of reach", result, numbered(`{"patch":{"metadata":{`, `}}}`)},
		{"object", result, numbered(`{"apply":[{"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"x"},`, `}}]}`)},
		{"objects", result, nested(`{"apply":[{"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"x"},"a":[`, `]}}]}`)},
		{"memo", result, nested(`{"memo":[`, `]}`)},
		{"message", result, func(n int) []byte { return []byte(`{"error":{"message":"` + strings.Repeat(`\u00e9`, n/6) + `"}}`) }},
		{"name", result, func(n int) []byte { return []byte(`{"delete":[{"apiVersion":"` + strings.Repeat("a", n) + `"}]}`) }},
		{"controllers", manifest, repeated(`{"controllers":[`, `{}`, `]}`)},
		{"condition types", manifest, repeated(`{"controllers":[{"conditions":{"owned":[`, `"A"`, `]}}]}`)},
		{"request object", request, numbered(`{"object":{`, `}}`)},
		{"request field", request, repeated(`{`, `"previous":{"failures":[{},{}]}`, `}`)},
		{"reasons", request, repeated(`{"reasons":[`, `"owned"`, `]}`)},
		{"failures", request, repeated(`{"previous":{"failures":[`, `{}`, `]}}`)},
		{"items", func(text []byte) { _, _ = DecodeListReply(text) }, repeated(`{"items":[`, `{}`, `]}`)},
		{"selector", func(text []byte) { _, _ = DecodeListCall(text) }, func(n int) []byte {
			return []byte(`{"labelSelector":"` + strings.Repeat("a", n/2) + `"}`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { costtest.Linear(t, 400, c.text, c.decode) })
	}
}

// TestTooManyEntriesTakeNoMemory: the array is given up at the limit.
func TestTooManyEntriesTakeNoMemory(t *testing.T) {
	for name, text := range map[string][]byte{
		"conditions":  costtest.Repeat(1<<20, `{"conditions":[`, `{}`, `]}`),
		"apply":       costtest.Repeat(1<<20, `{"apply":[`, `{}`, `]}`),
		"delete":      costtest.Repeat(1<<20, `{"delete":[`, `{}`, `]}`),
		"events":      costtest.Repeat(1<<20, `{"events":[`, `{}`, `]}`),
		"controllers": costtest.Repeat(1<<20, `{"controllers":[`, `{}`, `]}`),
	} {
		got := costtest.Allocated(func(text []byte) {
			_, _ = DecodeResult(text)
			_, _ = DecodeManifest(text)
		}, text)
		if got > 256<<10 {
			t.Errorf("%s: a text of 1 MiB takes %d bytes", name, got)
		}
	}
}
