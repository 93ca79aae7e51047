package abi

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// reviewsWith returns a manifest with one controller of a custom
// resource that has these members.
func reviewsWith(members string) string {
	return `{"name":"a","controllers":[` + reviewed("b", "example.com/v1", members) + `]}`
}

func reviewed(controller, apiVersion, members string) string {
	return `{"name":"` + controller + `","for":{"apiVersion":"` + apiVersion + `","kind":"K"},` + members + `}`
}

func TestInvalidReviewsInManifestAreRefused(t *testing.T) {
	const at = `controllers[0].`
	convert := func(apiVersion string) string {
		return strings.Replace(reviewsWith(`"convert":true`), "example.com/v1", apiVersion, 1)
	}
	const noCustomResource = ` is not a custom resource, whose group has a dot: only these have versions that a plugin converts`
	expectRefused(t, DecodeManifest, []refusal{
		{reviewsWith(`"validate":["CONNECT"]`), at + `validate[0]: "CONNECT" is not one of CREATE, UPDATE, DELETE`},
		{reviewsWith(`"validate":["CREATE","create"]`), at + `validate[1]: "create" is not one of CREATE, UPDATE, DELETE`},
		{reviewsWith(`"validate":[""]`), at + `validate[0]: "" is not one of CREATE, UPDATE, DELETE`},
		{reviewsWith(`"validate":["UPDATE","UPDATE"]`), at + `validate[1]: "UPDATE" is given twice`},
		{reviewsWith(`"validate":` + list(4, `"CREATE"`)), at + `validate[3]: more than 3 entries (offset 127)`},
		{reviewsWith(`"validate":true`), at + `validate: expected an array, found true (offset 99)`},
		{reviewsWith(`"mutate":["CREATE","DELETE"]`), at + `mutate[1]: "DELETE" is not one of CREATE, UPDATE`},
		{reviewsWith(`"mutate":["CREATE","CREATE"]`), at + `mutate[1]: "CREATE" is given twice`},
		{reviewsWith(`"convert":"v2"`), at + `convert: expected true or false, found a string (offset 98)`},
		{convert("v1"), at + `convert: "v1 K"` + noCustomResource},
		{convert("apps/v1"), at + `convert: "apps/v1 K"` + noCustomResource},
		{
			`{"name":"a","controllers":[` + reviewed("b", "example.com/v1", `"convert":true`) + `,` +
				reviewed("c", "example.com/v2", `"convert":true`) + `]}`,
			`controllers[1].convert: "example.com/v2 K" is converted by the controller "b" already: let one of them do it`,
		},
	})
}

func TestValidReviewsInManifestAreAccepted(t *testing.T) {
	for _, text := range []string{
		reviewsWith(`"validate":["DELETE","UPDATE","CREATE"],"mutate":["UPDATE","CREATE"],"convert":true`),
		reviewsWith(`"validate":[],"mutate":null,"convert":false`),
		manifestWith(`"validate":[],"mutate":[],"convert":false`), // as if they were absent
		strings.Replace(reviewsWith(`"validate":["CREATE"]`), "example.com/v1", "v1", 1),
		`{"name":"a","controllers":[` + reviewed("b", "example.com/v1", `"convert":true`) + `,` +
			reviewed("c", "example.org/v1", `"convert":true`) + `,` + reviewed("d", "example.com/v1", `"convert":false`) + `]}`,
	} {
		if _, err := DecodeManifest([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestInvalidReviewResultIsRefused(t *testing.T) {
	const notName = ` is not a name as in a label key (letters, digits, '-', '_' and '.', at most 63)`
	annotations := func(entries string) string { return `{"auditAnnotations":[` + entries + `]}` }
	refused := []refusal{
		{` `, `the text ends where an object is expected (offset 1)`},
		{`null`, `expected an object, found null (offset 0)`},
		{`{"allowed":true}{}`, `unexpected an object after the value (offset 16)`},
		{"{\"message\":\"\xff\"}", `the text is not UTF-8 (offset 12)`},
		{`{"message":"\ud800"}`, `message: half of a surrogate pair in a string (offset 12)`},
		{`{"alowed":true}`, `unknown field "alowed", did you mean "allowed"? (offset 10)`},
		{`{"allowed":true,"allowed":false}`, `allowed: field given twice (offset 26)`},
		{`{"allowed":1}`, `allowed: expected true or false, found a number (offset 11)`},
		{`{"allowed":NaN}`, `allowed: expected true or false, found 'N' (offset 11)`},
		{`{"reason":"not allowed"}`, `reason: "not allowed" is not a CamelCase word, such as Succeeded`},
		{`{"reason":"` + strings.Repeat("A", MaxConditionReason+1) + `"}`, `reason: 1025 bytes, the limit is 1024`},
		{`{"warnings":` + list(MaxWarnings+1, `""`) + `}`, `warnings[16]: more than 16 entries (offset 61)`},
		{`{"warnings":[null]}`, `warnings[0]: expected a string, found null (offset 13)`},
		{`{"warnings":"w"}`, `warnings: expected an array, found a string (offset 12)`},
		{annotations(`{"name":"a"},{"name":"a"}`), `auditAnnotations[1].name: "a" is given twice`},
		{annotations(`{"name":"example.com/a"}`), `auditAnnotations[0].name: "example.com/a"` + notName},
		{annotations(`{"name":"-a"}`), `auditAnnotations[0].name: "-a"` + notName},
		{annotations(`{}`), `auditAnnotations[0].name: ""` + notName},
		{annotations(`{"name":"` + strings.Repeat("a", 64) + `"}`), `auditAnnotations[0].name: "` + strings.Repeat("a", 64) + `"` + notName},
		{annotations(`{"name":"a","value":{}}`), `auditAnnotations[0].value: expected a string, found an object (offset 41)`},
		{annotations(strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, MaxAuditAnnotations+1), ",")), `auditAnnotations[16]: more than 16 entries (offset 229)`},
		{annotations(`{"key":"a"}`), `auditAnnotations[0]: unknown field "key" (offset 28)`},
		{`{"error":{"code":1}}`, `error: unknown field "code" (offset 17)`},
		{`{"allowed":true,"object":[]}`, `object: expected an object, found an array (offset 25)`},
		{`{"allowed":true,"object":{"a":1,"\u0061":2}}`, `object.a: field given twice (offset 41)`},
		{`{"object":{}}`, `object: is there, but allowed is not true: what is denied cannot be changed`},
	}
	expectRefused(t, DecodeMutateResult, refused)
	expectRefused(t, DecodeValidateResult, append(refused[:len(refused)-1], refusal{
		`{"allowed":true,"object":{}}`, `object: cannot be changed by validate: let mutate change it`,
	}))
}

func TestValidReviewResultIsAccepted(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"allowed":true,"warnings":[],"auditAnnotations":[],"object":null}`,
		`{"allowed":true,"reason":"Ignored","message":"m"}`,
		`{"warnings":` + list(MaxWarnings, `""`) + `}`,
		`{"auditAnnotations":[{"name":"` + strings.Repeat("a", 63) + `","value":""}]}`,
		`{"error":{"reason":"not a word"}}`, // the host uses the reason of the class instead
	} {
		for name, decode := range map[string]func([]byte) (*ReviewResult, error){"validate": DecodeValidateResult, "mutate": DecodeMutateResult} {
			if _, err := decode([]byte(text)); err != nil {
				t.Errorf("%s of %.200s: %v", name, text, err)
			}
		}
	}
}

func TestInvalidConvertResultIsRefused(t *testing.T) {
	expectRefused(t, DecodeConvertResult, []refusal{
		{` `, `the text ends where an object is expected (offset 1)`},
		{`[]`, `expected an object, found an array (offset 0)`},
		{`{"objects":[]}`, `unknown field "objects", did you mean "object"? (offset 11)`},
		{`{"object":[]}`, `object: expected an object, found an array (offset 10)`},
		{`{"object":{},"object":{}}`, `object: field given twice (offset 22)`},
		{`{"object":{"n":01}}`, `object: expected ',' or '}', found a number (offset 16)`},
	})
}

// TestDeepObjectOfGuestIsRefused: the depth is that of the message, in which the object is one
// level deep.
func TestDeepObjectOfGuestIsRefused(t *testing.T) {
	nested := func(depth int) []byte {
		return []byte(`{"allowed":true,"object":{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`)
	}
	if _, err := DecodeMutateResult(nested(MaxDepth - 2)); err != nil {
		t.Error(err)
	}
	if _, err := DecodeMutateResult(nested(MaxDepth - 1)); err == nil || !strings.Contains(err.Error(), "nested more than 64 levels deep") {
		t.Errorf("an object that is too deep: %v", err)
	}
}

// TestObjectOfReviewKeepsItsBytes: numbers beyond 2^53 and escapes are those of the guest.
func TestObjectOfReviewKeepsItsBytes(t *testing.T) {
	const object = `{ "n":9007199254740993, "e":1e999, "t":"\u0042", "z":null }`
	mutated, err := DecodeMutateResult([]byte(`{"allowed":true,"object":` + object + `}`))
	if err != nil || string(mutated.Object) != object {
		t.Errorf("mutate has %s, %v", mutated.Object, err)
	}
	converted, err := DecodeConvertResult([]byte(`{"object":` + object + `}`))
	if err != nil || string(converted.Object) != object {
		t.Errorf("convert has %s, %v", converted.Object, err)
	}
}

func TestLongTextsOfReviewAreTruncated(t *testing.T) {
	long := strings.Repeat("ö", 8<<10) // the limits are even, and three bytes of dots are not
	out, err := DecodeValidateResult(EncodeReviewResult(&ReviewResult{
		Message: long, Warnings: []string{long, "short"}, AuditAnnotations: []AuditAnnotation{{Name: "a", Value: long}},
		Error: &Failure{Message: long},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text  string
		limit int
	}{
		"message": {out.Message, MaxErrorMessage}, "warning": {out.Warnings[0], MaxWarning},
		"audit annotation": {out.AuditAnnotations[0].Value, MaxAuditValue}, "error": {out.Error.Message, MaxErrorMessage},
	} {
		if len(c.text) != c.limit-1 || !strings.HasSuffix(c.text, "ö...") {
			t.Errorf("%s: %d bytes, of at most %d: %q", name, len(c.text), c.limit, c.text)
		}
	}
	if out.Warnings[1] != "short" {
		t.Errorf("a short warning has become %q", out.Warnings[1])
	}
	converted, err := DecodeConvertResult(EncodeConvertResult(&ConvertResult{Error: &Failure{Message: long}}))
	if err != nil || len(converted.Error.Message) != MaxErrorMessage-1 {
		t.Errorf("the message of a conversion has %d bytes, %v", len(converted.Error.Message), err)
	}
}

func TestWarningIsOneLine(t *testing.T) {
	out, err := DecodeValidateResult([]byte(`{"message":"a\nb","warnings":["a\r\n\tb\u0000\u0085","ö "]}`))
	if err != nil || !reflect.DeepEqual(out.Warnings, []string{"a   b  ", "ö "}) || out.Message != "a\nb" {
		t.Errorf("the warnings are %q, the message %q, %v", out.Warnings, out.Message, err)
	}
}

func TestReviewRequestIgnoresUnknownFields(t *testing.T) {
	q, err := DecodeReviewRequest([]byte(`{"new":{"a":[{}]},"controller":"c","operation":"CONNECT","user":{"extra":{},"name":"n"},"new":1}`))
	want := &ReviewRequest{Controller: "c", Operation: "CONNECT", User: User{Name: "n"}}
	if err != nil || !reflect.DeepEqual(q, want) {
		t.Errorf("got %+v, %v", q, err)
	}
}

func TestRequestsOfReviewsInPartsDoNotCopyObject(t *testing.T) {
	review, convert := fullReviewRequest(), fullConvertRequest()
	for name, c := range map[string]struct {
		parts        [][]byte
		object, text []byte
	}{
		"review":  {EncodeReviewRequestParts(review), review.Object, EncodeReviewRequest(review)},
		"convert": {EncodeConvertRequestParts(convert), convert.Object, EncodeConvertRequest(convert)},
	} {
		if len(c.parts) != 3 || &c.parts[1][0] != &c.object[0] {
			t.Errorf("%s: the object is not one of the %d parts", name, len(c.parts))
		}
		if text := bytes.Join(c.parts, nil); !bytes.Equal(text, c.text) {
			t.Errorf("%s: the parts are %s", name, text)
		}
	}
}

func TestResultOfOtherObjectIsRefused(t *testing.T) {
	object := func(apiVersion, kind, metadata string) []byte {
		return []byte(`{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{` + metadata + `}}`)
	}
	const metadata = `"name":"n","namespace":"s","uid":"u"`
	before := object("example.com/v1", "K", metadata)
	review := &ReviewRequest{Object: before}
	convert := &ConvertRequest{Object: before, APIVersion: "example.com/v2"}
	for _, c := range []struct {
		name           string
		kind, metadata string
		want           string
	}{
		{"same", "K", metadata + `,"labels":{"a":"b"}`, ""},
		{"kind", "L", metadata, `object.kind: is "L", must be "K"`},
		{"name", "K", `"name":"x","namespace":"s","uid":"u"`, `object.metadata.name: is "x", must be "n"`},
		{"namespace", "K", `"name":"n","uid":"u"`, `object.metadata.namespace: is "", must be "s"`},
		{"UID", "K", `"name":"n","namespace":"s","uid":"v"`, `object.metadata.uid: is "v", must be "u"`},
		{"type of name", "K", `"name":1`, `object.metadata.name: expected a string, found a number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			expectError(t, "review", review.CheckResult(&ReviewResult{Object: object("example.com/v1", c.kind, c.metadata)}), c.want)
			expectError(t, "convert", convert.CheckResult(&ConvertResult{Object: object("example.com/v2", c.kind, c.metadata)}), c.want)
		})
	}
	expectError(t, "review", review.CheckResult(&ReviewResult{}), "")
	expectError(t, "review", review.CheckResult(&ReviewResult{Object: object("example.com/v2", "K", metadata)}), `object.apiVersion: is "example.com/v2", must be "example.com/v1"`)
	expectError(t, "convert", convert.CheckResult(&ConvertResult{}), `object: is required with code 0`)
	expectError(t, "convert", convert.CheckResult(&ConvertResult{Object: before}), `object.apiVersion: is "example.com/v1", must be "example.com/v2"`)
	expectError(t, "convert", convert.CheckResult(&ConvertResult{Object: []byte(`{}`)}), `object.apiVersion: is "", must be "example.com/v2"`)
	expectError(t, "null", (&ReviewRequest{Object: []byte(`null`)}).CheckResult(&ReviewResult{Object: before}), `object: expected an object, found null`)
}
