package tck

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// garbageCases answer 0 with results that no host may act on.
func garbageCases() []Case {
	var out []Case
	for _, g := range garbage() {
		out = append(out, fails("result-"+g.name, abi.ClassABI, "writes a result "+g.explain,
			func(to *guest) []byte { return join(to.say(g.result), I32Const(0)) }))
	}
	return out
}

type garbageResult struct {
	name, explain string
	result        []byte
}

func garbage() []garbageResult {
	in := func(format string, args ...any) []byte { return fmt.Appendf(nil, format, args...) }
	member := func(name, value string) []byte { return in(`{"result":"success","%s":%s}`, name, value) }
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	child := `{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}}`
	return []garbageResult{
		{"random", "of random bytes", noise(4096)},
		{"nothing", "without a byte", nil},
		{"cut-off", "that ends early", []byte(`{"result":"succ`)},
		{"twice", "and then another one", bytes.Repeat(success(), 2)},
		{"array", "that is an array", in(`[%s]`, success())},
		{"null", "that is null", []byte("null")},
		{"byte-order-mark", "with a byte order mark", append([]byte("\xef\xbb\xbf"), success()...)},
		{"not-utf8", "that is not UTF-8", member("error", "{\"reason\":\"A\xff\"}")},
		{"control-character", "with a control character in a string", member("memo", "\"\x01\"")},
		{"same-name-twice", "that names a field twice", []byte(`{"result":"success","result":"empty"}`)},
		{"same-name-escaped", "that names a field twice, once escaped", []byte(`{"result":"success","r\u0065sult":"empty"}`)},
		{"deep", "nested one level too deep", member("memo", nested(abi.MaxDepth))},
		{"bottomless", "nested a hundred thousand levels deep", member("memo", nested(100_000))},
		{"open-brackets", "of opening brackets only", bytes.Repeat([]byte("["), 100_000)},
		{"unknown-outcome", "with an outcome that does not exist", []byte(`{"result":"maybe"}`)},
		{"outcome-number", "with a number as its outcome", []byte(`{"result":1}`)},
		{"huge-number", "with a number beyond any type", member("requeueAfter", "1e999999999")},
		{"large-number", "with a number of 100,000 digits", member("requeueAfter", strings.Repeat("9", 100_000))},
		{"negative-number", "with a negative duration", member("requeueAfter", "-1")},
		{"fraction", "with a fraction of a millisecond", member("requeueAfter", "0.5")},
		{"not-a-number", "with NaN", member("requeueAfter", "NaN")},
		{"duration-text", "with a duration as a text", member("requeueAfter", `"5s"`)},
		{"status-list", "whose status is a list", member("status", "[]")},
		{"status-conditions", "that writes conditions past the host", member("status", `{"conditions":[]}`)},
		{"status-generation", "that writes observedGeneration itself", member("status", `{"observedGeneration":9}`)},
		{"conditions-object", "whose conditions are an object", member("conditions", `{"type":"Ready"}`)},
		{"condition-unknown-field", "with an unknown field in a condition", member("conditions", `[{"type":"Synced","status":"True","reason":"A","colour":"red"}]`)},
		{"patch-of-kind", "that patches the object's kind", member("patch", `{"kind":"Secret"}`)},
		{"patch-of-finalizers", "that patches the object's finalizers", member("patch", `{"metadata":{"finalizers":[]}}`)},
		{"apply-nameless", "that applies an object without a name", member("apply", `[{"object":{"apiVersion":"v1","kind":"ConfigMap"}}]`)},
		{"apply-text", "that applies a text", member("apply", `["ConfigMap"]`)},
		{"intents-many", "with one intent too many", member("apply", "["+strings.TrimSuffix(strings.Repeat(child+",", abi.MaxIntents+1), ",")+"]")},
		{"memo-large", "with a memo that is too long", member("memo", `"`+strings.Repeat("m", abi.MaxMemo)+`"`)},
	}
}

// noise is reproducible and begins like no JSON.
func noise(n int) []byte {
	out, x := make([]byte, n), uint32(0x9e3779b9)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x>>24) | 0x80
	}
	return out
}
