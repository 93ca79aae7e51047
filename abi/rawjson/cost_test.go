package rawjson

import (
	"strconv"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/internal/costtest"
)

// hostile returns texts of about n bytes that a careless reader would take
// quadratic time or memory for, by name.
var hostile = map[string]func(n int) []byte{
	"many members": func(n int) []byte {
		return costtest.Number(n, "{", func(i int) string { return `"k` + strconv.Itoa(i) + `":0` }, "}")
	},
	"names that share a long start": func(n int) []byte {
		start := strings.Repeat("x", 1000)
		return costtest.Number(n, "{", func(i int) string { return `"` + start + strconv.Itoa(i) + `":0` }, "}")
	},
	"one name repeated":          func(n int) []byte { return costtest.Repeat(n, "{", `"a":0`, "}") },
	"many elements":              func(n int) []byte { return costtest.Repeat(n, `{"a":[`, "1", "]}") },
	"many empty objects":         func(n int) []byte { return costtest.Repeat(n, `{"a":[`, "{}", "]}") },
	"an object in each level":    func(n int) []byte { return nested(n, `{"b":1,"a":`, `,"c":2}`) },
	"deep arrays":                func(n int) []byte { return nested(n, "[", "]") },
	"a giant name":               func(n int) []byte { return []byte(`{"` + strings.Repeat("n", n) + `":1}`) },
	"a giant string":             func(n int) []byte { return []byte(`{"a":"` + strings.Repeat(`\u00e9`, n/6) + `"}`) },
	"a giant number":             func(n int) []byte { return []byte(`{"a":1` + strings.Repeat("0", n) + `}`) },
	"much white space":           func(n int) []byte { return []byte(`{"a":` + strings.Repeat(" ", n) + `1}`) },
	"never closed":               func(n int) []byte { return []byte(strings.Repeat("[", n)) },
	"a string of escaped quotes": func(n int) []byte { return []byte(`{"a":"` + strings.Repeat(`\"`, n/2)) },
}

// nested returns a text of about n bytes whose depth grows with n, up to 9,900
// levels.
func nested(n int, open, closing string) []byte {
	depth := min(n/14, 9_900)
	space := strings.Repeat(" ", max(0, n-depth*len(open+closing)))
	return []byte(strings.Repeat(open, depth) + space + "0" + strings.Repeat(closing, depth))
}

// swapped is [nested] with the members of each object in another order.
func swapped(n int) []byte { return nested(n, `{"c":2,"b":1,"a":`, `}`) }

func TestFunctionsAreLinearOnHostileTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	functions := map[string]func([]byte){
		"Valid":           func(text []byte) { _ = Valid(text, 0) },
		"Members":         func(text []byte) { _, _ = Members(text) },
		"Elements":        func(text []byte) { _, _ = Elements(text) },
		"Lookup":          func(text []byte) { Lookup(text, "a", "a", "a") },
		"Equal":           func(text []byte) { Equal(text, append([]byte(" "), text...)) },
		"Equal swapped":   func(text []byte) { Equal(text, swapped(len(text))) },
		"MergePatch of":   func(text []byte) { _, _ = MergePatch(text, []byte(`{"a":{"a":{"a":{"a":1}}}}`)) },
		"MergePatch with": func(text []byte) { _, _ = MergePatch(text, text) },
		"MergePatch into": func(text []byte) { _, _ = MergePatch(nil, text) },
		"Diff":            func(text []byte) { _, _ = Diff(text, swapped(len(text))) },
		"Diff of equals":  func(text []byte) { _, _ = Diff(text, append([]byte(" "), text...)) },
		"strict skip": func(text []byte) {
			r := Reader{data: text, Strict: true}
			r.Skip()
			_ = r.End()
		},
	}
	for shape, text := range hostile {
		for name, f := range functions {
			t.Run(shape+"/"+name, func(t *testing.T) { costtest.Linear(t, 400, text, f) })
		}
	}
}

func TestErrorAboutHostileTextIsShort(t *testing.T) {
	const limit = 4 << 10
	for shape, text := range hostile {
		for _, strict := range []bool{false, true} {
			r := Reader{data: text(1 << 20), Strict: strict, MaxDepth: 9_000}
			r.Object(func(name string) {
				r.Unknown(name, "b")
				r.Int()
			})
			if err := r.End(); err != nil && len(err.Error()) > limit {
				t.Errorf("%s: an error of %d bytes", shape, len(err.Error()))
			}
		}
	}
	deep := strings.Repeat(`{"`+strings.Repeat("n", 100)+`":`, 9_000)
	if _, err := Diff([]byte("{}"), []byte(deep)); err == nil || len(err.Error()) > limit {
		t.Errorf("got an error of %d bytes", len(err.Error()))
	}
}
