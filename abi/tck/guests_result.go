package tck

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
)

// This file has guests that return 0 with results that a host must refuse: not
// JSON, beyond a bound, or against the schema.

func resultCases() []Case {
	invalid := func(name, explain string, result []byte) Case {
		return fails("result-"+name, abi.ClassABI, "writes a result "+explain,
			func(g *guest) []byte { return join(g.writes(result), I32Const(0)) })
	}
	with := func(field, value string) []byte {
		return fmt.Appendf(nil, `{"result":"success","%s":%s}`, field, value)
	}
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	child := `{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}}`
	return []Case{
		invalid("random", "of random bytes", noise(4096)),
		invalid("empty", "without a byte", nil),
		invalid("cut-off", "that ends early", []byte(`{"result":"succ`)),
		invalid("two-values", "followed by another one", bytes.Repeat(success(), 2)),
		invalid("array", "that is an array", fmt.Appendf(nil, `[%s]`, success())),
		invalid("null", "that is null", []byte("null")),
		invalid("byte-order-mark", "with a byte order mark", append([]byte("\xef\xbb\xbf"), success()...)),
		invalid("not-utf8", "that is not UTF-8", with("error", "{\"reason\":\"A\xff\"}")),
		invalid("control-character", "with a control character in a string", with("memo", "\"\x01\"")),
		invalid("half-surrogate", "with half of a surrogate pair", with("memo", `"\ud800"`)),
		invalid("half-surrogate-name", "with a name that is half of a surrogate pair", with("status", `{"a":{"\udc00":1}}`)),
		invalid("same-name-twice", "with a field that is given twice", []byte(`{"result":"success","result":"empty"}`)),
		invalid("same-name-escaped", "with a field that is given twice, once escaped", []byte(`{"result":"success","r\u0065sult":"empty"}`)),
		invalid("deep", "nested one level too deep", with("memo", nested(abi.MaxDepth))),
		invalid("very-deep", "nested a hundred thousand levels deep", with("memo", nested(100_000))),
		invalid("open-brackets", "of opening brackets only", bytes.Repeat([]byte("["), 100_000)),
		invalid("unknown-outcome", "with an outcome that does not exist", []byte(`{"result":"maybe"}`)),
		invalid("outcome-number", "with a number as its outcome", []byte(`{"result":1}`)),
		invalid("huge-number", "with a number beyond any type", with("requeueAfter", "1e999999999")),
		invalid("large-number", "with a number of 100,000 digits", with("requeueAfter", strings.Repeat("9", 100_000))),
		invalid("negative-number", "with a negative duration", with("requeueAfter", "-1")),
		invalid("fraction", "with a fraction of a millisecond", with("requeueAfter", "0.5")),
		invalid("not-a-number", "with NaN", with("requeueAfter", "NaN")),
		invalid("duration-text", "with a duration as a string", with("requeueAfter", `"5s"`)),
		invalid("error-after-negative", "with an error that names a time in the past", with("error", `{"after":-1}`)),
		invalid("error-terminal-text", "with an error whose terminal is a string", with("error", `{"terminal":"true"}`)),
		invalid("error-unknown-field", "with an unknown field in its error", with("error", `{"retryAfter":1}`)),
		invalid("status-list", "whose status is a list", with("status", "[]")),
		invalid("status-conditions", "whose status has conditions, which the host writes", with("status", `{"conditions":[]}`)),
		invalid("status-observed-generation", "whose status has observedGeneration, which the host writes", with("status", `{"observedGeneration":9}`)),
		invalid("conditions-object", "whose conditions are an object", with("conditions", `{"type":"Ready"}`)),
		invalid("condition-unknown-field", "with an unknown field in a condition", with("conditions", `[{"type":"Synced","status":"True","reason":"A","colour":"red"}]`)),
		invalid("patch-of-kind", "that patches the object's kind", with("patch", `{"kind":"Secret"}`)),
		invalid("patch-of-suspend", "that suspends the object for all plugins", with("patch", `{"metadata":{"annotations":{"reconcile.thole.dev/suspend":"true"}}}`)),
		invalid("patch-of-applied", "that forges the host's record of another plugin's apply", with("patch", `{"metadata":{"annotations":{"main.other.thole.dev/applied-0":""}}}`)),
		invalid("patch-of-managed-by", "that gives the object to another plugin", with("patch", `{"metadata":{"labels":{"thole.dev/managed-by":"other"}}}`)),
		invalid("patch-of-applied-by", "that claims to have been created by another plugin", with("patch", `{"metadata":{"labels":{"thole.dev/applied-by":"other.main"}}}`)),
		invalid("patch-of-finalizers", "that patches the object's finalizers", with("patch", `{"metadata":{"finalizers":[]}}`)),
		invalid("apply-nameless", "that applies an object without a name", with("apply", `[{"object":{"apiVersion":"v1","kind":"ConfigMap"}}]`)),
		invalid("apply-string", "that applies a string", with("apply", `["ConfigMap"]`)),
		invalid("release-nameless", "that releases an object without a name", with("release", `[{"apiVersion":"v1","kind":"ConfigMap"}]`)),
		invalid("release-object", "that releases an object, and not a reference to one", with("release", "["+child+"]")),
		invalid("intents-many", "with one intent too many", with("apply", "["+strings.TrimSuffix(strings.Repeat(child+",", abi.MaxIntents+1), ",")+"]")),
		invalid("patch-of-handled", "that forges what the host has handled of the object", with("patch", `{"metadata":{"annotations":{"main.other.thole.dev/handled":""}}}`)),
		invalid("progress-large", "with a progress that is too long", with("changes", `{"progress":"`+strings.Repeat("p", changes.MaxProgress)+`"}`)),
		invalid("memo-large", "with a memo that is too long", with("memo", `"`+strings.Repeat("m", abi.MaxMemo)+`"`)),
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
