package handlers_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/handlers"
)

func text(items []handlers.DiffItem) (lines []string) {
	for _, i := range items {
		lines = append(lines, strings.Join([]string{string(i.Op), strings.Join(i.Path, "."), string(i.Old), string(i.New)}, " "))
	}
	return lines
}

func expectDiff(t *testing.T, items []handlers.DiffItem, want ...string) {
	t.Helper()
	if got := text(items); !slices.Equal(got, want) {
		t.Errorf("the diff is %q, expected %q", got, want)
	}
}

func TestDiffOfTwoValues(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing":                  {``, ``, nil},
		"null is nothing":          {`null`, ``, nil},
		"equal":                    {`{"a":1}`, `{"a":1}`, nil},
		"order of members":         {`{"a":1,"b":{"c":1,"d":2}}`, `{"b":{"d":2,"c":1},"a":1}`, nil},
		"order within an array":    {`{"a":[{"b":1,"c":2}]}`, `{"a":[{"c":2,"b":1}]}`, nil},
		"order of an array":        {`{"a":[1,2]}`, `{"a":[2,1]}`, []string{`change a [1,2] [2,1]`}},
		"added as a whole":         {``, `{"a":1}`, []string{`add   {"a":1}`}},
		"removed as a whole":       {`3`, ``, []string{`remove  3 `}},
		"another kind":             {`{"a":{"b":1}}`, `{"a":[1]}`, []string{`change a {"b":1} [1]`}},
		"a null member is absent":  {`{"a":null,"b":1}`, `{"b":null,"a":1}`, []string{`add a  1`, `remove b 1 `}},
		"sorted by path":           {`{}`, `{"z":1,"a":2,"m":3}`, []string{`add a  2`, `add m  3`, `add z  1`}},
		"at any depth":             {`{"a":{"b":{"c":1,"d":1}}}`, `{"a":{"b":{"c":2,"e":{}}}}`, []string{`change a.b.c 1 2`, `remove a.b.d 1 `, `add a.b.e  {}`}},
		"an empty object is added": {`{}`, `{"a":{}}`, []string{`add a  {}`}},
		"a name with dots":         {`{"a.b/c":1}`, `{"a.b/c":2}`, []string{`change a.b/c 1 2`}},
		"the last of two counts":   {`{"a":1,"a":2}`, `{"a":2}`, nil},
		"no JSON":                  {`{"a":`, `{"a":1}`, []string{`change  {"a": {"a":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			expectDiff(t, handlers.Diff([]byte(c.before), []byte(c.after)), c.want...)
		})
	}
}

// The API server accepts 10,000 levels, and the stack of a guest may have only 64 KiB.
func TestDiffOfDeepValuesIsThatOfTexts(t *testing.T) {
	deep := func(open, inner, end string) []byte {
		return []byte(strings.Repeat(open, 10_000) + inner + strings.Repeat(end, 10_000))
	}
	for _, c := range [][2]string{{`{"a":`, `}`}, {`[`, `]`}} {
		items := handlers.Diff(deep(c[0], "1", c[1]), deep(c[0], "2", c[1]))
		if len(items) != 1 || len(items[0].Path) > 64 || items[0].Op != handlers.Change {
			t.Errorf("%s: %d items, the first at %d names", c[0], len(items), len(items[0].Path))
		}
		if items := handlers.Diff(deep(c[0], "1", c[1]), deep(c[0], "1", c[1])); items != nil {
			t.Errorf("%s: an equal value differs", c[0])
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add(`{"a":{"b":1,"c":[1,{"d":null}]},"e":null}`, `{"a":{"b":2},"x":{"y":{}}}`)
	f.Add(`{"a":1}`, `[]`)
	f.Add(`{"a":{"a":{"a":1}}}`, `{"a":{"a":{"b":1}}}`)
	f.Add(``, `{"":{"":0}}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		items := handlers.Diff([]byte(before), []byte(after))
		if !isText(before) || !isText(after) {
			return
		}
		got := []byte(before)
		for _, i := range items {
			got = apply(got, i.Path, i)
		}
		if left := handlers.Diff(got, []byte(after)); len(left) > 0 {
			t.Errorf("%s and the diff %q to %s is %s", before, text(items), after, got)
		}
	})
}

// isText reports whether a host could send a text: it is JSON in UTF-8.
func isText(s string) bool { return utf8.ValidString(s) && rawjson.Valid([]byte(s), 0) == nil }

// apply returns a value with one difference applied.
func apply(value []byte, path []string, item handlers.DiffItem) []byte {
	if len(path) == 0 {
		return item.New
	}
	members, _ := rawjson.Members(value)
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		var inner []byte
		for _, m := range members {
			if m.Name == path[0] {
				inner = m.Value
			} else {
				w.Name(m.Name).Raw(m.Value)
			}
		}
		if inner = apply(inner, path[1:], item); inner != nil {
			w.Name(path[0]).Raw(inner)
		}
	})
	return w.Bytes()
}
