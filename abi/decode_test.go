package abi

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/rawjson"
)

// TestNullFieldEqualsAbsentField sets each field of each message to null and
// expects the message that decodes without the field.
func TestNullFieldEqualsAbsentField(t *testing.T) {
	for _, c := range []struct {
		name, fields, with string
		read               func(string) (any, error)
	}{
		{"manifest", "version managed", `{"name":"a","controllers":[{"name":"b","for":{"apiVersion":"v1","kind":"K"}}],"%":null}`, decoder(DecodeManifest)},
		{
			"controller", "owns reads writes indexes finalizer changes gone interval timeout concurrency retry conditions",
			`{"name":"a","controllers":[{"name":"b","for":{"apiVersion":"v1","kind":"K"},"%":null}]}`, decoder(DecodeManifest),
		},
		{
			"retry", "initial factor cap jitter attempts then",
			`{"name":"a","controllers":[{"name":"b","for":{"apiVersion":"v1","kind":"K"},"retry":{"%":null}}]}`, decoder(DecodeManifest),
		},
		{
			"conditions", "target owned summarized negativePolarity",
			`{"name":"a","controllers":[{"name":"b","for":{"apiVersion":"v1","kind":"K"},"conditions":{"%":null}}]}`, decoder(DecodeManifest),
		},
		{"request", "controller object deleting gone reasons attempt previous signals change memo now seed config", `{"%":null}`, decoder(DecodeRequest)},
		{"previous", "class failures", `{"previous":{"%":null}}`, decoder(DecodeRequest)},
		{"failure", "verb ref class reason message", `{"previous":{"failures":[{"%":null}]}}`, decoder(DecodeRequest)},
		{"result", "result requeueAfter status conditions patch apply delete events memo error", `{"%":null}`, decoder(DecodeResult)},
		{"condition", "status reason message", `{"conditions":[{"type":"A","%":null}]}`, decoder(DecodeResult)},
		{"apply", "adopt", `{"apply":[{"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"x"}},"%":null}]}`, decoder(DecodeResult)},
		{"ref", "namespace uid", `{"delete":[{"apiVersion":"v1","kind":"K","name":"x","%":null}]}`, decoder(DecodeResult)},
		{"group", "condition", `{"groups":[{"name":"a","%":null}]}`, decoder(DecodeResult)},
		{"event", "message group", `{"events":[{"type":"Normal","reason":"A","%":null}]}`, decoder(DecodeResult)},
		{"error", "reason message after terminal", `{"error":{"%":null}}`, decoder(DecodeResult)},
		{"get", "namespace uid fields", `{"apiVersion":"v1","kind":"K","name":"x","%":null}`, decoder(DecodeGetCall)},
		{"list", "namespace labelSelector fieldSelector fields limit continue", `{"apiVersion":"v1","kind":"K","%":null}`, decoder(DecodeListCall)},
		{"reply", "items continue", `{"%":null}`, decoder(DecodeListReply)},
	} {
		without := strings.Replace(strings.Replace(c.with, `,"%":null`, "", 1), `"%":null`, "", 1)
		want, err := c.read(without)
		if err != nil {
			t.Fatalf("%s: %s: %v", c.name, without, err)
		}
		for field := range strings.FieldsSeq(c.fields) {
			got, err := c.read(strings.Replace(c.with, "%", field, 1))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: with %s null: %+v, %v; want %+v", c.name, field, got, err, want)
			}
		}
	}
}

func decoder[T any](decode func([]byte) (*T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return decode([]byte(text)) }
}

func TestEmptyFieldEqualsAbsentField(t *testing.T) {
	text := `{"result":"","requeueAfter":0,"conditions":[],"apply":[],"delete":[],"events":[]}`
	if got, err := DecodeResult([]byte(text)); err != nil || !reflect.DeepEqual(got, &Result{}) {
		t.Errorf("got %+v, %v", got, err)
	}
	text = `{"controller":"","deleting":false,"reasons":[],"attempt":0,"now":"","seed":""}`
	if got, err := DecodeRequest([]byte(text)); err != nil || !reflect.DeepEqual(got, &Request{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestEmptyRawValueIsKept(t *testing.T) {
	got, err := DecodeResult([]byte(`{"status":{},"patch":{},"memo":[]}`))
	if err != nil || string(got.Status) != "{}" || string(got.Patch) != "{}" || string(got.Memo) != "[]" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestEmptyOutputDecodesToEmptyResult(t *testing.T) {
	if got, err := DecodeResult(nil); err != nil || !reflect.DeepEqual(got, &Result{}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := DecodeResult([]byte(" ")); err == nil {
		t.Error("white space is accepted as a result")
	}
}

func TestObjectOfRequestKeepsItsBytes(t *testing.T) {
	object := `{ "z" : 9007199254740993, "f":1.0, "e":1E400 , "s":"\u0041\ud800", "d":1, "d":2 }`
	text := EncodeRequest(&Request{Object: []byte(object)})
	q, err := DecodeRequest(text)
	if err != nil || string(q.Object) != object {
		t.Errorf("got %s, %v", q.Object, err)
	}
}

// TestDepthLimitDoesNotApplyToObjectsOfCluster: MaxDepth is for what guests
// write.
func TestDepthLimitDoesNotApplyToObjectsOfCluster(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	if _, err := DecodeRequest(EncodeRequest(&Request{Object: []byte(deep)})); err != nil {
		t.Error(err)
	}
	reply, err := DecodeListReply(EncodeListReply(&ListReply{Items: [][]byte{[]byte(deep)}}))
	if err != nil || string(reply.Items[0]) != deep {
		t.Error(err)
	}
}

func TestLenientDecoderIgnoresUnknownFields(t *testing.T) {
	q, err := DecodeRequest([]byte(`{"new":{"a":[{}]},"controller":"c","new":1,"previous":{"class":"retry","new":[],"failures":[{"new":0,"ref":{"new":0}}]}}`))
	if err != nil || q.Controller != "c" || q.Previous.Class != ClassRetry || len(q.Previous.Failures) != 1 {
		t.Errorf("got %+v, %v", q, err)
	}
	if _, err := DecodeListReply([]byte(`{"continue":"x","items":[]}`)); err != nil {
		t.Error(err)
	}
}

// TestRequestUsesLastOfDuplicateFields: JSON decoders usually do so. No host
// writes such a request.
func TestRequestUsesLastOfDuplicateFields(t *testing.T) {
	q, err := DecodeRequest([]byte(`{"attempt":1,"reasons":["primary","read"],"attempt":2,"reasons":["owned"]}`))
	if err != nil || q.Attempt != 2 || !reflect.DeepEqual(q.Reasons, []Reason{ReasonOwned}) {
		t.Errorf("got %+v, %v", q, err)
	}
	q, err = ReadRequest([]byte(`{"previous":{"failures":[{"ref":{"kind":"P","name":"x"},"ref":{"kind":"Q"}},{"ref":{"kind":"P"},"ref":null}]},"object":{},"object":null}`),
		func(*Request, *rawjson.Reader) {})
	if err != nil || q.Object != nil || !reflect.DeepEqual(q.Previous.Failures, []EffectFailure{{Ref: Ref{Kind: "Q"}}, {}}) {
		t.Errorf("got %+v, %v", q, err)
	}
}

func TestTimeIsConvertedToUTC(t *testing.T) {
	q, err := DecodeRequest([]byte(`{"now":"2026-11-20T14:00:00.5+02:00"}`))
	if want := time.Date(2026, 11, 20, 12, 0, 0, 5e8, time.UTC); err != nil || q.Now != want {
		t.Errorf("got %v, %v", q, err)
	}
	for _, text := range []string{"today", "2026-11-20", "2026-11-20 12:00:00Z", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"} {
		if _, err := DecodeRequest([]byte(`{"now":"` + text + `"}`)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestSeedMustHave32Bytes(t *testing.T) {
	for _, text := range []string{"AA==", strings.Repeat("A", 44), strings.Repeat("?", 44), strings.Repeat("A", 1<<20)} {
		if _, err := DecodeRequest([]byte(`{"seed":"` + text + `"}`)); err == nil || !strings.HasPrefix(err.Error(), "seed: expected 32 bytes in base64") {
			t.Errorf("%.50q: %v", text, err)
		}
	}
}

func TestLongMessagesAreTruncated(t *testing.T) {
	long := strings.Repeat("é", 40<<10)
	out := fullResult()
	out.Error.Message, out.Conditions[0].Message, out.Events[0].Message = "x"+long, long, "x"+long
	got, err := decodeResultWithSections(EncodeResult(out))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want int
	}{
		{got.Error.Message, MaxErrorMessage},
		{got.Conditions[0].Message, MaxConditionMessage - 1}, // it does not end within a character
		{got.Events[0].Message, MaxEventMessage},
	} {
		if len(c.text) != c.want || !strings.HasSuffix(c.text, "é...") {
			t.Errorf("the message has %d bytes, want %d", len(c.text), c.want)
		}
	}
}

// TestMemoDoesNotAliasResult: the memo outlives the run, the text of the result does not.
func TestMemoDoesNotAliasResult(t *testing.T) {
	text := []byte(`{"memo":"abc"}`)
	out, err := DecodeResult(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	if string(out.Memo) != `"abc"` {
		t.Errorf("the memo is %q", out.Memo)
	}
}

func TestEncoderReplacesInvalidUTF8(t *testing.T) {
	out, err := DecodeResult(EncodeResult(&Result{Error: &Failure{Message: "a\xffb"}}))
	if err != nil || out.Error.Message != "a\uFFFDb" {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestDecoderReturnsNilWithError(t *testing.T) {
	for _, m := range messages() {
		got, err := m.decode([]byte(`{"name":"a"`))
		var e *rawjson.Error
		if got != nil || !errors.As(err, &e) {
			t.Errorf("%s: got %+v, %T", m.name, got, err)
		}
	}
}
