package abi

import (
	"strconv"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/internal/costtest"
)

// TestDecodingHostileMessageIsLinear covers the arrays, objects and checks of
// the messages; package rawjson has the same test for JSON itself.
func TestDecodingHostileMessageIsLinear(t *testing.T) {
	result := func(text []byte) { _, _ = DecodeResult(text) }
	request := func(text []byte) { _, _ = DecodeRequest(text) }
	manifest := func(text []byte) { _, _ = DecodeManifest(text) }
	listCall := func(text []byte) { _, _ = DecodeListCall(text) }
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
		{"metadata that cannot be patched", result, numbered(`{"patch":{"metadata":{`, `}}}`)},
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
		{"selector", listCall, func(n int) []byte {
			return []byte(`{"labelSelector":"` + strings.Repeat("a", n/2) + `"}`)
		}},
		{"field selector", listCall, func(n int) []byte {
			return []byte(`{"fieldSelector":"` + strings.Repeat("a=b,", min(n, MaxCall)/4-10) + strings.Repeat("a", max(0, n-MaxCall)) + `"}`)
		}},
		{"fields", listCall, repeated(`{"fields":[`, `"/a"`, `]}`)},
		{"signals of a request", request, repeated(`{"signals":[`, `1`, `]}`)},
		{"indexes", manifest, repeated(`{"controllers":[{"indexes":[`, `{}`, `]}]}`)},
	} {
		t.Run(c.name, func(t *testing.T) { costtest.Linear(t, 400, c.text, c.decode) })
	}
}

// TestDecodingStopsAtLimitOfEntries: memory is not allocated for entries beyond
// the limit.
func TestDecodingStopsAtLimitOfEntries(t *testing.T) {
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
			t.Errorf("%s: decoding 1 MiB allocates %d bytes", name, got)
		}
	}
}
