package sdk

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/rawjson"
)

func TestRebaseMergesElements(t *testing.T) {
	for _, c := range []struct{ name, value, before, after, want string }{
		{"changed in place", `[{"a":1,"x":1},{"a":2,"x":2}]`, `[{"a":1},{"a":2}]`, `[{"a":1},{"a":3}]`, `[{"a":1,"x":1},{"a":3,"x":2}]`},
		{"both changed", `[{"a":1,"x":1},{"a":2,"x":2}]`, `[{"a":1},{"a":2}]`, `[{"a":3},{"a":4}]`, `[{"a":3,"x":1},{"a":4,"x":2}]`},
		{"changed and added", `[{"a":1,"x":1}]`, `[{"a":1}]`, `[{"a":2},{"a":3}]`, `[{"a":2},{"a":3}]`},
		{"added behind", `[{"a":1,"x":1}]`, `[{"a":1}]`, `[{"a":1},{"a":1}]`, `[{"a":1,"x":1},{"a":1}]`},
		{"equal ones are taken once", `[{"a":1,"x":1},{"a":1,"x":2}]`, `[{"a":1},{"a":1}]`, `[{"a":2},{"a":1},{"a":1},{"a":1}]`, `[{"a":2},{"a":1},{"a":1,"x":1},{"a":1,"x":2}]`},
		{"moved and changed around", `[{"a":1,"x":1},{"a":2,"x":2},{"a":3,"x":3}]`, `[{"a":1},{"a":2},{"a":3}]`, `[{"a":3},{"a":9},{"a":1}]`, `[{"a":3,"x":3},{"a":9,"x":2},{"a":1,"x":1}]`},
		{"removed all", `[{"a":1,"x":1}]`, `[{"a":1}]`, `[]`, `[]`},
		{"of an array that the types do not have as such", `{"x":1}`, `[]`, `[1]`, `[1]`},
		{"of another length", `[1,2]`, `[1]`, `[3]`, `[3]`},
		{"named, with a name that is used twice", `[{"name":"n","x":1},{"name":"n","x":2}]`, `[{"name":"n"},{"name":"n"}]`, `[{"name":"n","a":1},{"name":"n","a":2},{"name":"n","a":3}]`, `[{"name":"n","x":1,"a":1},{"name":"n","x":2,"a":2},{"name":"n","a":3}]`},
		{"that gets a name", `[{"x":1}]`, `[{}]`, `[{"name":"n"}]`, `[{"name":"n"}]`},
		{"nested", `[[{"x":1}],[{"x":2}]]`, `[[{}],[{}]]`, `[[{}],[{"a":1}]]`, `[[{"x":1}],[{"x":2,"a":1}]]`},
		{"nulls", `[null,{"x":1}]`, `[null,{}]`, `[{"a":1},{}]`, `[{"a":1},{"x":1}]`},
		{"texts", `["\u0061","b"]`, `["a","b"]`, `["a","c"]`, `["\u0061","c"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rebase([]byte(c.value), []byte(c.before), []byte(c.after)); string(got) != c.want {
				t.Errorf("got %s, expected %s", got, c.want)
			}
		})
	}
}

func TestRebaseOfMembers(t *testing.T) {
	for _, c := range []struct{ name, value, before, after, want string }{
		{"left out because it is zero", `{"g":{"x":1}}`, `{}`, `{"g":{"a":1}}`, `{"g":{"x":1,"a":1}}`},
		{"emptied", `{"g":{"x":1,"a":1}}`, `{"g":{"a":1}}`, `{"g":{}}`, `{"g":{"x":1}}`},
		{"removed with what it had", `{"g":{"x":1,"a":1}}`, `{"g":{"a":1}}`, `{}`, `{}`},
		{"null", `{"g":{"x":1}}`, `{"g":{}}`, `{"g":null}`, `{}`},
		{"of another kind", `{"g":{"x":1}}`, `{"g":{}}`, `{"g":[1]}`, `{"g":[1]}`},
		{"given twice", `{"g":1,"g":2}`, `{"g":2}`, `{"g":3}`, `{"g":3}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rebase([]byte(c.value), []byte(c.before), []byte(c.after)); string(got) != c.want {
				t.Errorf("got %s, expected %s", got, c.want)
			}
		})
	}
}

// FuzzRebase: what the types have afterwards is what the author has made of it, if the types have
// everything.
func FuzzRebase(f *testing.F) {
	f.Add([]byte(`{"a":[{"name":"n","b":1},{"b":2}],"c":null}`), []byte(`{"a":[{"b":2},{"name":"n"}],"d":{}}`))
	f.Add([]byte(`[1,[2],{"a":3}]`), []byte(`[[2],1,{"a":{}}]`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		if rawjson.Valid(before, 20) != nil || rawjson.Valid(after, 20) != nil || hasTwins(before) || hasTwins(after) ||
			!utf8.Valid(before) || !utf8.Valid(after) { // no API server and no encoder writes it
			return
		}
		got := rebase(before, before, after)
		if err := rawjson.Valid(got, 0); err != nil {
			t.Fatalf("%s", got)
		}
		if bytes.Contains(after, []byte("null")) || bytes.Contains(before, []byte("null")) {
			return // a null stands for no member
		}
		if !rawjson.Equal(got, after) {
			t.Errorf("rebase from %s to %s is %s", before, after, got)
		}
		if same := rebase(before, after, after); !bytes.Equal(same, before) {
			t.Errorf("no difference makes %s of %s", same, before)
		}
	})
}

// hasTwins reports whether an object has a name twice, which no API server stores.
func hasTwins(value []byte) bool {
	r := rawjson.NewReader(value)
	r.Strict = true
	r.Skip()
	return r.End() != nil
}

// TestRebaseOfHostileObjectIsLinear: an object has up to 3 MiB.
func TestRebaseOfHostileObjectIsLinear(t *testing.T) {
	numbered := func(from, n int) []byte {
		var b strings.Builder
		b.WriteString(`{"list":[0`)
		for i := range n {
			b.WriteString(`,{"name":"` + strconv.Itoa(from+i) + `"}`)
		}
		b.WriteString(`]`)
		for i := range n {
			b.WriteString(`,"m` + strconv.Itoa(from+i) + `":` + strconv.Itoa(i))
		}
		b.WriteString(`}`)
		return []byte(b.String())
	}
	took := func(n, times int) time.Duration {
		before, after := numbered(0, n), numbered(1, n)
		start := time.Now()
		for range times {
			rebase(before, before, after)
		}
		return time.Since(start)
	}
	var parts, whole time.Duration
	for range 5 { // another process may take the processor during one of them
		if parts, whole = took(4_000, 16), took(64_000, 1); whole < 8*parts {
			return
		}
	}
	t.Errorf("at once it takes %s, in 16 parts %s", whole, parts)
}

func TestRebaseEndsAtDepth(t *testing.T) {
	nest := func(depth int, inner string) []byte {
		return []byte(strings.Repeat(`{"a":[`, depth/2) + inner + strings.Repeat(`]}`, depth/2))
	}
	for depth, want := range map[int]string{deepestRebase - 2: `{"x":1,"b":2}`, deepestRebase: `{"b":2}`} {
		got := rebase(nest(depth, `{"x":1,"b":1}`), nest(depth, `{"b":1}`), nest(depth, `{"b":2}`))
		if !bytes.Equal(got, nest(depth, want)) {
			t.Errorf("at a depth of %d it is %s", depth, got)
		}
	}
	deep := []byte(strings.Repeat(`{"a":`, 5_000) + "1" + strings.Repeat("}", 5_000))
	other := bytes.Replace(deep, []byte("1"), []byte("2"), 1)
	if got := rebase(deep, deep, other); !bytes.Equal(got, other) {
		t.Errorf("got %.100s", got)
	}
}
