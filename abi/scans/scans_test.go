package scans

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/internal/goldentest"
)

func fullRequest() *Request {
	return &Request{
		Controller: "site", Scan: "due", Now: time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC),
		Seed: [32]byte{0: 1, 31: 255}, Config: []byte(`{"region":"north"}`),
	}
}

func fullResult() *Result {
	return &Result{
		Objects: []Object{{Namespace: "default", Name: "shop", Signal: []byte(`{"start":true}`)}, {Name: "all"}},
		Error:   &abi.Failure{Reason: "NoClock", Message: "the time is not known"},
	}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	all := []Scan{{Name: "due", Interval: 30_000}, {Name: "a", Interval: 1}}
	text := Encode(all)
	if want := `[{"name":"due","interval":30000},{"name":"a","interval":1}]`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got, err := Decode(text); err != nil || !reflect.DeepEqual(got, all) || Check(nil, text) != nil {
		t.Errorf("%+v, %v", got, err)
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

func TestScansThatAreNotValidAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          "expected an array",
		`[{"name":"a"}]`:              "[0].interval: is required: the time between two scans",
		`[{"name":"A","interval":1}]`: `[0].name: "A" is not a DNS label`,
		`[{"name":"a","interval":1},{"name":"a","interval":2}]`:         `[1].name: "a" is given twice`,
		`[{"name":"a","interval":1,"cron":"@daily"}]`:                   `[0]: unknown field "cron"`,
		`[` + strings.Repeat(`{"name":"a","interval":1},`, Max) + `{}]`: "more than 16 entries",
	} {
		if err := Check(nil, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestResultsThatAreNotValidAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:               "expected an object",
		`{"objects":[{}]}`: "objects[0].name: is required",
		`{"objects":[{"name":"a","namespaces":"b"}]}`:                                      `unknown field "namespaces", did you mean "namespace"?`,
		`{"objects":[{"name":"` + strings.Repeat("x", abi.MaxName+1) + `"}]}`:              "objects[0].name:",
		`{"objects":[{"name":"a","signal":"` + strings.Repeat("x", abi.MaxSignal) + `"}]}`: "objects[0].signal:",
		`{"objects":[` + strings.Repeat(`{"name":"a"},`, MaxObjects) + `{"name":"a"}]}`:    "more than 10000 entries",
	} {
		if _, err := DecodeResult([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	long := &Result{Error: &abi.Failure{Message: strings.Repeat("x", abi.MaxErrorMessage+1)}}
	if out, err := DecodeResult(EncodeResult(long)); err != nil || len(out.Error.Message) > abi.MaxErrorMessage {
		t.Errorf("%v: a message is not shortened", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(EncodeRequest(fullRequest()))
	f.Add(EncodeResult(fullResult()))
	f.Add(Encode([]Scan{{Name: "a", Interval: 1}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) { // the encoder replaces invalid bytes
			return
		}
		if q, err := DecodeRequest(data); err == nil {
			if again, err := DecodeRequest(EncodeRequest(q)); err != nil || !reflect.DeepEqual(again, q) {
				t.Errorf("%+v, %v, want %+v", again, err, q)
			}
		}
		if out, err := DecodeResult(data); err == nil {
			if _, err := DecodeResult(EncodeResult(out)); err != nil {
				t.Error(err)
			}
		}
		if all, err := Decode(data); err == nil {
			if _, err := Decode(Encode(all)); err != nil {
				t.Error(err)
			}
		}
	})
}
