package webhooks

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// refusal is a text, and the error with which it is refused.
type refusal struct{ text, want string }

func expectRefused[T any](t *testing.T, decode func([]byte) (*T, error), all []refusal) {
	t.Helper()
	for _, r := range all {
		_, err := decode([]byte(r.text))
		expectError(t, r.text, err, r.want)
	}
}

func expectError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%.200s: %v\nwant %s", what, err, want)
	}
}

func list(n int, entry string) string { return "[" + strings.Repeat(entry+",", n-1) + entry + "]" }

// controllerOf returns a controller of an apiVersion with a section.
func controllerOf(name, apiVersion, section string) abi.Controller {
	c := abi.Controller{Name: name, For: abi.Followed{Kind: abi.Kind{APIVersion: apiVersion, Kind: "K"}}}
	if section != "" {
		c.Sections = []abi.Section{{Name: Name, Value: []byte(section)}}
	}
	return c
}

func TestSectionsAreChecked(t *testing.T) {
	const noCustomResource = ` is not a custom resource, whose group has a dot: only these have versions that a plugin converts`
	const none = `has none of validate, mutate and convert: name one of them, or leave the section out`
	for _, c := range []struct{ apiVersion, section, want string }{
		{"example.com/v1", `{"validate":["DELETE","UPDATE","CREATE"],"mutate":["UPDATE","CREATE"],"convert":true}`, ""},
		{"v1", `{"validate":["CREATE"],"mutate":[],"convert":false}`, ""},
		{"v1", `{}`, none},
		{"v1", `{"validate":[],"mutate":null,"convert":false}`, none},
		{"v1", `[]`, `expected an object, found an array (offset 0)`},
		{"v1", `{"validates":[]}`, `unknown field "validates", did you mean "validate"?`},
		{"v1", `{"validate":["CONNECT"]}`, `validate[0]: "CONNECT" is not one of CREATE, UPDATE, DELETE`},
		{"v1", `{"validate":["CREATE","create"]}`, `validate[1]: "create" is not one of CREATE, UPDATE, DELETE`},
		{"v1", `{"validate":[""]}`, `validate[0]: "" is not one of CREATE, UPDATE, DELETE`},
		{"v1", `{"validate":["UPDATE","UPDATE"]}`, `validate[1]: "UPDATE" is given twice`},
		{"v1", `{"validate":` + list(4, `"CREATE"`) + `}`, `validate[3]: more than 3 entries`},
		{"v1", `{"validate":true}`, `validate: expected an array, found true`},
		{"v1", `{"mutate":["CREATE","DELETE"]}`, `mutate[1]: "DELETE" is not one of CREATE, UPDATE`},
		{"v1", `{"mutate":["CREATE","CREATE"]}`, `mutate[1]: "CREATE" is given twice`},
		{"example.com/v1", `{"convert":"v2"}`, `convert: expected true or false, found a string`},
		{"v1", `{"convert":true}`, `convert: "v1 K"` + noCustomResource},
		{"apps/v1", `{"convert":true}`, `convert: "apps/v1 K"` + noCustomResource},
	} {
		one := controllerOf("b", c.apiVersion, c.section)
		expectError(t, c.section, Check(&one, []byte(c.section)), c.want)
	}
}

// The versions of a custom resource have one conversion.
func TestAKindIsConvertedByOneController(t *testing.T) {
	const converts = `{"convert":true}`
	for _, c := range []struct {
		all  []abi.Controller
		want string
	}{
		{[]abi.Controller{controllerOf("b", "example.com/v1", converts), controllerOf("c", "example.com/v2", converts)}, `controllers[1].webhooks.convert: "example.com/v2 K" is converted by the controller "b" already: let one of them do it`},
		{[]abi.Controller{controllerOf("b", "example.com/v1", converts), controllerOf("c", "example.org/v1", converts), controllerOf("d", "example.com/v1", `{"validate":["CREATE"]}`), controllerOf("e", "v1", "")}, ""},
	} {
		expectError(t, c.want, CheckManifest(&abi.Manifest{Controllers: c.all}), c.want)
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
		{`{"reason":"` + strings.Repeat("A", abi.MaxConditionReason+1) + `"}`, `reason: 1025 bytes, the limit is 1024`},
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
	if _, err := DecodeMutateResult(nested(abi.MaxDepth - 2)); err != nil {
		t.Error(err)
	}
	if _, err := DecodeMutateResult(nested(abi.MaxDepth - 1)); err == nil || !strings.Contains(err.Error(), "nested more than 64 levels deep") {
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
		Error: &abi.Failure{Message: long},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text  string
		limit int
	}{
		"message": {out.Message, abi.MaxErrorMessage}, "warning": {out.Warnings[0], MaxWarning},
		"audit annotation": {out.AuditAnnotations[0].Value, MaxAuditValue}, "error": {out.Error.Message, abi.MaxErrorMessage},
	} {
		if len(c.text) != c.limit-1 || !strings.HasSuffix(c.text, "ö...") {
			t.Errorf("%s: %d bytes, of at most %d: %q", name, len(c.text), c.limit, c.text)
		}
	}
	if out.Warnings[1] != "short" {
		t.Errorf("a short warning has become %q", out.Warnings[1])
	}
	converted, err := DecodeConvertResult(EncodeConvertResult(&ConvertResult{Error: &abi.Failure{Message: long}}))
	if err != nil || len(converted.Error.Message) != abi.MaxErrorMessage-1 {
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
