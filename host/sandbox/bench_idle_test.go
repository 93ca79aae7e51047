package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// distinct is a module that does the same and has other data, so that nothing
// of it is shared: one of its messages is another one.
func distinct(tb testing.TB, wasm []byte, n int) []byte {
	tb.Helper()
	const message = "nil pointer dereference"
	out := bytes.Replace(wasm, []byte(message), fmt.Appendf(nil, "%0*d", len(message), n), 1)
	if bytes.Equal(out, wasm) {
		tb.Fatalf("the module has no text %q to change", message)
	}
	return out
}

// processBytes is the process's resident memory in bytes, after what can be given
// back has been.
func processBytes(tb testing.TB) int64 {
	tb.Helper()
	for range 2 {
		runFinalizers() // they free native code
	}
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Skipf("resident memory is read from /proc: %v", err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(text)[1]), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// runFinalizers collects garbage and waits for a finalizer of it, which runs
// behind those of earlier collections.
func runFinalizers() {
	done := make(chan struct{})
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(done) })
	runtime.GC()
	<-done
}

// BenchmarkIdlePlugins loads 100 distinct plugins and reports how much
// resident memory each of them adds: at once after its first instance, when
// instances are gone, and when the native code is gone too. The first run
// compiles them, which takes most of a minute.
func BenchmarkIdlePlugins(b *testing.B) {
	const plugins = 100
	wasm := wasmbuild.Build(b, wasmbuild.TinyGo, podmanager)
	for b.Loop() {
		s := newSandbox(b, Config{CacheDir: compiledDir, IdleInstances: time.Hour, IdleCode: time.Hour})
		closeGuest(b, load(b, s, kept("podmanager", wasm))) // what the first one costs once
		floor := processBytes(b)
		for i := range plugins {
			loadDistinct(b, s, wasm, i)
		}
		report := func(unit string) {
			b.ReportMetric(float64(processBytes(b)-floor)/plugins/1024, unit)
		}
		report("KiB/loaded")
		for _, g := range s.loaded() {
			g.Trim(b.Context(), 0)
		}
		report("KiB/without-instances")
		for _, g := range s.loaded() {
			if !g.code.Sleep(b.Context(), time.Now()) {
				b.Fatal("the code is in use")
			}
		}
		report("KiB/idle")
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func loadDistinct(b *testing.B, s *Sandbox, wasm []byte, n int) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "podmanager.wasm")
	other := distinct(b, wasm, n)
	if err := os.WriteFile(path, other, 0o600); err != nil {
		b.Fatal(err)
	}
	p := announced(Plugin{Name: "podmanager", Wasm: other})
	p.Source = func() ([]byte, error) { return os.ReadFile(path) }
	load(b, s, p)
}

// BenchmarkWake is the first call of a plugin that was scaled to zero, beside
// one whose instance alone had gone.
func BenchmarkWake(b *testing.B) {
	for _, c := range []struct {
		name  string
		sleep func(*Guest) bool
	}{
		{"code", func(g *Guest) bool { return g.code.Sleep(context.Background(), time.Now()) }},
		{"instance", func(*Guest) bool { return true }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSandbox(b, Config{CacheDir: b.TempDir()})
			g := load(b, s, kept("podmanager", wasmbuild.Build(b, wasmbuild.TinyGo, podmanager)))
			defer reportProcessor(b, processor(b))
			for b.Loop() {
				b.StopTimer()
				g.Trim(b.Context(), 0)
				if !c.sleep(g) {
					b.Fatal("the code is in use")
				}
				b.StartTimer()
				in, err := g.ready(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				in.close(b.Context())
				b.StartTimer()
			}
		})
	}
}
