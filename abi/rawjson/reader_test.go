package rawjson

import (
	"errors"
	"strings"
	"testing"
)

// read reads {"s":string,"n":integer,"b":bool,"list":[{"s":string}],"o":any}.
func read(r *Reader) error {
	r.Object(func(name string) {
		switch name {
		case "s":
			_ = r.String()
		case "n":
			r.Int()
		case "b":
			r.Bool()
		case "list":
			r.Array(func(int) {
				r.Object(func(name string) {
					if name == "s" {
						_ = r.String()
						return
					}
					r.Unknown(name, "s")
				})
			})
		case "o":
			r.Raw()
		default:
			r.Unknown(name, "s", "n", "b", "list", "o")
		}
	})
	return r.End()
}

func TestErrorHasPathCauseAndOffset(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, c := range []struct{ text, want string }{
		{``, `the text ends where an object is expected (offset 0)`},
		{`null`, `expected an object, found null (offset 0)`},
		{`[]`, `expected an object, found an array (offset 0)`},
		{`{"s":1}`, `s: expected a string, found a number (offset 5)`},
		{`{"s":true}`, `s: expected a string, found true (offset 5)`},
		{`{"s":?}`, `s: expected a string, found '?' (offset 5)`},
		{"{\"s\":\x80}", `s: expected a string, found byte 0x80 (offset 5)`},
		{`{"n":"1"}`, `n: expected an integer, found a string (offset 5)`},
		{`{"n":1.5}`, `n: expected an integer of 64 bits, found 1.5 (offset 5)`},
		{`{"n":1e3}`, `n: expected an integer of 64 bits, found 1e3 (offset 5)`},
		{`{"n":9223372036854775808}`, `n: expected an integer of 64 bits, found 9223372036854775808 (offset 5)`},
		{`{"n":-9223372036854775809}`, `n: expected an integer of 64 bits, found -9223372036854775809 (offset 5)`},
		{`{"n":1` + strings.Repeat("0", 100) + `}`, `n: expected an integer of 64 bits, found 1` + strings.Repeat("0", 60) + `... (offset 5)`},
		{`{"b":0}`, `b: expected true or false, found a number (offset 5)`},
		{`{"list":{}}`, `list: expected an array, found an object (offset 8)`},
		{`{"list":[{},{"t":1}]}`, `list[1]: unknown field "t", did you mean "s"? (offset 17)`},
		{`{"list":[null]}`, `list[0]: expected an object, found null (offset 9)`},
		{`{"list":[{} {}]}`, `list: expected ',' or ']', found an object (offset 12)`},
		{`{"list":[{},]}`, `list: expected a value after ',', found ']' (offset 12)`},
		{`{"zzzzz":1}`, `unknown field "zzzzz" (offset 9)`},
		{`{"Lists":1}`, `unknown field "Lists", did you mean "list"? (offset 9)`},
		{`{"a\nb":1}`, `unknown field "a\nb" (offset 8)`},
		{`{"` + long + `":1}`, `unknown field "` + long[:61] + `..." (offset 104)`},
		{`{"s":"","s":""}`, `s: field given twice (offset 12)`},
		{`{"o":{"y":[1,{"a":1,"\u0061":2}]}}`, `o.y[1].a: field given twice (offset 29)`},
		{`{"o":{"a.b/c":{"d":1,"d":2}}}`, `o["a.b/c"].d: field given twice (offset 25)`},
		{`{"o":{"":{"":1,"":2}}}`, `o[""][""]: field given twice (offset 18)`},
		{`{"n":1,s:2}`, `expected a member name in quotes, found 's' (offset 7)`},
		{`{"s" 1}`, `expected ':' after the member name, found a number (offset 5)`},
		{`{"o":{"s" 1}}`, `o: expected ':' after the member name, found a number (offset 10)`},
		{`{"s":"a` + "\n" + `"}`, `s: control character byte 0x0a in a string (offset 7)`},
		{`{"s":"\x"}`, `s: invalid escape in a string (offset 6)`},
		{`{"s":"`, `s: the text ends inside a string (offset 6)`},
		{`{"s":nul}`, `s: expected null, found 'n' (offset 5)`},
		{`{"s":null"x"}`, `expected ',' or '}', found a string (offset 9)`},
		{`{} x`, `unexpected 'x' after the value (offset 3)`},
		{`{"o":[[[[[]]]]]}`, `o[0][0][0]: nested more than 4 levels deep (offset 8)`},
	} {
		err := read(&Reader{data: []byte(c.text), Strict: true, MaxDepth: 4})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%s: the error is a %T", c.text, err)
		}
	}
}

func TestNullMemberReadsAsAbsent(t *testing.T) {
	r := &Reader{data: []byte(`{"s":null,"n":null,"b": null ,"list":null,"o":null}`), Strict: true}
	if err := read(r); err != nil {
		t.Error(err)
	}
}

func TestLenientReaderSkipsUnknownMembers(t *testing.T) {
	for _, text := range []string{`{"x":[{"a":1,"a":2}],"s":"a","s":"b"}`, `{"list":[{"x":{}}]}`} {
		if err := read(NewReader([]byte(text))); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDefaultDepthIsThatOfAPIServer(t *testing.T) {
	nest := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if err := Valid(nest(DefaultMaxDepth), 0); err != nil {
		t.Error(err)
	}
	if err := Valid(nest(DefaultMaxDepth+1), 0); err == nil {
		t.Error("one level more is accepted")
	}
	if _, err := MergePatch([]byte(`{"a":`+string(nest(9_999))+`}`), []byte(`{"b":1}`)); err != nil {
		t.Error(err)
	}
}

func TestLongPathIsCutInTheMiddle(t *testing.T) {
	text := strings.Repeat(`{"a":`, 1000) + `{"b":1,"b":2}` + strings.Repeat("}", 1000)
	r := Reader{data: []byte(text), Strict: true}
	r.Skip()
	want := strings.Repeat("a.", 15) + "a..." + strings.Repeat("a.", 15) + "b: field given twice"
	if err := r.End(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

func TestIntegersAreExact(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"0", 0},
		{"-0", 0},
		{"9007199254740993", 1<<53 + 1},
		{"9223372036854775807", 1<<63 - 1},
		{"-9223372036854775808", -1 << 63},
	} {
		r := NewReader([]byte(c.text))
		if n := r.Int(); n != c.want || r.End() != nil {
			t.Errorf("%s is read as %d, %v", c.text, n, r.Err())
		}
	}
}

func TestEscapesAreReadAsInEncodingJSON(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"\u00e9\u20AC"`, "é€"},
		{`"\ud83d\ude00"`, "😀"},
		{`"\ud83d"`, "\uFFFD"},
		{`"\ude00\ud83d"`, "\uFFFD\uFFFD"},
		{`"\ud83d\ud83d\ude00"`, "\uFFFD😀"},
		{`"\ud83d\n"`, "\uFFFD\n"},
		{`"\ud83dx"`, "\uFFFDx"},
	} {
		if got := NewReader([]byte(c.text)).String(); got != c.want {
			t.Errorf("%s is read as %q, want %q", c.text, got, c.want)
		}
	}
}

func TestNearestIgnoresCaseAndDistantNames(t *testing.T) {
	known := []string{"requeueAfter", "status", "apply"}
	for _, c := range []struct{ name, want string }{
		{"requeueafter", "requeueAfter"},
		{"requeue_after", "requeueAfter"},
		{"Status", "status"},
		{"aply", "apply"},
		{"conditions", ""},
		{strings.Repeat("x", 1<<20), ""},
	} {
		if got, ok := Nearest(c.name, known); got != c.want || ok != (c.want != "") {
			t.Errorf("Nearest(%.20s) is %q", c.name, got)
		}
	}
}

func TestTruncateEndsAtCharacterWithinLimit(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abc..."},
		{"abéfgh", 6, "ab..."}, // é has two bytes
		{"😀😀😀", 8, "😀..."},
		{"😀😀😀", 6, "..."},
		{"abcdef", 3, "..."},
		{"abcdef", 2, ""},
		{"\x80\x80\x80\x80\x80\x80\x80", 6, "..."},
	} {
		if got := Truncate(c.text, c.limit); got != c.want {
			t.Errorf("Truncate(%q, %d) is %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

func TestStrictRefusesHalfOfASurrogatePair(t *testing.T) {
	for text, valid := range map[string]bool{
		`"\ud83d\ude00"`: true, `"\uD83D\uDE00x"`: true, `{"\ud83d\ude00":1}`: true, `"\ud7ff\ue000"`: true, `"\\ud800"`: true,
		`"\ud83d"`: false, `"\ude00"`: false, `"\ude00\ud83d"`: false, `"\ud83d\ud83d\ude00"`: false, `"\ud83d\n"`: false,
		`"\ud83dx"`: false, `"\ud83d\uzzzz"`: false, `"\ud83d\\ude00"`: false, `"\ud83d\u"`: false, `{"\ud83d":1}`: false, `[{"a":["\udc00"]}]`: false,
	} {
		for name, read := range map[string]func(*Reader){"skip": (*Reader).Skip, "raw": func(r *Reader) { r.Raw() }} {
			r := NewReader([]byte(text))
			r.Strict = true
			if read(r); (r.End() == nil) != valid {
				t.Errorf("%s of %s: %v", name, text, r.Err())
			}
		}
	}
}
