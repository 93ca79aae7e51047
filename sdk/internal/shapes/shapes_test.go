package shapes

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// expectDecoded fails unless generated code and encoding/json decode a text to the same
// value, into an empty value and into one that is filled already, or both fail.
func expectDecoded(t *testing.T, s Subject, text []byte) {
	t.Helper()
	got, want := s.New(), s.New()
	for range 2 {
		err, jsonErr := Decode(text, got), json.Unmarshal(text, want)
		if (err == nil) != (jsonErr == nil) {
			t.Fatalf("%s: %s\n%v, encoding/json: %v", s.Name, text, err, jsonErr)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %s\ndecodes to %+v,\nencoding/json: %+v", s.Name, text, got, want)
		}
	}
	expectAppended(t, s, got)
}

// expectAppended fails unless generated code and encoding/json encode a value to the same
// text, apart from escapes, or both fail.
func expectAppended(t *testing.T, s Subject, v Value) {
	t.Helper()
	want, jsonErr := json.Marshal(v)
	got, err := v.AppendJSON([]byte("before"))
	if (err == nil) != (jsonErr == nil) {
		t.Fatalf("%s: %+v\n%v, encoding/json: %v", s.Name, v, err, jsonErr)
	}
	if err != nil {
		return
	}
	got, ok := bytes.CutPrefix(got, []byte("before"))
	if !ok || !bytes.Equal(unescaped(t, got), unescaped(t, want)) {
		t.Fatalf("%s: %+v\nis written as %s\nencoding/json:  %s", s.Name, v, got, want)
	}
}

// unescaped returns a text with the same escapes in all strings.
func unescaped(t *testing.T, text []byte) []byte {
	t.Helper()
	var out []byte
	r := rawjson.NewReader(text)
	var walk func()
	walk = func() {
		switch r.Kind() {
		case '{':
			out = append(out, '{')
			for more := r.FirstMember(); more; more = r.NextMember() {
				out = append(rawjson.AppendString(out, r.Name()), ':')
				walk()
			}
			out = append(out, '}')
		case '[':
			out = append(out, '[')
			for more := r.FirstElement(); more; more = r.NextElement() {
				walk()
				out = append(out, ',')
			}
			out = append(out, ']')
		case '"':
			out = rawjson.AppendString(out, r.String())
		default:
			out = append(out, r.Raw()...)
		}
	}
	walk()
	if err := r.End(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// FuzzDecode compares decoding with encoding/json, apart from the documented differences.
func FuzzDecode(f *testing.F) {
	for _, text := range Texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { expectDecodedBy(t, text, Subjects...) })
}

func TestTextsDecodeAsInEncodingJSON(t *testing.T) {
	for _, text := range Texts {
		expectDecodedBy(t, []byte(text), Subjects...)
	}
}

func expectDecodedBy(t *testing.T, text []byte, subjects ...Subject) {
	t.Helper()
	names, depth := namesIn(text)
	if !utf8.Valid(text) || depth > codec.MaxDepth {
		return // documented differences
	}
	for _, s := range subjects {
		if !slices.ContainsFunc(names, s.differsInCase) {
			expectDecoded(t, s, text)
		}
	}
}

// namesIn returns the names of all members of a text, and its depth.
func namesIn(text []byte) (names []string, depth int) {
	r := rawjson.NewReader(text)
	var walk func()
	walk = func() {
		depth = max(depth, r.Depth()+1)
		switch r.Kind() {
		case '{':
			for more := r.FirstMember(); more; more = r.NextMember() {
				names = append(names, r.Name())
				walk()
			}
		case '[':
			for more := r.FirstElement(); more; more = r.NextElement() {
				walk()
			}
		default:
			r.Skip()
		}
	}
	walk()
	return names, depth
}

// differsInCase reports whether encoding/json, in contrast to generated code, may take
// the name for another one of the subject.
func (s Subject) differsInCase(name string) bool {
	spellings := memberNames()[s.Name][folded(name)]
	return len(spellings) > 1 || len(spellings) == 1 && !spellings[name]
}

// folded returns the same text for names that differ in case only.
func folded(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// names has the names of a subject and its parts by their folded form.
type names map[string]map[string]bool

func (n names) add(name string) {
	if n[folded(name)] == nil {
		n[folded(name)] = map[string]bool{}
	}
	n[folded(name)][name] = true
}

var memberNames = sync.OnceValue(func() map[string]names {
	all := map[string]names{}
	for _, s := range Subjects {
		all[s.Name] = names{}
		collect(reflect.TypeOf(s.New()), all[s.Name], map[reflect.Type]bool{})
	}
	return all
})

func collect(t reflect.Type, into names, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		collect(t.Elem(), into, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name == "" || name == `a"b` {
				name = t.Field(i).Name
			}
			into.add(name)
			collect(t.Field(i).Type, into, seen)
		}
	}
}

func TestZeroValuesEncodeAsInEncodingJSON(t *testing.T) {
	for _, s := range Subjects {
		expectAppended(t, s, s.New())
	}
}

// FuzzAppend compares encoding with encoding/json for a value derived from data, and then
// decoding of the text.
func FuzzAppend(f *testing.F) {
	for i := range 5 * len(Subjects) {
		f.Add(append([]byte{byte(i)}, bytes.Repeat([]byte{byte(i * 37), byte(255 - i*11), 1, byte(i), 3, byte(i * 101)}, 40)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		from := &filler{data: data}
		s := Subjects[from.pick(len(Subjects))]
		v := s.New()
		from.fill(reflect.ValueOf(v).Elem(), 0)
		expectAppended(t, s, v)
		if text, err := json.Marshal(v); err == nil {
			expectDecodedBy(t, text, s)
		}
	})
}
