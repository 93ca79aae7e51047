package tck

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// This file has guests that return 0 with results that a host must refuse: not
// JSON, beyond a bound, or against the schema.

func resultCases() []Case {
	var out []Case
	for _, r := range invalidResults() {
		out = append(out, fails("result-"+r.name, abi.ClassABI, "writes a result "+r.explain,
			func(g *guest) []byte { return join(g.writes(r.result), I32Const(0)) }))
	}
	return out
}

type invalidResult struct {
	name, explain string
	result        []byte
}

func invalidResults() []invalidResult {
	with := func(field, value string) []byte {
		return fmt.Appendf(nil, `{"result":"success","%s":%s}`, field, value)
	}
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	child := `{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}}`
	return []invalidResult{
		{"random", "of random bytes", noise(4096)},
		{"empty", "without a byte", nil},
		{"cut-off", "that ends early", []byte(`{"result":"succ`)},
		{"two-values", "followed by another one", bytes.Repeat(success(), 2)},
		{"array", "that is an array", fmt.Appendf(nil, `[%s]`, success())},
		{"null", "that is null", []byte("null")},
		{"byte-order-mark", "with a byte order mark", append([]byte("\xef\xbb\xbf"), success()...)},
		{"not-utf8", "that is not UTF-8", with("error", "{\"reason\":\"A\xff\"}")},
		{"control-character", "with a control character in a string", with("memo", "\"\x01\"")},
		{"same-name-twice", "with a field that is given twice", []byte(`{"result":"success","result":"empty"}`)},
		{"same-name-escaped", "with a field that is given twice, once escaped", []byte(`{"result":"success","r\u0065sult":"empty"}`)},
		{"deep", "nested one level too deep", with("memo", nested(abi.MaxDepth))},
		{"very-deep", "nested a hundred thousand levels deep", with("memo", nested(100_000))},
		{"open-brackets", "of opening brackets only", bytes.Repeat([]byte("["), 100_000)},
		{"unknown-outcome", "with an outcome that does not exist", []byte(`{"result":"maybe"}`)},
		{"outcome-number", "with a number as its outcome", []byte(`{"result":1}`)},
		{"huge-number", "with a number beyond any type", with("requeueAfter", "1e999999999")},
		{"large-number", "with a number of 100,000 digits", with("requeueAfter", strings.Repeat("9", 100_000))},
		{"negative-number", "with a negative duration", with("requeueAfter", "-1")},
		{"fraction", "with a fraction of a millisecond", with("requeueAfter", "0.5")},
		{"not-a-number", "with NaN", with("requeueAfter", "NaN")},
		{"duration-text", "with a duration as a string", with("requeueAfter", `"5s"`)},
		{"status-list", "whose status is a list", with("status", "[]")},
		{"status-conditions", "whose status has conditions, which the host writes", with("status", `{"conditions":[]}`)},
		{"status-observed-generation", "whose status has observedGeneration, which the host writes", with("status", `{"observedGeneration":9}`)},
		{"conditions-object", "whose conditions are an object", with("conditions", `{"type":"Ready"}`)},
		{"condition-unknown-field", "with an unknown field in a condition", with("conditions", `[{"type":"Synced","status":"True","reason":"A","colour":"red"}]`)},
		{"patch-of-kind", "that patches the object's kind", with("patch", `{"kind":"Secret"}`)},
		{"patch-of-finalizers", "that patches the object's finalizers", with("patch", `{"metadata":{"finalizers":[]}}`)},
		{"apply-nameless", "that applies an object without a name", with("apply", `[{"object":{"apiVersion":"v1","kind":"ConfigMap"}}]`)},
		{"apply-string", "that applies a string", with("apply", `["ConfigMap"]`)},
		{"intents-many", "with one intent too many", with("apply", "["+strings.TrimSuffix(strings.Repeat(child+",", abi.MaxIntents+1), ",")+"]")},
		{"memo-large", "with a memo that is too long", with("memo", `"`+strings.Repeat("m", abi.MaxMemo)+`"`)},
	}
}

// noise returns bytes that look random, are the same each time, and are not the
// begin of any JSON value.
func noise(n int) []byte {
	out, x := make([]byte, n), uint32(0x9e3779b9)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x>>24) | 0x80
	}
	return out
}
