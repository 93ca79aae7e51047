package rawjson

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// decode decodes a text with encoding/json.
func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// comparable reports whether encoding/json decodes a text as this package does:
// it must be UTF-8 and have no name twice in one object.
func comparable(text []byte) bool {
	_, err := parse(text)
	return err == nil && utf8.Valid(text)
}

// FuzzAgainstEncodingJSON compares the reader with encoding/json: both must
// accept the same texts and read the same values, and the writer must write a
// text with the values that were read.
func FuzzAgainstEncodingJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5e3,"x\u00e9\n"],"b":{"c":null}}`, `"\ud800"`, `"\ud800\udc00"`, `[[],{}]`, `1e5`,
		`{"a":1,"a":2}`, " [true,false] ", `-0`, "\"\xff\"", `{"\u0061":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Valid(data, 0)
		if ok := json.Valid(data); ok != (err == nil) {
			t.Fatalf("json.Valid returns %v, Valid returns %v", ok, err)
		}
		strict := Reader{data: data, Strict: true}
		if strict.Skip(); strict.End() == nil && err != nil {
			t.Fatal("a strict reader accepts what a lenient one rejects")
		}
		if err != nil || !utf8.Valid(data) {
			return
		}
		got := valueOf(NewReader(data))
		if want := decode(t, data); !reflect.DeepEqual(got, want) {
			t.Fatalf("read %#v, want %#v", got, want)
		}
		r := NewReader(data)
		if again := byLoops(r); r.End() != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("the loops read %#v, %v, want %#v", again, r.Err(), got)
		}
		written := NewWriter(nil)
		write(written, got)
		if !reflect.DeepEqual(decode(t, written.Bytes()), got) {
			t.Fatalf("%s is written as %s", data, written.Bytes())
		}
	})
}

// byLoops is [valueOf] with FirstMember and FirstElement instead of Object and
// Array.
func byLoops(r *Reader) any {
	switch r.Kind() {
	case '{':
		m := map[string]any{}
		for more := r.FirstMember(); more; more = r.NextMember() {
			name := r.Name()
			m[name] = byLoops(r)
		}
		return m
	case '[':
		list := []any{}
		for more := r.FirstElement(); more; more = r.NextElement() {
			list = append(list, byLoops(r))
		}
		return list
	default:
		return valueOf(r)
	}
}

func valueOf(r *Reader) any {
	switch r.Kind() {
	case '{':
		m := map[string]any{}
		r.Object(func(name string) { m[name] = valueOf(r) })
		return m
	case '[':
		list := []any{}
		r.Array(func(int) { list = append(list, valueOf(r)) })
		return list
	case '"':
		return r.String()
	case '0':
		return json.Number(r.Raw())
	case 'n':
		r.Null()
		return nil
	default:
		return r.Bool()
	}
}

func write(w *Writer, v any) {
	switch v := v.(type) {
	case map[string]any:
		w.Object(func() {
			for name, member := range v {
				w.Name(name)
				write(w, member)
			}
		})
	case []any:
		w.Array(func() {
			for _, element := range v {
				write(w, element)
			}
		})
	case string:
		w.String(v)
	case json.Number:
		w.Raw([]byte(v))
	case bool:
		w.Bool(v)
	default:
		w.Raw(nil)
	}
}

// FuzzEqual checks that a text equals itself in another notation, and compares
// numbers with math/big.
func FuzzEqual(f *testing.F) {
	f.Add([]byte(`{"b":[1.50,"\u0061"],"a":{}}`), []byte(`1.5`), []byte(`15e-1`))
	f.Add([]byte(`{"z":1,"y":2,"x":{"b":0,"a":1}}`), []byte(`-0`), []byte(`0.0`))
	f.Fuzz(func(t *testing.T, text, a, b []byte) {
		equalsItself(t, text)
		x, y := rational(a), rational(b)
		if x == nil || y == nil {
			return
		}
		if got, want := Equal(a, b), x.Cmp(y) == 0; got != want {
			t.Fatalf("Equal(%s, %s) is %v", a, b, got)
		}
	})
}

func equalsItself(t *testing.T, text []byte) {
	t.Helper()
	if !comparable(text) {
		return
	}
	other, err := json.Marshal(decode(t, text)) // sorts members, drops space
	if err != nil {
		t.Fatal(err)
	}
	if !Equal(text, other) || !Equal(other, text) {
		t.Fatalf("%s does not equal %s", text, other)
	}
	more, err := json.Marshal([]any{decode(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	if Equal(text, more) {
		t.Fatalf("%s equals %s", text, more)
	}
}

// rational returns the value of a number, or nil if it takes too long to compute.
func rational(text []byte) *big.Rat {
	r := NewReader(text)
	if r.Kind() != '0' || Valid(text, 0) != nil || len(text) > 100 {
		return nil
	}
	number := strings.TrimSpace(string(text))
	if _, exponent, _ := strings.Cut(strings.ToLower(number), "e"); len(exponent) > 4 {
		return nil
	}
	x, _ := new(big.Rat).SetString(number)
	return x
}

// FuzzDiff checks that the patch of Diff turns the one text into the other, and
// that there is none only if they are equal.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[1],"d":2}}`), []byte(`{"b":{"c":[2]},"e":{}}`))
	f.Add([]byte(`{"a":{}}`), []byte(`{"a":{"x":1}}`))
	f.Add([]byte(`{"a":null,"b":1}`), []byte(`{"a":1,"b":null,"c":null}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		patch, err := Diff(before, after)
		if err != nil || !comparable(before) || !comparable(after) {
			return
		}
		// A null in after counts as absent.
		want := dropNulls(decode(t, after))
		if patch == nil {
			if !sameValue(t, dropNulls(decode(t, before)), want) {
				t.Fatalf("%s to %s: no patch", before, after)
			}
			return
		}
		got := dropNulls(mergePatch(decode(t, before), decode(t, patch)))
		if !sameValue(t, got, want) {
			t.Fatalf("%s patched with %s is %v, want %v", before, patch, got, want)
		}
	})
}

// dropNulls removes the members that are null.
func dropNulls(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for name, member := range m {
		if member != nil {
			out[name] = dropNulls(member)
		}
	}
	return out
}

func sameValue(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return Equal(x, y)
}

// mergePatch is the algorithm of RFC 7386, section 2.
func mergePatch(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = mergePatch(object[name], value)
		}
	}
	return object
}

// FuzzMergePatch compares MergePatch with the algorithm of the RFC.
func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":[null]},"d":2}`), []byte(`{"a":{"b":null,"e":{"f":null}},"d":{"g":{}}}`))
	f.Add([]byte(`[1,2]`), []byte(`{"a":"b","c":null}`))
	f.Add([]byte(`{"\u0061":1}`), []byte(`{"a":null}`))
	f.Add([]byte(`1`), []byte(`null`))
	f.Fuzz(func(t *testing.T, target, patch []byte) {
		got, err := MergePatch(target, patch)
		if !comparable(target) || !comparable(patch) {
			if err == nil && Valid(got, 0) != nil {
				t.Fatalf("MergePatch(%s, %s) is not valid JSON: %s", target, patch, got)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want := mergePatch(decode(t, target), decode(t, patch))
		if !reflect.DeepEqual(decode(t, got), want) {
			t.Fatalf("MergePatch(%s, %s) is %s", target, patch, got)
		}
	})
}
