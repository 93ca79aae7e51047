package module

import (
	"slices"
	"testing"
)

// withProducers is a module with a section of that content.
func withProducers(content string) []byte {
	return appendSection([]byte("\x00asm\x01\x00\x00\x00"), customSection, []byte("\x09producers"+content))
}

func TestProducers(t *testing.T) {
	const language = "\x08language\x01\x02Go\x08go1.26.8"
	for name, c := range map[string]struct {
		content string
		want    []Producer
	}{
		"none":    {"\x00", nil},
		"tools":   {"\x02" + language + "\x0cprocessed-by\x02\x05clang\x0219\x06TinyGo\x060.41.1", []Producer{{"clang", "19"}, {"TinyGo", "0.41.1"}}},
		"no tool": {"\x01" + language, nil},
		"empty":   {"", nil},
		"cut":     {"\x01\x0cprocessed-by\x02\x05clang\x0219", nil},
		"more":    {"\x01\x0cprocessed-by\x01\x05clang\x0219\x00", nil},
		"escape":  {"\x01\x0cprocessed-by\x01\x05\x1b[31m\x0219", nil},
		"no text": {"\x01\x0cprocessed-by\x01\x05\xff\xff\xff\xff\xff\x0219", nil},
		"bomb":    {"\x01\x0cprocessed-by\xff\xff\xff\xff\x0f", nil},
	} {
		if got := parse(t, withProducers(c.content)).Producers(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := parse(t, []byte("\x00asm\x01\x00\x00\x00")).Producers(); got != nil {
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
