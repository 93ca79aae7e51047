package module

import (
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// TestNameSectionIsRefusedOnlyIfItClaimsTooManyNames: any other error in it is
// no reason to refuse the module.
func TestNameSectionIsRefusedOnlyIfItClaimsTooManyNames(t *testing.T) {
	for _, c := range []struct {
		name, section string
		refused       bool
	}{
		{"claims functions", "\x01\x05\xff\xff\xff\xff\x0f", true},
		{"claims functions with locals", "\x02\x05\xff\xff\xff\xff\x0f", true},
		{"claims locals", "\x02\x07\x01\x00\xff\xff\xff\xff\x0f", true},
		{"valid", "\x01\x04\x01\x00\x01a\x02\x06\x01\x00\x01\x00\x01b", false},
		{"name cut off", "\x01\x03\x01\x00\x09", false},
		{"subsection cut off", "\x01\x7f", false},
		{"unknown subsection", "\x09\x01a", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m tck.Module
			m.Func(nil, nil, nil)
			m.Custom("name", []byte(c.section))
			if _, err := Parse(m.Bytes()); (err != nil) != c.refused {
				t.Errorf("error = %v, want refused = %v", err, c.refused)
			}
		})
	}
}

func TestMalformedNamesAreLeftOut(t *testing.T) {
	m := &tck.Module{}
	m.Export("run", m.Func(nil, nil, nil))
	m.Custom("name", []byte("\x01\x04\x01\x00\x01\xff")) // not UTF-8
	out := mustWriteAgain(t, parse(t, m.Bytes()))
	if names := parse(t, out).functionNames(); !slices.Equal(names, []string{"$0"}) {
		t.Errorf("names = %q", names)
	}
}

// TestAddedImportsAreNamed also where no function follows them.
func TestAddedImportsAreNamed(t *testing.T) {
	var m tck.Module
	m.Import("thole/v1", "output", i32s(2), nil)
	tick := wasm.Import{Module: "thole", Name: "tick", Kind: wasm.KindFunction}
	out, err := parse(t, m.Bytes()).Write(Additions{Imports: []wasm.Import{tick}})
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Join(parse(t, out).functionNames(), " "); names != "$0 thole.tick" {
		t.Errorf("names = %q", names)
	}
}

// withProducers returns a module with a section of that content.
func withProducers(content string) []byte {
	return wasm.AppendCustom([]byte(wasm.Header), "producers", []byte(content))
}

func TestProducers(t *testing.T) {
	const language = "\x08language\x01\x02Go\x08go1.26.8"
	for name, c := range map[string]struct {
		content string
		want    []Producer
	}{
		"no field":          {"\x00", nil},
		"tools":             {"\x02" + language + "\x0cprocessed-by\x02\x05clang\x0219\x06TinyGo\x060.41.1", []Producer{{"clang", "19"}, {"TinyGo", "0.41.1"}}},
		"no tool":           {"\x01" + language, nil},
		"empty":             {"", nil},
		"cut off":           {"\x01\x0cprocessed-by\x02\x05clang\x0219", nil},
		"bytes left over":   {"\x01\x0cprocessed-by\x01\x05clang\x0219\x00", nil},
		"control character": {"\x01\x0cprocessed-by\x01\x05\x1b[31m\x0219", nil},
		"not UTF-8":         {"\x01\x0cprocessed-by\x01\x05\xff\xff\xff\xff\xff\x0219", nil},
		"claims too many":   {"\x01\x0cprocessed-by\xff\xff\xff\xff\x0f", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parse(t, withProducers(c.content)).Producers(); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if got := parse(t, []byte(wasm.Header)).Producers(); got != nil {
		t.Errorf("without the section: %q", got)
	}
}

func FuzzProducers(f *testing.F) {
	f.Add("\x01\x0cprocessed-by\x01\x05clang\x0219")
	f.Fuzz(func(t *testing.T, content string) {
		m, err := Parse(withProducers(content))
		if err != nil {
			return
		}
		for _, p := range m.Producers() {
			if len(p.Name) > maxProducerName || len(p.Version) > maxProducerName {
				t.Errorf("%q", p)
			}
		}
	})
}
