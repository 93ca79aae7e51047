package sandbox

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// BenchmarkReconcile calls guests that do nearly nothing: it measures the cost of a
// call and of what happens between two calls.
func BenchmarkReconcile(b *testing.B) {
	for _, c := range []struct {
		name string
		wasm []byte
	}{
		{"reset", kitCase(b, "correct").Wasm()},
		{"pooled", withCustomSection("pooled", goSection)},
		{"fresh", kitCase(b, "reset-table").Wasm()},
		{"grows", kitCase(b, "reset-grown-memory").Wasm()},
	} {
		b.Run(c.name, func(b *testing.B) {
			name := map[string]string{"reset": "correct", "fresh": "reset-table", "grows": "reset-grown-memory"}[c.name]
			if name == "" {
				name = c.name
			}
			g := load(b, newSandbox(b, Config{}), Plugin{Name: name, Wasm: c.wasm})
			call := Call{Request: [][]byte{tck.Request()}, Now: callTime}
			b.ReportAllocs()
			for b.Loop() {
				reconcile(b, g, call)
			}
		})
	}
}

func BenchmarkReconcileProbe(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		b.Run(string(toolchain), func(b *testing.B) {
			g := load(b, newSandbox(b, compiledGuests()), Plugin{Name: "probe", Wasm: wasmbuild.Build(b, toolchain, probeDir)})
			call := Call{Request: [][]byte{probeRequest("clock")}, Now: callTime}
			b.ReportAllocs()
			for b.Loop() {
				reconcile(b, g, call)
			}
		})
	}
}

// BenchmarkNamespaces calls the probe for objects in one namespace, and in many by
// turns.
func BenchmarkNamespaces(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		for _, namespaces := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", toolchain, namespaces), func(b *testing.B) {
				g := load(b, newSandbox(b, compiledGuests()), Plugin{Name: "probe", Wasm: wasmbuild.Build(b, toolchain, probeDir)})
				calls := 0
				for b.Loop() {
					calls++
					reconcile(b, g, Call{Request: [][]byte{probeRequest("clock")}, Namespace: strconv.Itoa(calls % namespaces), Now: callTime})
				}
			})
		}
	}
}

// BenchmarkInstantiate makes instances from the image.
func BenchmarkInstantiate(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		b.Run(string(toolchain), func(b *testing.B) {
			g := load(b, newSandbox(b, compiledGuests()), Plugin{Name: "probe", Wasm: wasmbuild.Build(b, toolchain, probeDir)})
			for b.Loop() {
				in, err := g.instanceFor(b.Context(), nil, "")
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

// BenchmarkParse parses and rewrites a module.
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
