package sandbox

import (
	"crypto/sha256"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

const podmanager = "plugins/podmanager"

// BenchmarkLoad loads in a sandbox that runs already. Closing the guest
// forgets its code, which then comes from the compiler or from the disk, and
// the module is read only if it is compiled.
func BenchmarkLoad(b *testing.B) {
	for _, toolchain := range wasmbuild.Toolchains {
		p := announced(kept("podmanager", wasmbuild.Build(b, toolchain, podmanager)))
		b.Run(string(toolchain)+"/cold", func(b *testing.B) { benchmarkLoad(b, Config{}, p) })
		b.Run(string(toolchain)+"/cached", func(b *testing.B) { benchmarkLoad(b, Config{CacheDir: b.TempDir()}, p) })
	}
}

// announced is a plugin of which the host knows the digest, and reads the file
// when it has to.
func announced(p Plugin) Plugin {
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

// BenchmarkLoadSteps are the parts of a load from the cache, beside what the
// cache saves.
func BenchmarkLoadSteps(b *testing.B) {
	s := newSandbox(b, Config{CacheDir: b.TempDir()})
	p := kept("podmanager", wasmbuild.Build(b, wasmbuild.TinyGo, podmanager))
	g := load(b, s, p)
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"digest", func() error { sha256.Sum256(p.Wasm); return nil }},
		{"rewrite", func() error { _, _, err := g.rewrite(p.Wasm); return err }},
		{"wake", func() error { // verify the entry and open it
			g.Trim(b.Context(), 0)
			g.code.Sleep(b.Context(), time.Now().Add(time.Hour))
			_, err := g.code.Use(b.Context())
			g.code.Release()
			return err
		}},
		{"first-instance", func() error {
			g.Trim(b.Context(), 0)
			return g.first(b.Context())
		}},
		{"next-instance", func() error {
			g.Trim(b.Context(), 0)
			in, err := g.ready(b.Context(), nil)
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

// processor is how much processor time the process has had.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportProcessor reports processor time: on a busy machine it says more than
// the time that passed.
func reportProcessor(b *testing.B, before time.Duration) {
	b.Helper()
	b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
}
