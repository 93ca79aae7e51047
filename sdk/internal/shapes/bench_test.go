package shapes

import (
	"encoding/json"
	"testing"
)

// subject returns a value of the subject of that name, filled by its text.
func subject(b *testing.B, name string) (v Value, text []byte) {
	b.Helper()
	for _, s := range Subjects {
		if s.Name != name {
			continue
		}
		v, text = s.New(), []byte(full[name])
		if err := Decode(text, v); err != nil {
			b.Fatal(err)
		}
	}
	return v, text
}

// benched are the subjects with object metadata and with all kinds of nested values.
var benched = []string{"Embedding", "Nested"}

func BenchmarkDecode(b *testing.B) {
	for _, name := range benched {
		v, text := subject(b, name)
		for way, decode := range map[string]func() error{
			"generated":     func() error { return Decode(text, v) },
			"encoding-json": func() error { return json.Unmarshal(text, v) },
		} {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if err := decode(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, name := range benched {
		v, text := subject(b, name)
		buffer := make([]byte, 0, 4096)
		for way, encode := range map[string]func() ([]byte, error){
			"generated":     func() ([]byte, error) { return v.AppendJSON(buffer) },
			"encoding-json": func() ([]byte, error) { return json.Marshal(v) },
		} {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := encode(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
