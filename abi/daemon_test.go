package abi

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// daemonWith returns a manifest with the feature daemons, and one controller with a finalizer and
// these members of daemon.
func daemonWith(members string) string {
	return strings.Replace(manifestWith(`"finalizer":true,"daemon":{`+members+`}`), `"controllers"`, `"features":["daemons"],"controllers"`, 1)
}

func TestInvalidDaemonIsRefused(t *testing.T) {
	const path = `controllers[0].daemon`
	expectRefused(t, DecodeManifest, []refusal{
		{manifestWith(`"finalizer":true,"daemon":{}`), path + `: needs the feature "daemons": name it in features`},
		{
			strings.Replace(daemonWith(``), `"finalizer":true,`, ``, 1),
			path + `: needs finalizer: the object stays until its daemon has been stopped`,
		},
		{
			daemonWith(`"labelSelector":"` + strings.Repeat("x", MaxSelector+1) + `"`),
			path + `.labelSelector: 8193 bytes, the limit is 8192`,
		},
		{daemonWith(`"selector":"a=b"`), path + `: unknown field "selector" (offset 137)`},
		{daemonWith(`"graze":1`), path + `: unknown field "graze", did you mean "grace"? (offset 134)`},
		{daemonWith(`"timeout":-1`), path + `.timeout: must not be negative, is -1 (offset 138)`},
		{daemonWith(`"grace":"10s"`), path + `.grace: expected an integer, found a string (offset 134)`},
	})
	for _, text := range []string{
		daemonWith(``), // every field has a default
		daemonWith(`"labelSelector":"` + strings.Repeat("x", MaxSelector) + `"`),
		manifestWith(`"daemon":null`),
	} {
		if _, err := DecodeManifest([]byte(text)); err != nil {
			t.Errorf("%.300s: %v", text, err)
		}
	}
}

func TestInvalidDaemonResultIsRefused(t *testing.T) {
	expectRefused(t, DecodeDaemonResult, []refusal{
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
		{`{"signals":` + list(MaxSignals+1, `1`) + `}`, `signals[16]: more than 16 entries (offset 44)`},
		{`{"signals":[1,"` + strings.Repeat("x", MaxSignal-1) + `"]}`, `signals[1]: 4097 bytes, the limit is 4096`},
		{`{"state":"` + strings.Repeat("x", MaxDaemonState-1) + `"}`, `state: 32769 bytes, the limit is 32768`},
		{`{"state":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`, `state` + strings.Repeat("[0]", 15) + `...` + strings.Repeat("[0]", 16) + `: nested more than 64 levels deep (offset 72)`},
		{`{"error":{"code":1}}`, `error: unknown field "code" (offset 17)`},
	})
}

func TestValidDaemonResultIsAccepted(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"wait":{},"signals":[],"state":null}`,
		`{"signals":` + list(MaxSignals, `"`+strings.Repeat("x", MaxSignal-2)+`"`) + `}`,
		`{"signals":[null,false,0,"",[],{}]}`, // raw values of any kind
		`{"state":"` + strings.Repeat("x", MaxDaemonState-2) + `"}`,
		`{"state":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`,
		`{"end":true,"error":{"reason":"not a word"}}`, // the host uses the reason of the class instead
	} {
		if _, err := DecodeDaemonResult([]byte(text)); err != nil {
			t.Errorf("%.200s: %v", text, err)
		}
	}
}

// TestDaemonResultDoesNotAliasText: the host keeps the result of a step for longer than its text,
// which may have 1.5 MiB.
func TestDaemonResultDoesNotAliasText(t *testing.T) {
	text := []byte(`{"state":"abc","signals":["def",{"g":1}],"error":{"reason":"Hij","message":"klm"}}`)
	out, err := DecodeDaemonResult(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	want := &DaemonResult{
		State: []byte(`"abc"`), Signals: [][]byte{[]byte(`"def"`), []byte(`{"g":1}`)},
		Error: &Failure{Reason: "Hij", Message: "klm"},
	}
	if !reflect.DeepEqual(out, want) {
		t.Errorf("the result has become %+v with state %q, signals %q and error %+v", out, out.State, out.Signals, out.Error)
	}
}

func TestLongMessageOfDaemonIsTruncated(t *testing.T) {
	out, err := DecodeDaemonResult([]byte(`{"error":{"message":"` + strings.Repeat("x", MaxErrorMessage+1) + `"}}`))
	if err != nil || len(out.Error.Message) != MaxErrorMessage || !strings.HasSuffix(out.Error.Message, "x...") {
		t.Errorf("the message has %d bytes, %v", len(out.Error.Message), err)
	}
}

func TestDaemonRequestIgnoresUnknownFields(t *testing.T) {
	q, err := DecodeDaemonRequest([]byte(`{"new":{"a":[{}]},"controller":"c","events":["start","later"],"new":1}`))
	if want := []DaemonEvent{DaemonStart, "later"}; err != nil || q.Controller != "c" || !reflect.DeepEqual(q.Events, want) {
		t.Errorf("got %+v, %v", q, err)
	}
}

func TestDaemonRequestInPartsDoesNotCopyObject(t *testing.T) {
	q := fullDaemonRequest()
	parts := EncodeDaemonRequestParts(q)
	if len(parts) != 3 || &parts[1][0] != &q.Object[0] {
		t.Errorf("the object is not one of the %d parts", len(parts))
	}
	if text := bytes.Join(parts, nil); !bytes.Equal(text, EncodeDaemonRequest(q)) {
		t.Errorf("the parts are %s", text)
	}
}

// TestSignalsOfRequestKeepTheirBytes: there may be more of them than one step gives.
func TestSignalsOfRequestKeepTheirBytes(t *testing.T) {
	signals := make([][]byte, 4*MaxSignals)
	for i := range signals {
		signals[i] = []byte(`{ "z":1.0, "a":null }`)
	}
	q, err := DecodeRequest(EncodeRequest(&Request{Controller: "c", Signals: signals}))
	if err != nil || !reflect.DeepEqual(q.Signals, signals) {
		t.Errorf("got %s, %v", q.Signals, err)
	}
}
