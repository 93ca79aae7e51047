package rawjson

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestReaderReadsEachType(t *testing.T) {
	r := NewReader([]byte(` {"s":"a\u00e9\ud83d\ude00\n","n":-12,"b":true,"o":{"x":[1,2]},"z":null,"rest":{"k":"v"}} `))
	var s string
	var n int64
	var b, null bool
	var xs []int64
	var raw []byte
	r.Object(func(name string) {
		switch name {
		case "s":
			s = r.String()
		case "n":
			n = r.Int()
		case "b":
			b = r.Bool()
		case "o":
			r.Object(func(string) { r.Array(func(int) { xs = append(xs, r.Int()) }) })
		case "z":
			null = r.Null()
		case "rest":
			raw = r.Raw()
		}
	})
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if s != "aé😀\n" || n != -12 || !b || !null || !reflect.DeepEqual(xs, []int64{1, 2}) || string(raw) != `{"k":"v"}` {
		t.Errorf("read %q %d %v %v %v %s", s, n, b, null, xs, raw)
	}
}

func TestErrorHasPathOfValue(t *testing.T) {
	r := NewReader([]byte(`{"controllers":[{"for":{"kind":"A"}},{"for":{"kynd":"B"}}]}`))
	r.Strict = true
	r.Object(func(string) {
		r.Array(func(int) {
			r.Object(func(string) {
				r.Object(func(name string) {
					if name != "kind" {
						r.Unknown(name, "apiVersion", "kind")
					}
				})
			})
		})
	})
	want := `controllers[1].for: unknown field "kynd", did you mean "kind"?`
	if err := r.End(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestStrictReaderRejectsDuplicateNames(t *testing.T) {
	r := NewReader([]byte(`{"a":1,"b":2,"a":3}`))
	r.Strict = true
	r.Object(func(string) {})
	if err := r.End(); err == nil || !strings.Contains(err.Error(), "a: field given twice") {
		t.Errorf("got %v", err)
	}
}

func TestValidRejectsInvalidTexts(t *testing.T) {
	for _, text := range []string{
		"", " ", "{", "[", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, "[1,]", "[1 2]", "{,}", `{a:1}`,
		"01", "-", "1.", "1e", "+1", "tru", "nul", `"`, `"\x"`, `"\u12"`, "\"\n\"", "1 2", "{}}", "]", `{"a":1 "b":2}`,
	} {
		if err := Valid([]byte(text), 0); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestDepthIsLimited(t *testing.T) {
	ok := strings.Repeat("[", 10) + strings.Repeat("]", 10)
	if err := Valid([]byte(ok), 10); err != nil {
		t.Error(err)
	}
	if err := Valid([]byte("["+ok+"]"), 10); err == nil || !strings.Contains(err.Error(), "nested more than 10 levels") {
		t.Errorf("got %v", err)
	}
}

func TestMergePatchFollowsRFC7386(t *testing.T) {
	// The table of RFC 7386, appendix A, without the rows in which an array or
	// the patch as a whole is null.
	for _, c := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{``, `{"a":1}`, `{"a":1}`},
	} {
		got, err := MergePatch([]byte(c.target), []byte(c.patch))
		if err != nil || string(got) != c.want {
			t.Errorf("MergePatch(%s, %s) = %s, %v; want %s", c.target, c.patch, got, err, c.want)
		}
	}
}

func TestOnlyObjectsAreComposed(t *testing.T) {
	for _, other := range []string{`null`, `[1]`, `"x"`, `1`, ``} {
		for _, c := range [][2]string{{`{"spec":{}}`, other}, {other, `{"spec":{}}`}} {
			if composed, err := ComposePatches([]byte(c[0]), []byte(c[1])); err == nil {
				t.Errorf("ComposePatches(%s, %s) = %s", c[0], c[1], composed)
			}
		}
	}
}

func TestComposedPatchHasEffectOfBoth(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`},
		{`{"a":1}`, `{"a":null}`, `{"a":null}`},
		{`{"a":null}`, `{"a":1}`, `{"a":1}`},
		{`{"a":{"b":1,"c":null}}`, `{"a":{"b":null,"d":2}}`, `{"a":{"b":null,"c":null,"d":2}}`},
		{`{"a":{"b":1}}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{}`, `{"a":{"b":null}}`, `{"a":{"b":null}}`},
	} {
		composed, err := ComposePatches([]byte(c.first), []byte(c.second))
		if err != nil || string(composed) != c.want {
			t.Errorf("ComposePatches(%s, %s) = %s, %v; want %s", c.first, c.second, composed, err, c.want)
		}
		for _, target := range []string{`{}`, `{"a":{"b":0,"c":0,"x":0},"b":0}`, `{"a":"text"}`} {
			inTurn, err := MergePatch([]byte(target), []byte(c.first))
			if err == nil {
				inTurn, err = MergePatch(inTurn, []byte(c.second))
			}
			once, err2 := MergePatch([]byte(target), composed)
			if err != nil || err2 != nil || !Equal(inTurn, once) {
				t.Errorf("%s patched with %s and %s is %s, %v; with the composed patch %s, %v", target, c.first, c.second, inTurn, err, once, err2)
			}
		}
	}
}

func TestDiffOfEqualObjectsIsNil(t *testing.T) {
	for _, c := range [][2]string{
		{`{}`, `{}`},
		{`{"a":1,"b":{"c":[1,{"x":2,"y":3}]}}`, `{"b":{"c":[1,{"y":3,"x":2}]},"a":1}`},
		{`{"a":null}`, `{}`},
		{`{}`, `{"a":null}`},
		{`{"s":"\u0061"}`, `{"s":"a"}`},
	} {
		if got, err := Diff([]byte(c[0]), []byte(c[1])); err != nil || got != nil {
			t.Errorf("Diff(%s, %s) = %s, %v", c[0], c[1], got, err)
		}
	}
}

func TestDiffOfLargeReorderedObjects(t *testing.T) {
	var before, after []string
	for i := range 20_000 {
		n := strconv.Itoa(i)
		before = append(before, `"k`+n+`":1`)
		after = append(after, `"k`+strconv.Itoa(19_999-i)+`":`+strconv.Itoa(1+i%2))
	}
	from, to := []byte("{"+strings.Join(before, ",")+"}"), []byte("{"+strings.Join(after, ",")+"}")
	patch, err := Diff(from, to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := MergePatch(from, patch)
	if err != nil || !Equal(got, to) {
		t.Errorf("the patched object differs, error %v", err)
	}
}

func TestLookupFindsNestedMember(t *testing.T) {
	text := []byte(`{"metadata":{"name":"x","labels":{"a":"b"}}}`)
	if v, ok := Lookup(text, "metadata", "labels", "a"); !ok || string(v) != `"b"` {
		t.Errorf("got %s %v", v, ok)
	}
	if _, ok := Lookup(text, "metadata", "name", "deeper"); ok {
		t.Error("found a member of a string")
	}
}

func TestWriterAppendsToBuffer(t *testing.T) {
	w := NewWriter([]byte("x"))
	w.Array(func() {
		w.Int(1)
		w.Object(func() { w.Name("a").Bool(true); w.Name("b").String("\"\x01\xff") })
	})
	if got := string(w.Bytes()); got != `x[1,{"a":true,"b":"\"\u0001`+"\uFFFD"+`"}]` {
		t.Error(got)
	}
}
