package abi

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi/rawjson"
)

// TestReadRequestKeepsObjectHoweverCallbackReadsIt covers callbacks that read
// the object, leave it, or fail within it.
func TestReadRequestKeepsObjectHoweverCallbackReadsIt(t *testing.T) {
	const object = `{"metadata":{"name":"x"},"spec":[1,2]}`
	text := []byte(`{"controller":"c","object": ` + object + `,"attempt":3}`)
	for name, read := range map[string]func(*Request, *rawjson.Reader){
		"reads raw": func(_ *Request, r *rawjson.Reader) { r.Raw() },
		"leaves it": func(*Request, *rawjson.Reader) {},
		"fails in a nested reader": func(_ *Request, r *rawjson.Reader) {
			if err := r.Nested(func(n *rawjson.Reader) { n.Int() }); err == nil {
				t.Error("the nested reader accepts an object as an integer")
			}
		},
		"skips each member": func(_ *Request, r *rawjson.Reader) {
			for more := r.FirstMember(); more; more = r.NextMember() {
				continue
			}
		},
	} {
		q, err := ReadRequest(text, func(q *Request, r *rawjson.Reader) {
			if q.Controller != "c" || q.Attempt != 0 {
				t.Errorf("%s: called with %+v", name, q)
			}
			read(q, r)
		})
		if err != nil || string(q.Object) != object || q.Attempt != 3 {
			t.Errorf("%s: read %+v, %v", name, q, err)
		}
	}
}

// TestRequestInPartsIsARequest that has not copied the object.
func TestRequestInPartsIsARequest(t *testing.T) {
	for _, q := range []Request{
		{}, {Object: []byte(`{"a":1}`)}, {Controller: "c", Object: []byte(`{}`), Config: []byte(`{"b":2}`), Memo: []byte(`3`)}, {Controller: "c", Attempt: 2},
	} {
		parts := EncodeRequestParts(&q)
		text := slices.Concat(parts...)
		got, err := DecodeRequest(text)
		if err != nil || !reflect.DeepEqual(*got, q) || !bytes.Equal(text, EncodeRequest(&q)) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, q)
		}
		if q.Object != nil && &parts[1][0] != &q.Object[0] {
			t.Errorf("%s: the object was copied", text)
		}
	}
}

func TestReadRequestDoesNotCallBackWithoutObject(t *testing.T) {
	for _, text := range []string{`{"controller":"c"}`, `{"object":null}`} {
		q, err := ReadRequest([]byte(text), func(*Request, *rawjson.Reader) { t.Errorf("%s: called", text) })
		if err != nil || q.Object != nil {
			t.Errorf("%s: %+v, %v", text, q, err)
		}
	}
}

func TestReadRequestReturnsFailureOfCallback(t *testing.T) {
	_, err := ReadRequest([]byte(`{"object":{"a":1}}`), func(_ *Request, r *rawjson.Reader) { r.Fail("no") })
	if err == nil || err.Error() != "object: no (offset 10)" {
		t.Errorf("the error is %v", err)
	}
}

// TestSignalsOfRequestKeepTheirBytes: there may be more of them than one call gives.
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
