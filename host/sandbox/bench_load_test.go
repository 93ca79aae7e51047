package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

const podmanager = "plugins/podmanager"

// BenchmarkLoad loads into a running sandbox. Closing the guest frees its code,
// which then comes from the compiler or from the disk. The module is read only if
// it is compiled.
func BenchmarkLoad(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		p := byDigest(withSource("podmanager", wasmbuild.Build(b, toolchain, podmanager)))
		b.Run(string(toolchain)+"/cold", func(b *testing.B) { benchmarkLoad(b, Config{}, p) })
		b.Run(string(toolchain)+"/cached", func(b *testing.B) { benchmarkLoad(b, Config{CacheDir: b.TempDir()}, p) })
	}
}

// byDigest returns a plugin that is loaded by its digest and read when it has to
// be.
func byDigest(p Plugin) Plugin {
	p.Digest, p.Wasm = fmt.Sprintf("%x", sha256.Sum256(p.Wasm)), nil
	return p
}

func benchmarkLoad(b *testing.B, config Config, p Plugin) {
	s := newSandbox(b, config)
	closeGuest(b, load(b, s, p))
	defer reportProcessor(b, processor(b))
	for b.Loop() {
		closeGuest(b, load(b, s, p))
	}
}

// BenchmarkLoadSteps measures the parts of a load from the cache, and what the cache
// saves.
func BenchmarkLoadSteps(b *testing.B) {
	s := newSandbox(b, Config{CacheDir: b.TempDir()})
	p := withSource("podmanager", wasmbuild.Build(b, wasmbuild.TinyGo, podmanager))
	g := load(b, s, p)
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"digest", func() error { sha256.Sum256(p.Wasm); return nil }},
		{"rewrite", func() error {
			_, err := prepareOptions{MemoryBytes: g.limits.MemoryBytes}.rewrite(p.Wasm, &moduleReport{})
			return err
		}},
		{"reload", func() error { // verify the entry and open it
			g.closeIdle(b.Context(), time.Time{})
			g.code.Unload(b.Context(), time.Now().Add(time.Hour))
			_, err := g.code.Acquire(b.Context())
			g.code.Release()
			return err
		}},
		{"first-instance", func() error {
			g.closeIdle(b.Context(), time.Time{})
			return g.startFirst(b.Context())
		}},
		{"next-instance", func() error {
			g.closeIdle(b.Context(), time.Time{})
			in, err := g.instanceFor(b.Context(), nil, "")
			if err == nil {
				g.pool.put(in)
			}
			return err
		}},
	} {
		b.Run(step.name, func(b *testing.B) {
			defer reportProcessor(b, processor(b))
			for b.Loop() {
				if err := step.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// processor returns the processor time that the process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	return processorOf(b, syscall.RUSAGE_SELF)
}

func processorOf(b *testing.B, who int) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportProcessor reports processor time, which is more meaningful on a busy machine
// than elapsed time.
func reportProcessor(b *testing.B, before time.Duration) {
	b.Helper()
	b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
}

// distinct returns a module that does the same and shares nothing with others: one
// of its messages is another one.
func distinct(tb testing.TB, wasm []byte, n int) []byte {
	tb.Helper()
	const message = "nil pointer dereference"
	out := bytes.Replace(wasm, []byte(message), fmt.Appendf(nil, "%0*d", len(message), n), 1)
	if bytes.Equal(out, wasm) {
		tb.Fatalf("the module has no text %q to change", message)
	}
	return out
}

// processBytes returns the process's resident memory in bytes, after everything was
// freed that can be.
func processBytes(tb testing.TB) int64 {
	tb.Helper()
	for range 2 {
		runFinalizers() // finalizers free native code
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

// runFinalizers collects garbage and waits for a finalizer of its own, which runs
// after those of earlier collections.
func runFinalizers() {
	done := make(chan struct{})
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(done) })
	runtime.GC()
	<-done
}

// BenchmarkIdlePlugins loads 100 distinct plugins and reports how much resident
// memory each of them adds: with its first instance, without instances, and without
// native code. They are compiled before, which takes most of a minute.
func BenchmarkIdlePlugins(b *testing.B) {
	const plugins = 100
	wasm := wasmbuild.Build(b, wasmbuild.TinyGo, podmanager)
	compiler := newSandbox(b, Config{CacheDir: compiledDir})
	for i := range plugins {
		closeGuest(b, loadDistinct(b, compiler, wasm, i))
	}
	for b.Loop() {
		s := newSandbox(b, Config{CacheDir: compiledDir})
		closeGuest(b, load(b, s, withSource("podmanager", wasm))) // what only the first plugin costs
		floor := processBytes(b)
		for i := range plugins {
			loadDistinct(b, s, wasm, i)
		}
		report := func(unit string) {
			b.ReportMetric(float64(processBytes(b)-floor)/plugins/1024, unit)
		}
		report("KiB/loaded")
		for _, g := range s.loaded() {
			g.closeIdle(b.Context(), time.Time{})
		}
		report("KiB/without-instances")
		for _, g := range s.loaded() {
			if !g.code.Unload(b.Context(), time.Now()) {
				b.Fatal("the code is in use")
			}
		}
		report("KiB/idle")
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func loadDistinct(b *testing.B, s *Sandbox, wasm []byte, n int) *Guest {
	b.Helper()
	path := filepath.Join(b.TempDir(), "podmanager.wasm")
	other := distinct(b, wasm, n)
	if err := os.WriteFile(path, other, 0o600); err != nil {
		b.Fatal(err)
	}
	p := byDigest(Plugin{Name: "podmanager", Wasm: other})
	p.Source = func() ([]byte, error) { return os.ReadFile(path) }
	return load(b, s, p)
}

// BenchmarkLoadDistinct loads plugins at once that were never compiled, by
// processes as a host does. It reports the processor time of all of them.
func BenchmarkLoadDistinct(b *testing.B) {
	wasm := wasmbuild.Build(b, wasmbuild.TinyGo, podmanager)
	for _, plugins := range []int{1, 200} {
		b.Run(strconv.Itoa(plugins), func(b *testing.B) {
			before, compilers := processor(b), processorOf(b, syscall.RUSAGE_CHILDREN)
			for b.Loop() {
				s := newSandbox(b, compilerOf(b, "works"))
				var loads sync.WaitGroup
				for i := range plugins {
					loads.Go(func() {
						g, err := s.Load(b.Context(), Plugin{Name: "podmanager", Wasm: distinct(b, wasm, i)})
						if err != nil {
							b.Error(err)
							return
						}
						closeGuest(b, g)
					})
				}
				loads.Wait()
			}
			b.ReportMetric((processor(b)-before).Seconds()/float64(b.N), "host-cpu-s/op")
			b.ReportMetric((processorOf(b, syscall.RUSAGE_CHILDREN)-compilers).Seconds()/float64(b.N), "compilers-cpu-s/op")
		})
	}
}

// BenchmarkReload makes an instance of a plugin that was scaled to zero, and of one
// whose instances alone were closed.
func BenchmarkReload(b *testing.B) {
	for _, c := range []struct {
		name   string
		unload func(*Guest) bool
	}{
		{"code", func(g *Guest) bool { return g.code.Unload(context.Background(), time.Now()) }},
		{"instance", func(*Guest) bool { return true }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSandbox(b, Config{CacheDir: b.TempDir()})
			g := load(b, s, withSource("podmanager", wasmbuild.Build(b, wasmbuild.TinyGo, podmanager)))
			defer reportProcessor(b, processor(b))
			for b.Loop() {
				b.StopTimer()
				g.closeIdle(b.Context(), time.Time{})
				if !c.unload(g) {
					b.Fatal("the code is in use")
				}
				b.StartTimer()
				in, err := g.instanceFor(b.Context(), nil, "")
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
