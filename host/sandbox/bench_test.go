package sandbox

import (
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// BenchmarkReconcile calls guests that do next to nothing, so that what is
// left is the cost of a call and of what happens between two.
func BenchmarkReconcile(b *testing.B) {
	for _, c := range []struct {
		name string
		wasm []byte
	}{
		{"reset", caseWasm("correct")},
		{"pooled", withCustom(newHand("pooled"), goSection)},
		{"fresh", caseWasm("reset-table")},
		{"grows", caseWasm("reset-grown-memory")},
	} {
		b.Run(c.name, func(b *testing.B) {
			name := map[string]string{"reset": "correct", "fresh": "reset-table", "grows": "reset-grown-memory"}[c.name]
			if name == "" {
				name = c.name
			}
			g := load(b, newSandbox(b, Config{}), Plugin{Name: name, Wasm: c.wasm})
			call := Call{Request: tck.Request(), Now: callTime}
			b.ReportAllocs()
			for b.Loop() {
				reconcile(b, g, call)
			}
		})
	}
}

func caseWasm(name string) []byte {
	c, _ := tck.CaseOf(name)
	return c.Wasm()
}

func withCustom(h *hand, section string) []byte {
	h.Custom(section, nil)
	return h.wasm(nil, h.ok())
}

func BenchmarkReconcileProbe(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		b.Run(string(toolchain), func(b *testing.B) {
			g := load(b, newSandbox(b, compiledGuests()), Plugin{Name: "probe", Wasm: wasmbuild.Build(b, toolchain, probeDir)})
			call := Call{Request: probeRequest("clock"), Now: callTime}
			b.ReportAllocs()
			for b.Loop() {
				reconcile(b, g, call)
			}
		})
	}
}

// BenchmarkInstantiate makes instances from the image.
func BenchmarkInstantiate(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		b.Run(string(toolchain), func(b *testing.B) {
			g := load(b, newSandbox(b, compiledGuests()), Plugin{Name: "probe", Wasm: wasmbuild.Build(b, toolchain, probeDir)})
			for b.Loop() {
				in, err := g.ready(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				in.close(b.Context())
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		s, err := New(b.Context(), Config{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParse reads and rewrites a module, before the engine sees it.
func BenchmarkParse(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		wasm := wasmbuild.Build(b, toolchain, probeDir)
		b.Run(string(toolchain), func(b *testing.B) {
			b.SetBytes(int64(len(wasm)))
			for b.Loop() {
				m, err := module.Parse(wasm)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := meter.Rewrite(m, meter.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
