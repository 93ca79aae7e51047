package fieldpath

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/internal/costtest"
)

func TestFunctionsAreLinearOnHostileObjects(t *testing.T) {
	deep := "/spec" + strings.Repeat("/a", 100)
	fields := []string{deep, "/spec/0/a", "/spec/99999/a", "/spec/a/b"}
	for i := range 12 {
		fields = append(fields, fmt.Sprintf("/spec/k%d/x", i))
	}
	set := mustParse(t, fields...)
	paths := make([]Path, 0, 3)
	for _, text := range []string{"spec" + strings.Repeat(".a", 100), "spec[*]", "spec[*].a"} {
		p, err := ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	functions := map[string]func([]byte){
		"Project": func(text []byte) { _, _ = set.Project(text) },
		"Same":    func(text []byte) { set.Same(text, append([]byte(" "), text...)) },
		"Values": func(text []byte) {
			for _, p := range paths {
				p.Values(text)
			}
		},
	}
	for name, text := range map[string]func(n int) []byte{
		"members": func(n int) []byte {
			return costtest.Number(n, `{"spec":{`, func(i int) string { return fmt.Sprintf(`"k%d":{}`, i) }, `}}`)
		},
		"one name repeated": func(n int) []byte { return costtest.Repeat(n, `{"spec":{`, `"a":{"a":0}`, `}}`) },
		"two names in turn": func(n int) []byte { return costtest.Repeat(n, `{"spec":{"k0":{"x":[1]}}`, `"spec":{"a":{"b":0}}`, `}`) },
		"elements":          func(n int) []byte { return costtest.Repeat(n, `{"spec":[`, `1`, `]}`) },
		"distinct elements": func(n int) []byte {
			return costtest.Number(n, `{"spec":[`, func(i int) string { return fmt.Sprint(i) }, `]}`)
		},
		"deep": func(n int) []byte {
			return []byte(`{"spec":` + strings.Repeat(`{"a":`, min(n/12, 9000)) + strings.Repeat(" ", n/2) + "0" + strings.Repeat("}", min(n/12, 9000)) + "}")
		},
		"a giant name":   func(n int) []byte { return []byte(`{"spec":{"` + strings.Repeat("k", n) + `":1}}`) },
		"a giant string": func(n int) []byte { return []byte(`{"spec":{"a":"` + strings.Repeat(`\u00e9`, n/6) + `"}}`) },
	} {
		for function, f := range functions {
			t.Run(name+"/"+function, func(t *testing.T) { costtest.Linear(t, 400, text, f) })
		}
	}
}

// large returns a text like that of a pod of 2.4 KB.
func large() []byte {
	return []byte(strings.Replace(pod, `"note":null`, `"env":["`+strings.Repeat(`some text","`, 160)+`"]`, 1))
}

func BenchmarkProject(b *testing.B) {
	s, object := mustParse(b, "/status/phase"), large()
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		if _, err := s.Project(object); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSame(b *testing.B) {
	s, object := mustParse(b, "/status/phase"), large()
	other := []byte(strings.Replace(string(object), `"9"`, `"10"`, 1))
	b.SetBytes(int64(2 * len(object)))
	for b.Loop() {
		if !s.Same(object, other) {
			b.Fatal("they differ")
		}
	}
}

func BenchmarkValues(b *testing.B) {
	p, err := ParsePath("spec.nodeName")
	if err != nil {
		b.Fatal(err)
	}
	object := large()
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		p.Values(object)
	}
}
