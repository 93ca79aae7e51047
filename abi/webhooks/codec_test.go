package webhooks

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/internal/costtest"
	"github.com/thole-dev/thole/abi/internal/goldentest"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

const site = `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"shop","namespace":"default",` +
	`"uid":"5f0c","resourceVersion":"812","generation":3},"spec":{"replicas":9007199254740993,"title":"Schöne \u0042ücher"}}`

func fullReviewRequest() *ReviewRequest {
	return &ReviewRequest{
		Controller: "site",
		Operation:  OperationUpdate,
		DryRun:     true,
		User:       User{Name: "ann@example.com", UID: "u-17", Groups: []string{"shops", "system:authenticated"}},
		Old:        []byte(`{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"shop","namespace":"default"}}`),
		Now:        time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC),
		Seed:       [32]byte{0: 1, 31: 255},
		Config:     []byte(`{"region":"north"}`),
		Object:     []byte(site),
	}
}

func deniedReviewResult() *ReviewResult {
	return &ReviewResult{
		Reason: "Invalid", Message: "spec.replicas is more than the quota of 5",
		Error: &abi.Failure{Reason: "NoQuota", Message: "the quota is not there yet"},
	}
}

func fullReviewResult() *ReviewResult {
	return &ReviewResult{
		Allowed:          true,
		Warnings:         []string{"spec.title is deprecated", ""},
		AuditAnnotations: []AuditAnnotation{{Name: "quota", Value: "5"}, {Name: "Rule_2.a-b"}},
		Object:           []byte(site),
	}
}

func fullConvertRequest() *ConvertRequest {
	return &ConvertRequest{
		Controller: "site",
		APIVersion: "example.com/v2",
		Now:        time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC),
		Seed:       [32]byte{0: 1, 31: 255},
		Config:     []byte(`{"region":"north"}`),
		Object:     []byte(site),
	}
}

func fullConvertResult() *ConvertResult {
	return &ConvertResult{
		Object: []byte(`{"apiVersion":"example.com/v2","kind":"Site","metadata":{"name":"shop","namespace":"default","uid":"5f0c"}}`),
		Error:  &abi.Failure{Reason: "Unknown", Message: "there is no version v9"},
	}
}

// codec is one message with its functions.
type codec struct {
	sample any
	text   []byte // of the sample
	decode func([]byte) (any, error)
	encode func(any) []byte
}

func of[T any](sample *T, encode func(*T) []byte, decode func([]byte) (*T, error)) codec {
	return codec{
		sample, encode(sample),
		func(text []byte) (any, error) { return decode(text) },
		func(m any) []byte { return encode(m.(*T)) },
	}
}

// messages are those of the capability, by the names of their golden files and, with a hyphen, of examples in SPEC.md.
func messages() map[string]codec {
	return map[string]codec{
		"review_request":      of(fullReviewRequest(), EncodeReviewRequest, DecodeReviewRequest),
		"validate_result":     of(deniedReviewResult(), EncodeReviewResult, DecodeValidateResult),
		"mutate_result":       of(fullReviewResult(), EncodeReviewResult, DecodeMutateResult),
		"mutate_result_empty": of(&ReviewResult{}, EncodeReviewResult, DecodeMutateResult),
		"convert_request":     of(fullConvertRequest(), EncodeConvertRequest, DecodeConvertRequest),
		"convert_result":      of(fullConvertResult(), EncodeConvertResult, DecodeConvertResult),
	}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	for name, m := range messages() {
		goldentest.Expect(t, name, m.text)
		if got, err := m.decode(m.text); err != nil || !reflect.DeepEqual(got, m.sample) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	all := &Webhooks{Validate: []Operation{OperationCreate, OperationDelete}, Mutate: []Operation{OperationUpdate}, Convert: true}
	text := Encode(all)
	if want := `{"validate":["CREATE","DELETE"],"mutate":["UPDATE"],"convert":true}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got := Of(&abi.Controller{Sections: []abi.Section{{Name: Name, Value: text}}}); !reflect.DeepEqual(&got, all) {
		t.Errorf("%+v", got)
	}
	if got := Of(&abi.Controller{}); !reflect.DeepEqual(got, Webhooks{}) {
		t.Errorf("without: %+v", got)
	}
}

// TestNullFieldEqualsAbsentField sets each field of each message to null.
func TestNullFieldEqualsAbsentField(t *testing.T) {
	expect := func(names, around string, decode func([]byte) (any, error)) {
		absent, err := decode([]byte(strings.Replace(strings.Replace(around, ",%", "", 1), "%", "", 1)))
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(names) {
			got, err := decode([]byte(strings.Replace(around, "%", `"`+name+`":null`, 1)))
			if err != nil || !reflect.DeepEqual(got, absent) {
				t.Errorf("%s of %s: %+v, %v", name, around, got, err)
			}
		}
	}
	all := messages()
	expect("validate mutate convert", `{%}`, func(text []byte) (any, error) { return Decode(text) })
	expect("controller operation dryRun user old now seed config object", `{%}`, all["review_request"].decode)
	expect("name uid groups", `{"user":{%}}`, all["review_request"].decode)
	expect("allowed reason message warnings auditAnnotations object error", `{%}`, all["validate_result"].decode)
	expect("value", `{"auditAnnotations":[{"name":"a",%}]}`, all["validate_result"].decode)
	expect("controller apiVersion now seed config object", `{%}`, all["convert_request"].decode)
	expect("object error", `{%}`, all["convert_result"].decode)
}

// TestSpecification compares SPEC.md with the types and limits, and its examples with the codec.
func TestSpecification(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| [[a-z]").FindAllSubmatch(spec, -1) {
		rows = append(rows, string(m[1]))
	}
	var want []string
	for _, list := range []func(*message.Fields){
		(&Webhooks{}).fields, withObject((&ReviewRequest{}).fieldsBeforeObject), (&User{}).fields, (&ReviewResult{}).fields,
		(&AuditAnnotation{}).fields, withObject((&ConvertRequest{}).fieldsBeforeObject), (&ConvertResult{}).fields,
	} {
		want = append(want, message.Names(list)...)
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the tables have\n%q, the messages\n%q", rows, want)
	}
	for name, value := range map[string]int{"MaxWarnings": MaxWarnings, "MaxWarning": MaxWarning, "MaxAuditAnnotations": MaxAuditAnnotations, "MaxAuditValue": MaxAuditValue} {
		if !regexp.MustCompile("\\| `" + name + "` \\| " + strconv.Itoa(value) + `\b`).Match(spec) {
			t.Errorf("SPEC.md does not have %s with %d", name, value)
		}
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile("(?s)```json ([a-z-]+)\n(.*?)\n```").FindAllSubmatch(spec, -1) {
		name, text := strings.ReplaceAll(string(m[1]), "-", "_"), m[2]
		seen[name] = true
		if name == "manifest" {
			all, err := abi.DecodeManifest(text)
			if err == nil {
				err = all.CheckSections(map[string]func(*abi.Controller, []byte) error{Name: Check})
			}
			if err != nil {
				t.Error(err)
			}
			continue
		}
		decoded, err := messages()[name].decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if again := messages()[name].encode(decoded); !rawjson.Equal(again, text) {
			t.Errorf("%s is decoded only in part, as %s", text, again)
		}
	}
	if len(seen) != 6 {
		t.Errorf("there are examples of %v", seen)
	}
}

func withObject(before func(*message.Fields)) func(*message.Fields) {
	return func(f *message.Fields) {
		before(f)
		f.Raw("object", new([]byte))
	}
}

// TestDecodingHostileMessageIsLinear covers the arrays and objects of the results, as the test of package abi does for
// others, and that memory is not allocated for entries beyond the limit.
func TestDecodingHostileMessageIsLinear(t *testing.T) {
	distinct := func(i int) string { return `"k` + strconv.Itoa(i) + `":""` }
	deep := strings.Repeat(`{"a":[`, 30) + strings.Repeat(`]}`, 30)
	mutation := func(text []byte) { _, _ = DecodeMutateResult(text) }
	for name, c := range map[string]struct {
		decode func([]byte)
		text   func(n int) []byte
	}{
		"warnings":          {mutation, func(n int) []byte { return costtest.Repeat(n, `{"warnings":[`, `""`, `]}`) }},
		"audit annotations": {mutation, func(n int) []byte { return costtest.Repeat(n, `{"auditAnnotations":[`, `{}`, `]}`) }},
		"mutated object":    {mutation, func(n int) []byte { return costtest.Number(n, `{"allowed":true,"object":{`, distinct, `}}`) }},
		"converted object":  {func(text []byte) { _, _ = DecodeConvertResult(text) }, func(n int) []byte { return costtest.Repeat(n, `{"object":{"a":[`, deep, `]}}`) }},
		"operations":        {func(text []byte) { _, _ = Decode(text) }, func(n int) []byte { return costtest.Repeat(n, `{"validate":[`, `"CREATE"`, `]}`) }},
	} {
		t.Run(name, func(t *testing.T) { costtest.Linear(t, 400, c.text, c.decode) })
		if got := costtest.Allocated(c.decode, c.text(1<<20)); got > 256<<10 && strings.HasSuffix(name, "s") {
			t.Errorf("%s: decoding 1 MiB allocates %d bytes", name, got)
		}
	}
}

func FuzzDecodeReview(f *testing.F) {
	for _, m := range messages() {
		f.Add(m.text)
		f.Add(bytes.Replace(m.text, []byte(`"name"`), []byte(`"name":"x","name"`), 1))
		f.Add(bytes.ReplaceAll(m.text, []byte(`[`), []byte(`[null,`)))
		f.Add(m.text[:len(m.text)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, m := range messages() {
			decoded, err := m.decode(data)
			if err != nil {
				continue
			}
			text := m.encode(decoded)
			if again, err := m.decode(text); err != nil || utf8.Valid(data) && !reflect.DeepEqual(again, decoded) {
				t.Fatalf("%s: %s decodes to %+v, %v", name, text, again, err)
			}
		}
	})
}
