package rawjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// loops is [read] with FirstMember and FirstElement instead of Object and Array.
func loops(r *Reader) error {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "s":
			_ = r.String()
		case "n":
			r.Int()
		case "b":
			r.Bool()
		case "list":
			for more := r.FirstElement(); more; more = r.NextElement() {
				loopElement(r)
			}
		case "o":
			r.Raw()
		default:
			r.Unknown(r.Name(), "s", "n", "b", "list", "o")
		}
	}
	return r.End()
}

func loopElement(r *Reader) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		if r.Name() == "s" {
			_ = r.String()
			continue
		}
		r.Unknown(r.Name(), "s")
	}
}

// TestValueThatIsOnlyLookedAtIsSkipped, whatever white space there is before it.
func TestValueThatIsOnlyLookedAtIsSkipped(t *testing.T) {
	for _, text := range []string{`{"a":[1],"b":2}`, `{"a": [1],"b":  2}`, `{ "a" : [1] , "b" : 2 }`, "{\n\t\"a\":\n[1],\"b\":\t2\n}"} {
		r, kinds := NewReader([]byte(text)), ""
		for more := r.FirstMember(); more; more = r.NextMember() {
			kinds += r.Name() + string(r.Kind())
		}
		if kinds != "a[b0" || r.End() != nil {
			t.Errorf("%s: read %q, %v", text, kinds, r.Err())
		}
	}
}

// TestLoopsReadLikeClosures covers everything but nulls, which differ.
func TestLoopsReadLikeClosures(t *testing.T) {
	for _, text := range []string{
		`{}`, `{ }`, ` { "s" : "a" , "n" : 1 } `, `{"s":"a","n":1,"b":true,"list":[{},{"s":"x"}],"o":{"y":[1]}}`, `{"list":[]}`, `{"list":[ ]}`,
		"{\n\t\"s\"\n:\"a\"}", `{"s":"a"`, `{"s":"a",`, `{"s":"a",}`, `{"s":"a" "n":1}`, `{,}`, `{"s"}`, `{"s":}`, `{s:1}`, `{"list":[{},]}`,
		`{"list":[{} {}]}`, `{"list":[`, `{"list":[{}`, `{"s":1}`, `{"n":"x"}`, `{"b":0}`, `{"list":{}}`, `{"list":[1]}`, `{"zzz":1}`,
		`{"list":[{"t":1}]}`, `{"s":"","s":""}`, `{"o":{"a":1,"a":2}}`, `[]`, `"x"`, ``, `{"\u0073":"a"}`, `{"\x":1}`, "{\"\x01\":1}", `{"s`,
		`{"s":"a"}x`, `{"o":[[[[]]]]}`, `{"list":[{"s":"a"},{"s":"b","s":"c"}]}`,
	} {
		for _, strict := range []bool{false, true} {
			want := read(&Reader{data: []byte(text), Strict: strict, MaxDepth: 4})
			got := loops(&Reader{data: []byte(text), Strict: strict, MaxDepth: 4})
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s (strict %v)\n got %v\nwant %v", text, strict, got, want)
			}
		}
	}
}

func TestLoopsTakeNullForEmpty(t *testing.T) {
	for _, text := range []string{`null`, `{"list":null}`, `{"list":[null,{}]}`, `{"s":null,"n":null,"b":null,"o":null}`} {
		if err := loops(NewReader([]byte(text))); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := loops(NewReader([]byte(`nul`))); err == nil {
		t.Error("nul is accepted")
	}
}

func TestLoopsSkipUnreadValues(t *testing.T) {
	r := NewReader([]byte(`{"a":{"b":[1,{"c":2}]},"d":["x"],"e":3}`))
	var names []string
	for more := r.FirstMember(); more; more = r.NextMember() {
		names = append(names, r.Name())
	}
	if err := r.End(); err != nil || !reflect.DeepEqual(names, []string{"a", "d", "e"}) || r.Depth() != 0 {
		t.Errorf("read %q, %v, depth %d", names, err, r.Depth())
	}
}

func TestErrorInNestedDoesNotFailOuterReader(t *testing.T) {
	r := NewReader([]byte(`{"a":{"b":"x"},"c":1}`))
	var inner error
	var raw string
	var c int64
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "a":
			start := r.Pos()
			inner = r.Nested(func(n *Reader) {
				for more := n.FirstMember(); more; more = n.NextMember() {
					n.Int()
				}
			})
			r.Skip()
			raw = string(r.Since(start))
		case "c":
			c = r.Int()
		}
	}
	if inner == nil || inner.Error() != "b: expected an integer, found a string (offset 10)" {
		t.Errorf("the nested reader returns %v", inner)
	}
	if err := r.End(); err != nil || raw != `{"b":"x"}` || c != 1 {
		t.Errorf("the outer reader returns %v, raw %s, c %d", err, raw, c)
	}
}

func TestDepthLimitIncludesNestedReader(t *testing.T) {
	r := &Reader{data: []byte(`[[[]]]`), MaxDepth: 2}
	var err error
	for more := r.FirstElement(); more; more = r.NextElement() {
		err = r.Nested(func(n *Reader) { n.Skip() })
	}
	if err == nil || !strings.Contains(err.Error(), "nested more than") {
		t.Errorf("the error is %v", err)
	}
}

func TestFailAtAppendsPath(t *testing.T) {
	for path, want := range map[string]string{"": "a", "b.c": "a.b.c", "[1]": "a[1]"} {
		r := NewReader([]byte(`{"a":1}`))
		r.Object(func(string) { r.FailAt(path, "is bad") })
		r.FailAt("later", "is not the first")
		if e, ok := errors.AsType[*Error](r.Err()); !ok || e.Path != want || e.Message != "is bad" {
			t.Errorf("%q: %v", path, r.Err())
		}
	}
}

func TestNumbersHaveRangesOfEncodingJSON(t *testing.T) {
	texts := []string{
		"-0", "1.0", "1e1", "99999999999999999999", "123456789", "1234567890", "01", "00", "-", "-1", "0.1", "3.5e38", "1e309", "-1e-400", "0", `"1"`, "true", "{}",
	}
	for bits := range 65 {
		for delta := range 3 {
			n := strconv.FormatUint(uint64(1)<<bits+uint64(delta)-1, 10)
			texts = append(texts, n, "-"+n)
		}
	}
	for _, text := range texts {
		expectNumber(t, text, func(r *Reader) int8 { return int8(r.IntOf(8)) })
		expectNumber(t, text, func(r *Reader) int16 { return int16(r.IntOf(16)) })
		expectNumber(t, text, func(r *Reader) int32 { return int32(r.IntOf(32)) })
		expectNumber(t, text, func(r *Reader) int64 { return r.IntOf(64) })
		expectNumber(t, text, func(r *Reader) uint8 { return uint8(r.Uint(8)) })
		expectNumber(t, text, func(r *Reader) uint64 { return r.Uint(64) })
		expectNumber(t, text, func(r *Reader) float32 { return float32(r.Float(32)) })
		expectNumber(t, text, func(r *Reader) float64 { return r.Float(64) })
	}
}

// expectNumber reads a number alone, in an array, in an object and before white
// space, and compares the result with that of encoding/json.
func expectNumber[T int8 | int16 | int32 | int64 | uint8 | uint64 | float32 | float64](t *testing.T, text string, read func(*Reader) T) {
	t.Helper()
	var want T
	jsonErr := json.Unmarshal([]byte(text), &want)
	for _, format := range []string{"%", "[%]", `{"a": %}`, "[% ]", "[0,%]"} {
		r := NewReader([]byte(strings.Replace(format, "%", text, 1)))
		var got T
		switch format[0] {
		case '[':
			r.Array(func(int) { got = read(r) })
		case '{':
			r.Object(func(string) { got = read(r) })
		default:
			got = read(r)
		}
		if err := r.End(); (err == nil) != (jsonErr == nil) || err == nil && got != want {
			t.Errorf("%s as %T is %v, %v; encoding/json: %v, %v", r.data, want, got, err, want, jsonErr)
		}
	}
}

// TestPlainEndFindsEverySpecialByte puts each byte at each offset of a word, with
// different bytes around it.
func TestPlainEndFindsEverySpecialByte(t *testing.T) {
	for place := range 16 {
		for c := range 256 {
			for _, around := range []string{"a", "\x7f", "\xc3\xa9", "\xff", "!", "[", "]", "#", " "} {
				text := []byte(strings.Repeat(around, 20)[:20])
				text[place] = byte(c)
				want := 20
				if c < 0x20 || c == '"' || c == '\\' {
					want = place
				}
				if got := plainEnd(text, 0); got != want {
					t.Fatalf("%q: found %d, expected %d", text, got, want)
				}
			}
		}
	}
}
