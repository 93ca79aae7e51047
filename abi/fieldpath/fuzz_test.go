package fieldpath

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/rawjson"
)

// The model of this file decodes objects with encoding/json into maps, of which the
// last of duplicate members is left.

func decode(tb testing.TB, text []byte) (v any) {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return v
}

func encode(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// project is the model of [Set.Project]: of each value that a pointer leads to the way
// from the object.
func project(v any, pointers [][]string) (any, bool) {
	if slices.ContainsFunc(pointers, func(p []string) bool { return len(p) == 0 }) {
		return v, true
	}
	below := map[string][][]string{}
	for _, p := range pointers {
		below[p[0]] = append(below[p[0]], p[1:])
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, rest := range below {
			if member, ok := v[name]; ok {
				if part, ok := project(member, rest); ok {
					out[name] = part
				}
			}
		}
		return out, len(out) > 0
	case []any:
		var out []any
		for i, element := range v {
			if part, ok := project(element, below[strconv.Itoa(i)]); ok && below[strconv.Itoa(i)] != nil {
				out = append(out, make([]any, i-len(out))...)
				out = append(out, part)
			}
		}
		return out, len(out) > 0
	}
	return nil, false
}

// modelPointers parses fields as RFC 6901 describes it, with those of every set.
func modelPointers(fields []string) [][]string {
	all := [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"}}
	for _, f := range fields {
		if !strings.HasPrefix(f, "/") {
			f = "/" + f
		}
		steps := strings.Split(f, "/")[1:]
		for i := range steps {
			steps[i] = strings.ReplaceAll(strings.ReplaceAll(steps[i], "~1", "/"), "~0", "~")
		}
		all = append(all, steps)
	}
	return all
}

// objectSeeds are objects that are hard to read right.
var objectSeeds = []string{
	pod, `{}`, `{"spec":{"a":1},"spec":{"b":2}}`, `{"spec":[{"a":1},{"a":[2]}],"spec":5}`, `{"sp\u0065c":{"\u0061":{"0":1}}}`,
	`{"a/b":{"~":[1,2,{"":3}]},"":{"":0}}`, `{"metadata":{"name":"x","name":"y","labels":{"a":"b"}},"metadata":null}`, `[1]`, `{"spec":{"a":[[],{}]}} `,
	"{\"spec\":\"\\ud800\\udc00\xff\"}",
}

func FuzzProject(f *testing.F) {
	for _, object := range objectSeeds {
		for _, fields := range []string{"spec", "/spec/a", "/spec/0/a\n/spec/1", "/a~1b/~0/2\n//\n/metadata/labels", "/spec/a/1\nmetadata"} {
			f.Add([]byte(object), fields)
		}
	}
	f.Fuzz(func(t *testing.T, object []byte, lines string) {
		fields := strings.Split(lines, "\n")
		s, err := Parse(fields)
		if err != nil {
			return
		}
		got, err := s.Project(object)
		valid := json.Valid(object) && rawjson.NewReader(object).Kind() == '{'
		if (err == nil) != valid {
			t.Fatalf("%s: %v", object, err)
		}
		if err != nil || !utf8.Valid(object) || !utf8.ValidString(lines) {
			return
		}
		want, _ := project(decode(t, object), modelPointers(fields))
		if string(encode(t, decode(t, got))) != string(encode(t, want)) {
			t.Fatalf("%s of %s is\n%s, want\n%s", s, object, got, encode(t, want))
		}
		if again, err := s.Project(got); err != nil || !bytes.Equal(again, got) || !s.Same(object, got) {
			t.Fatalf("%s: what is left of %s differs: %s, %v", s, got, again, err)
		}
		var canonical []string
		if err := json.Unmarshal([]byte(s.String()), &canonical); err != nil {
			t.Fatal(err)
		}
		if other := mustParse(t, append(canonical, "/kind")...); other.String() != s.String() {
			t.Fatalf("%s is parsed as %s", s, other)
		}
	})
}

func FuzzSame(f *testing.F) {
	for i, object := range objectSeeds {
		f.Add([]byte(object), []byte(objectSeeds[(i+1)%len(objectSeeds)]), "/spec/a")
		f.Add([]byte(object), []byte(strings.Replace(object, "a", "b", 1)), "spec")
		f.Add([]byte(object), []byte(strings.Replace(object, "1", "1.0", 1)), "/spec/0/a\n/spec/a/1")
	}
	f.Fuzz(func(t *testing.T, a, b []byte, lines string) {
		fields := strings.Split(lines, "\n")
		s, err := Parse(fields)
		if err != nil || !utf8.ValidString(lines) {
			return
		}
		same := s.Same(a, b)
		if s.Same(b, a) != same {
			t.Fatalf("%s: %s and %s are the same in one order", s, a, b)
		}
		pa, errA := s.Project(a)
		pb, errB := s.Project(b)
		if errA != nil || errB != nil {
			if same != bytes.Equal(a, b) {
				t.Fatalf("%s: %s and %s: %v, %v", s, a, b, errA, errB)
			}
			return
		}
		if bytes.Equal(pa, pb) && !same {
			t.Fatalf("%s: %s and %s are both %s", s, a, b, pa)
		}
		if !utf8.Valid(a) || !utf8.Valid(b) {
			return
		}
		x, _ := project(decode(t, a), modelPointers(fields))
		y, _ := project(decode(t, b), modelPointers(fields))
		equal := rawjson.Equal(encode(t, x), encode(t, y))
		if same && !equal {
			t.Fatalf("%s: %s and %s are the same", s, pa, pb)
		}
		if !same && equal && withoutDuplicates(a) && withoutDuplicates(b) {
			t.Fatalf("%s: %s and %s differ", s, pa, pb)
		}
	})
}

// withoutDuplicates reports whether no object of a text has a name twice.
func withoutDuplicates(text []byte) bool {
	r := rawjson.NewReader(text)
	r.Strict = true
	r.Skip()
	return r.End() == nil
}

// values is the model of [Path.Values], with duplicates.
func values(v any, steps []string) (out []string) {
	if len(steps) == 0 {
		switch v := v.(type) {
		case string:
			return []string{v}
		case json.Number, bool:
			return []string{fmt.Sprint(v)}
		}
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		if member, ok := v[steps[0]]; ok && steps[0] != "[*]" {
			return values(member, steps[1:])
		}
	case []any:
		if steps[0] == "[*]" {
			for _, element := range v {
				out = append(out, values(element, steps[1:])...)
			}
		}
	}
	return out
}

func FuzzValues(f *testing.F) {
	for _, object := range objectSeeds {
		for _, path := range []string{"spec", "spec.a", "spec[*].a", "spec[*].a[*]", "metadata.name", "spec.containers[*].name"} {
			f.Add([]byte(object), path)
		}
	}
	f.Fuzz(func(t *testing.T, object []byte, path string) {
		p, err := ParsePath(path)
		if err != nil {
			return
		}
		got := p.Values(object)
		if !json.Valid(object) {
			if got != nil {
				t.Fatalf("%s of %q has %q", p, object, got)
			}
			return
		}
		if !utf8.Valid(object) {
			return
		}
		steps := strings.Split(strings.ReplaceAll(path, "[*]", ".[*]"), ".")
		var want []string
		for _, v := range values(decode(t, object), steps) {
			if !slices.Contains(want, v) {
				want = append(want, v)
			}
		}
		if !slices.Equal(got, want) || !slices.Equal(steps, p.Steps()) {
			t.Fatalf("%s of %s has %q, want %q", p, object, got, want)
		}
	})
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{"a=b", "a!=b,c==d", `a=\,\=\\`, ",", "a.b[*]!="} {
		f.Add(s, []byte(`{"a":"b","c":["d"]}`))
	}
	f.Fuzz(func(t *testing.T, text string, object []byte) {
		s, err := ParseSelector(text)
		if err != nil {
			return
		}
		var again []string // the requirements, written in the longest form
		for _, r := range s {
			operator := "=="
			if r.Not {
				operator = "!="
			}
			again = append(again, r.Path.String()+operator+strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`).Replace(r.Value))
		}
		other, err := ParseSelector(strings.Join(again, ","))
		if err != nil || len(other) != len(s) || other.Matches(object) != s.Matches(object) {
			t.Fatalf("%q is %+v, and %q is %+v, %v", text, s, again, other, err)
		}
		for i, r := range s {
			not := r
			not.Not = !r.Not
			if r.Value != other[i].Value || r.Matches(r.Path.Values(object)) == not.Matches(r.Path.Values(object)) {
				t.Fatalf("%q: requirement %+v", text, r)
			}
		}
	})
}
