package abi

import (
	"testing"

	"github.com/thole-dev/thole/abi/rawjson"
)

// TestReadRequest: the object is the same, whether it was read in place, left,
// or read in part.
func TestReadRequest(t *testing.T) {
	const object = `{"metadata":{"name":"x"},"spec":[1,2]}`
	text := []byte(`{"controller":"c","object": ` + object + `,"attempt":3}`)
	for name, read := range map[string]func(*Request, *rawjson.Reader){
		"read": func(_ *Request, r *rawjson.Reader) { r.Raw() },
		"left": func(*Request, *rawjson.Reader) {},
		"nested, with an error": func(_ *Request, r *rawjson.Reader) {
			if err := r.Nested(func(n *rawjson.Reader) { n.Int() }); err == nil {
				t.Error("an object is an integer")
			}
		},
		"members": func(_ *Request, r *rawjson.Reader) {
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

func TestReadRequestWithoutObject(t *testing.T) {
	for _, text := range []string{`{"controller":"c"}`, `{"object":null}`} {
		q, err := ReadRequest([]byte(text), func(*Request, *rawjson.Reader) { t.Errorf("%s: called", text) })
		if err != nil || q.Object != nil {
			t.Errorf("%s: %+v, %v", text, q, err)
		}
	}
}

func TestReadRequestFailsWithItsObject(t *testing.T) {
	_, err := ReadRequest([]byte(`{"object":{"a":1}}`), func(_ *Request, r *rawjson.Reader) { r.Fail("no") })
	if err == nil || err.Error() != "object: no (offset 10)" {
		t.Errorf("the error is %v", err)
	}
}
