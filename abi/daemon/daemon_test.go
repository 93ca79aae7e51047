package daemon

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/internal/costtest"
	"github.com/thole-dev/thole/abi/internal/goldentest"
	"github.com/thole-dev/thole/abi/rawjson"
)

func fullDaemon() *Daemon {
	return &Daemon{LabelSelector: "example.com/watched", Timeout: 1_000, Grace: 5_000}
}

func fullRequest() *Request {
	return &Request{
		Controller: "site",
		Object:     []byte(`{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"shop","namespace":"default"},"spec":{"replicas":9007199254740993,"title":"Sch\u00f6ne \u0042\u00fccher"}}`),
		Events:     []Event{Read, Time},
		State:      []byte(`{"failed":2}`),
		Now:        time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC),
		Seed:       [32]byte{0: 1, 31: 255},
		Config:     []byte(`{"region":"north"}`),
	}
}

func fullResult() *Result {
	return &Result{
		Wait:    Wait{After: 30_000, Object: true, Reads: true},
		End:     true,
		Signals: [][]byte{[]byte(`{"reachable":false}`), []byte(`null`)},
		State:   []byte(`{"failed":3}`),
		Error:   &abi.Failure{Reason: "NoRoute", Message: "the site has no address"},
	}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	text := Encode(fullDaemon())
	if want := `{"labelSelector":"example.com/watched","timeout":1000,"grace":5000}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if d, err := Decode(text); err != nil || !reflect.DeepEqual(d, fullDaemon()) {
		t.Errorf("%+v, %v", d, err)
	}
	if text := Encode(&Daemon{}); string(text) != `{}` {
		t.Errorf("a daemon with the defaults is %s", text)
	}
	goldentest.Expect(t, "request", EncodeRequest(fullRequest()))
	if q, err := DecodeRequest(EncodeRequest(fullRequest())); err != nil || !reflect.DeepEqual(q, fullRequest()) {
		t.Errorf("%+v, %v", q, err)
	}
	goldentest.Expect(t, "result", EncodeResult(fullResult()))
	goldentest.Expect(t, "result_empty", EncodeResult(&Result{}))
	if out, err := DecodeResult(EncodeResult(fullResult())); err != nil || !reflect.DeepEqual(out, fullResult()) {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := DecodeResult(nil); err != nil || !reflect.DeepEqual(out, &Result{}) {
		t.Errorf("of nothing: %+v, %v", out, err)
	}
}

// TestNullFieldEqualsAbsentField sets each field of each message to null.
func TestNullFieldEqualsAbsentField(t *testing.T) {
	decoder := func(names, around string, decode func([]byte) (any, error)) {
		absent, err := decode([]byte(strings.Replace(around, "%", "", 1)))
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
	decoder("labelSelector timeout grace", `{%}`, func(text []byte) (any, error) { return Decode(text) })
	decoder("controller object events state now seed config", `{%}`, func(text []byte) (any, error) { return DecodeRequest(text) })
	decoder("wait end signals state error", `{%}`, func(text []byte) (any, error) { return DecodeResult(text) })
	decoder("after object reads", `{"wait":{%}}`, func(text []byte) (any, error) { return DecodeResult(text) })
}

// refusal is a text, and how the error begins with which it is refused.
type refusal struct{ text, want string }

func expectRefused[T any](t *testing.T, decode func([]byte) (*T, error), all []refusal) {
	t.Helper()
	for _, r := range all {
		if _, err := decode([]byte(r.text)); err == nil || err.Error() != r.want {
			t.Errorf("%.200s: %v, want %s", r.text, err, r.want)
		}
	}
}

func list(n int, entry string) string { return "[" + strings.Repeat(entry+",", n-1) + entry + "]" }

func TestSectionsThatAreNotValidAreRefused(t *testing.T) {
	expectRefused(t, Decode, []refusal{
		{`[]`, `expected an object, found an array (offset 0)`},
		{`true`, `expected an object, found true (offset 0)`},
		{`{"labelSelector":"` + strings.Repeat("x", abi.MaxSelector+1) + `"}`, `labelSelector: 8193 bytes, the limit is 8192`},
		{`{"selector":"a=b"}`, `unknown field "selector" (offset 12)`},
		{`{"graze":1}`, `unknown field "graze", did you mean "grace"? (offset 9)`},
		{`{"timeout":-1}`, `timeout: must not be negative, is -1 (offset 13)`},
		{`{"timeout":3153600000001}`, `timeout: must be at most 100 years, is 3153600000001 (offset 24)`},
		{`{"grace":"10s"}`, `grace: expected an integer, found a string (offset 9)`},
	})
	for _, text := range []string{
		`{}`, // every field has a default
		`{"labelSelector":"` + strings.Repeat("x", abi.MaxSelector) + `"}`,
	} {
		if err := Check(&abi.Controller{Finalizer: true}, []byte(text)); err != nil {
			t.Errorf("%.200s: %v", text, err)
		}
	}
	if err := Check(&abi.Controller{Finalizer: true}, []byte(`{"graze":1}`)); err == nil {
		t.Error("a section is not decoded")
	}
}

// The object stays until its daemon has been stopped.
func TestADaemonNeedsAFinalizer(t *testing.T) {
	m, err := abi.DecodeManifest([]byte(`{"name":"a","controllers":[{"name":"b","for":{"apiVersion":"v1","kind":"K"},"daemon":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	capabilities := map[string]func(*abi.Controller, []byte) error{Name: Check}
	const want = `controllers[0].daemon: needs finalizer: the object stays until its daemon has been stopped`
	if err := m.CheckSections(capabilities); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	m.Controllers[0].Finalizer = true
	if err := m.CheckSections(capabilities); err != nil {
		t.Error(err)
	}
}

func TestResultsThatAreNotValidAreRefused(t *testing.T) {
	expectRefused(t, DecodeResult, []refusal{
		{` `, `the text ends where an object is expected (offset 1)`},
		{`null`, `expected an object, found null (offset 0)`},
		{"{\"state\":\"\xff\"}", `the text is not UTF-8 (offset 10)`},
		{`{"signal":[1]}`, `unknown field "signal", did you mean "signals"? (offset 10)`},
		{`{"state":1,"state":2}`, `state: field given twice (offset 19)`},
		{`{"state":{"a":1,"\u0061":2}}`, `state.a: field given twice (offset 25)`},
		{`{"wait":{"until":1}}`, `wait: unknown field "until" (offset 17)`},
		{`{"wait":1000}`, `wait: expected an object, found a number (offset 8)`},
		{`{"wait":{"after":-1}}`, `wait.after: must not be negative, is -1 (offset 19)`},
		{`{"wait":{"after":0.5}}`, `wait.after: expected an integer of 64 bits, found 0.5 (offset 17)`},
		{`{"wait":{"after":3153600000001}}`, `wait.after: must be at most 100 years, is 3153600000001 (offset 30)`},
		{`{"wait":{"object":1}}`, `wait.object: expected true or false, found a number (offset 18)`},
		{`{"end":"yes"}`, `end: expected true or false, found a string (offset 7)`},
		{`{"signals":{}}`, `signals: expected an array, found an object (offset 11)`},
		{`{"signals":` + list(abi.MaxSignals+1, `1`) + `}`, `signals[16]: more than 16 entries (offset 44)`},
		{`{"signals":[1,"` + strings.Repeat("x", abi.MaxSignal-1) + `"]}`, `signals[1]: 4097 bytes, the limit is 4096`},
		{`{"state":"` + strings.Repeat("x", MaxState-1) + `"}`, `state: 32769 bytes, the limit is 32768`},
		{`{"state":` + strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth) + `}`, `state` + strings.Repeat("[0]", 15) + `...` + strings.Repeat("[0]", 16) + `: nested more than 64 levels deep (offset 72)`},
		{`{"error":{"code":1}}`, `error: unknown field "code" (offset 17)`},
	})
}

func TestValidResultIsAccepted(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"wait":{},"signals":[],"state":null}`,
		`{"signals":` + list(abi.MaxSignals, `"`+strings.Repeat("x", abi.MaxSignal-2)+`"`) + `}`,
		`{"signals":[null,false,0,"",[],{}]}`, // raw values of any kind
		`{"state":"` + strings.Repeat("x", MaxState-2) + `"}`,
		`{"state":` + strings.Repeat("[", abi.MaxDepth-1) + strings.Repeat("]", abi.MaxDepth-1) + `}`,
		`{"end":true,"error":{"reason":"not a word"}}`, // the host uses the reason of the class instead
	} {
		if _, err := DecodeResult([]byte(text)); err != nil {
			t.Errorf("%.200s: %v", text, err)
		}
	}
}

// TestResultDoesNotAliasText: the host keeps the result of a step for longer than its text,
// which may have 1.5 MiB.
func TestResultDoesNotAliasText(t *testing.T) {
	text := []byte(`{"state":"abc","signals":["def",{"g":1}],"error":{"reason":"Hij","message":"klm"}}`)
	out, err := DecodeResult(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	want := &Result{
		State: []byte(`"abc"`), Signals: [][]byte{[]byte(`"def"`), []byte(`{"g":1}`)},
		Error: &abi.Failure{Reason: "Hij", Message: "klm"},
	}
	if !reflect.DeepEqual(out, want) {
		t.Errorf("the result has become %+v with state %q, signals %q and error %+v", out, out.State, out.Signals, out.Error)
	}
}

func TestLongMessageIsTruncated(t *testing.T) {
	out, err := DecodeResult([]byte(`{"error":{"message":"` + strings.Repeat("x", abi.MaxErrorMessage+1) + `"}}`))
	if err != nil || len(out.Error.Message) != abi.MaxErrorMessage || !strings.HasSuffix(out.Error.Message, "x...") {
		t.Errorf("the message has %d bytes, %v", len(out.Error.Message), err)
	}
}

func TestRequestIgnoresUnknownFields(t *testing.T) {
	q, err := DecodeRequest([]byte(`{"new":{"a":[{}]},"controller":"c","events":["start","later"],"new":1}`))
	if want := []Event{Start, "later"}; err != nil || q.Controller != "c" || !reflect.DeepEqual(q.Events, want) {
		t.Errorf("got %+v, %v", q, err)
	}
}

func TestRequestInPartsDoesNotCopyObject(t *testing.T) {
	q := fullRequest()
	parts := EncodeRequestParts(q)
	if len(parts) != 3 || &parts[1][0] != &q.Object[0] {
		t.Errorf("the object is not one of the %d parts", len(parts))
	}
	if text := bytes.Join(parts, nil); !bytes.Equal(text, EncodeRequest(q)) {
		t.Errorf("the parts are %s", text)
	}
}

// TestDecodingHostileResultIsLinear covers the arrays and objects of a result, as the test of package abi
// does for others.
func TestDecodingHostileResultIsLinear(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 30) + strings.Repeat(`]}`, 30)
	for name, text := range map[string]func(n int) []byte{
		"signals": func(n int) []byte { return costtest.Repeat(n, `{"signals":[`, `{}`, `]}`) },
		"signal":  func(n int) []byte { return costtest.Repeat(n, `{"signals":[[`, deep, `]]}`) },
		"state": func(n int) []byte {
			return costtest.Number(n, `{"state":{`, func(i int) string { return `"k` + strconv.Itoa(i) + `":""` }, `}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			costtest.Linear(t, 400, text, func(text []byte) { _, _ = DecodeResult(text) })
		})
	}
	got := costtest.Allocated(func(text []byte) { _, _ = DecodeResult(text) }, costtest.Repeat(1<<20, `{"signals":[`, `{}`, `]}`))
	if got > 256<<10 {
		t.Errorf("decoding 1 MiB of signals allocates %d bytes", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(fullDaemon()))
	f.Add(EncodeRequest(fullRequest()))
	f.Add(EncodeResult(fullResult()))
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip(t, data, Decode, Encode)
		roundTrip(t, data, DecodeRequest, EncodeRequest)
		roundTrip(t, data, DecodeResult, EncodeResult)
	})
}

// roundTrip checks that a message which decodes is the same after encoding and decoding it.
func roundTrip[T any](t *testing.T, data []byte, decode func([]byte) (*T, error), encode func(*T) []byte) {
	t.Helper()
	m, err := decode(data)
	if err != nil || !utf8.Valid(data) { // the encoder replaces invalid bytes
		return
	}
	if again, err := decode(encode(m)); err != nil || !reflect.DeepEqual(again, m) {
		t.Fatalf("%s decodes to %+v, and after encoding it to %+v, %v", data, m, again, err)
	}
}

var specExample = regexp.MustCompile("(?s)```json ([a-z-]+)\n(.*?)```")

// TestSpecExamplesDecodeCompletely decodes every example and encodes it again.
func TestSpecExamplesDecodeCompletely(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	again := map[string]func([]byte) ([]byte, error){
		"daemon-request": reencoded(DecodeRequest, EncodeRequest),
		"daemon-result":  reencoded(DecodeResult, EncodeResult),
		"manifest":       reencoded(abi.DecodeManifest, abi.EncodeManifest),
	}
	seen := map[string]bool{}
	for _, m := range specExample.FindAllStringSubmatch(string(spec), -1) {
		seen[m[1]] = true
		if text, err := again[m[1]]([]byte(m[2])); err != nil || !rawjson.Equal(text, []byte(m[2])) {
			t.Errorf("an example of %s is decoded as %s, %v", m[1], text, err)
		}
	}
	if len(seen) != len(again) {
		t.Errorf("there are examples of %v only", seen)
	}
}

func reencoded[T any](decode func([]byte) (*T, error), encode func(*T) []byte) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		m, err := decode(text)
		if err != nil {
			return nil, err
		}
		return encode(m), nil
	}
}
