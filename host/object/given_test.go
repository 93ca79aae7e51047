package object

import (
	"bytes"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestGuestsDoNotSeeWhatCapabilitiesKeep(t *testing.T) {
	parse := func(annotations string) *Object {
		o, err := Parse([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":`+annotations+`},"spec":{}}`), abi.Kind{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for annotations, want := range map[string]string{
		`{"note":"x","c.p.thole.dev/known":"2","d.q.thole.dev/more":"3"}`: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"note":"x"}},"spec":{}}`,
		`{"c.p.thole.dev/known":"2"}`:                                     `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}`,
		`{"c.p.thole.dev/applied-1":"2"}`:                                 `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"c.p.thole.dev/applied-1":"2"}},"spec":{}}`,
	} {
		if got := parse(annotations).Given(); string(got) != want {
			t.Errorf("%s is given as %s", annotations, got)
		}
	}
	same := parse(`{"note":"x"}`)
	if got := same.Given(); &got[0] != &same.Raw[0] || !bytes.Equal(got, same.Raw) {
		t.Error("an object without such an annotation was copied")
	}
}
