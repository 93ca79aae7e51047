package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

func init() { UseEncodingJSON() }

type loop struct {
	Next *loop          `json:"next,omitempty"`
	More map[string]any `json:"more,omitempty"`
}

type badMarshaler struct{}

func (badMarshaler) MarshalJSON() ([]byte, error) { return nil, errors.New("bad") }

type garbage struct{}

func (*garbage) MarshalJSON() ([]byte, error) { return []byte("{"), nil }

type badText string

func (badText) MarshalText() ([]byte, error) { return nil, errors.New("bad") }

type textKey struct{ A int }

func (k textKey) MarshalText() ([]byte, error) { return []byte{byte('a' + k.A)}, nil }

type embedded struct {
	time.Time
}

type mixed struct {
	Skipped chan int `json:"-"`
	_       chan int
	Float   float32
	Any     any
	Bytes   []byte
	Pointer *float64
	When    time.Time
	Array   [2]any
	badTextHolder
}

type badTextHolder struct{ Text []badText }

// TestEncodableAgreesWithEncodingJSON: encoding/json must never be called with a
// value for which it panics internally.
func TestEncodableAgreesWithEncodingJSON(t *testing.T) {
	circle := &loop{}
	circle.Next = circle
	knot := map[string]any{}
	knot["knot"] = []any{knot}
	number := 1.5
	for name, v := range map[string]any{
		"nil": nil, "string": "x", "int": 1, "float": 1.5, "bool": true,
		"nan": math.NaN(), "inf": float32(math.Inf(-1)), "chan": make(chan int), "func": func() {}, "complex": complex(1, 2),
		"nil chan in struct": struct{ C chan int }{}, "nil pointer to chan": struct{ C *chan int }{},
		"slice of any": []any{1, "x", nil, []any{}}, "slice of bad": []any{1, math.NaN()},
		"map": map[string]int{"a": 1}, "map by int": map[int]string{1: "a"}, "map by float": map[float64]int{1: 1},
		"map by text": map[textKey]int{{1}: 1}, "map by struct": map[struct{ A int }]int{}, "map by bad text": map[badText]int{"a": 1},
		"empty map by float": map[float64]int{}, "map of bad": map[string]any{"a": map[string]any{"b": make(chan int)}},
		"circle": circle, "knot": knot, "list": &loop{Next: &loop{}},
		"marshaler": badMarshaler{}, "in slice": []badMarshaler{{}}, "nil marshaler": (*badMarshaler)(nil), "pointer": &badMarshaler{},
		"garbage": &garbage{}, "garbage by value": garbage{}, "garbage in slice": []garbage{{}}, "garbage in pointer": &struct{ G garbage }{},
		"text": badText("x"), "text in map": map[string]badText{"a": "b"},
		"number": json.Number("1e5"), "no number": json.Number("x"), "empty number": json.Number(""), "string number": json.Number(`"1"`),
		"year": time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "time": time.Unix(0, 0), "embedded": embedded{},
		"mixed":      mixed{Float: 1, Any: map[string]any{"a": &number}, Bytes: []byte("x"), Pointer: &number},
		"mixed, bad": mixed{Array: [2]any{nil, math.NaN()}}, "mixed, promoted": mixed{badTextHolder: badTextHolder{Text: []badText{"x"}}},
		"own": Condition{}, "meta": ObjectMeta{}, "ref": Ref{},
	} {
		t.Run(name, func(t *testing.T) {
			want, jsonErr := json.Marshal(v)
			got, err := encode(v)
			if (err == nil) != (encodable(v) == nil) {
				t.Errorf("encoding/json was called: %v", err)
			}
			if (err == nil) != (jsonErr == nil) || !bytes.Equal(got, want) {
				t.Errorf("got %s, %v; encoding/json: %s, %v", got, err, want, jsonErr)
			}
		})
	}
}

// typed is a type with a codec of its own.
type typed struct{ n int64 }

func (g *typed) DecodeJSON(r *Reader) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		if r.Name() == "n" {
			codec.ReadInt(r, &g.n)
		}
	}
}

func (g typed) AppendJSON(dst []byte) ([]byte, error) {
	if g.n < 0 {
		return dst, codec.Within("n", errors.New("negative"))
	}
	return codec.AppendInt(dst, g.n), nil
}

func TestMethodsOfTypeReplaceEncodingJSON(t *testing.T) {
	var g typed
	if err := decode([]byte(`{"n":1152921504606846977,"m":[]}`), &g); err != nil {
		t.Fatal(err)
	}
	for v, want := range map[any]string{g: "1152921504606846977", &g: "1152921504606846977", (*typed)(nil): "null"} {
		if data, err := encode(v); err != nil || string(data) != want {
			t.Errorf("encoded %s, %v", data, err)
		}
	}
	if _, err := encode(typed{-1}); err == nil || err.Error() != "n: negative" {
		t.Errorf("the error is %v", err)
	}
}

func TestMethodsOfElementsReplaceEncodingJSON(t *testing.T) {
	list := []typed{{1}, {2}, {3}}
	for _, c := range []struct {
		text string
		want []typed
	}{
		{`[{"n":7},{"m":1}]`, []typed{{7}, {2}}}, // encoding/json reuses elements too
		{`[{"n":1},{"n":2},{"n":3},{"n":4},{"n":5}]`, []typed{{1}, {2}, {3}, {4}, {5}}},
		{`[]`, []typed{}},
		{`null`, nil},
		{`[{"n":9}]`, []typed{{9}}},
	} {
		if err := decode([]byte(c.text), &list); err != nil || !reflect.DeepEqual(list, c.want) {
			t.Errorf("%s is read as %+v, %v", c.text, list, err)
		}
	}
	for text, want := range map[string]string{
		`{}`: "expected an array, found an object", `[{"n":1},{"n":"x"}]`: "[1].n: expected an integer, found a string",
	} {
		if err := decode([]byte(text), &list); err == nil || err.Error() != want {
			t.Errorf("%s: the error is %v, expected %s", text, err, want)
		}
	}
}

// FuzzMeta compares reading metadata with encoding/json.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"name":"a","namespace":"b","uid":"c","resourceVersion":"1","generation":2,"creationTimestamp":"2026-01-01T00:00:00Z",` +
		`"deletionTimestamp":null,"labels":{"a":"b"},"annotations":null,"finalizers":["x"],` +
		`"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true,"blockOwnerDeletion":null}],"managedFields":[{}]}`))
	f.Add([]byte(`{"labels":{"a":1}}`))
	f.Add([]byte(`{"finalizers":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want ObjectMeta
		r := rawjson.NewReader(data)
		readJSONObjectMeta(r, &got)
		if r.End() != nil || !canonical(data) {
			return
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("accepted what encoding/json rejects: %v", err)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Fatalf("read %s, encoding/json %s", a, b)
		}
	})
}

// canonical reports whether encoding/json must read a text in the same way. It
// merges a member that occurs twice, and ignores the case of names.
func canonical(data []byte) bool {
	r := rawjson.NewReader(data)
	r.Strict = true
	var visit func()
	visit = func() {
		switch r.Kind() {
		case '{':
			r.Object(func(name string) {
				if !bytes.ContainsFunc([]byte(name), func(c rune) bool { return c > 127 }) && !known(name) {
					for _, k := range metaNames {
						if bytes.EqualFold([]byte(name), []byte(k)) {
							r.Fail("ambiguous")
						}
					}
				}
				visit()
			})
		case '[':
			r.Array(func(int) { visit() })
		default:
			r.Skip()
		}
	}
	visit()
	return r.End() == nil && bytes.IndexFunc(data, func(c rune) bool { return c > 127 || c == '\\' }) < 0
}

var metaNames = []string{
	"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"labels", "annotations", "finalizers", "ownerReferences", "apiVersion", "kind", "controller", "blockOwnerDeletion",
}

func known(name string) bool { return slices.Contains(metaNames, name) }
