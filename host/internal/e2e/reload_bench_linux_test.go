package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// reloadSteps are the parts of a reload in order, as they can be observed from
// outside. Each metric is the time since the step before.
var reloadSteps = []string{
	"noticed-ms",  // the host opens the file, which has been stable for 100 ms
	"read-ms",     // it has read the file twice, for the digest and to compile it
	"verified-ms", // the module is checked and rewritten, and its compiler gets a directory
	"compiled-ms", // the native code is in the cache
	"started-ms",  // the revision runs: code opened, first instance, manifest, informers
	"first-ms",    // the first object has been reconciled, with its two writes
}

// BenchmarkReload replaces the file of a plugin of 350 KB by one that no cache
// contains, and waits for the first run of the new revision. reload-ms is the whole
// time, the other metrics are its parts. Each is the median.
func BenchmarkReload(b *testing.B) {
	r := newReload(b)
	took := map[string][]float64{}
	for b.Loop() {
		at := r.reload()
		took["reload-ms"] = append(took["reload-ms"], milliseconds(at[len(at)-1].Sub(at[0])))
		for i, step := range reloadSteps {
			took[step] = append(took[step], milliseconds(at[i+1].Sub(at[i])))
		}
	}
	b.ReportMetric(0, "ns/op")
	for step, all := range took {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], step)
	}
	r.host.stop()
	r.host.expectNoErrors()
}

// reload is a host with a plugin that is replaced again and again.
type reload struct {
	b       *testing.B
	plugins directory
	modules soakModules
	host    *process
	files   *inotify
	version int
}

func newReload(b *testing.B) *reload {
	b.Helper()
	cacheDir, ns, kind := b.TempDir(), namespace(b), installSoakCRD(b, 0)
	r := &reload{b: b, plugins: newDirectory(b), modules: newSoakModules(b)}
	for i := range 20 {
		must(b, tryCreate(b.Context(), kind, soakKind(0), ns, fmt.Sprintf("object-%d", i), map[string]any{"text": "as it is"}))
	}
	r.install()
	r.host = start(b, r.plugins, ns, soakLimits, func(h *tholetest.Host) { h.CacheDir = cacheDir })
	r.host.awaitIdle(b, 20)
	cache := filepath.Join(cacheDir, "thole")
	code, err := filepath.Glob(filepath.Join(cache, "thole-code-*"))
	if err != nil || len(code) != 1 {
		b.Fatalf("the compile cache is at %v: %v", code, err)
	}
	r.files = newInotify(b, r.plugins.path, cache, code[0])
	return r
}

// install replaces the file of the plugin and returns when.
func (r *reload) install() time.Time {
	r.b.Helper()
	r.version++
	partial := filepath.Join(r.plugins.path, ".partial")
	must(r.b, os.WriteFile(partial, soakModule(r.modules.plain, 0, r.version), 0o644))
	begin := time.Now()
	must(r.b, os.Rename(partial, filepath.Join(r.plugins.path, soakName(0)+".wasm")))
	return begin
}

// reload replaces the plugin, and returns when it did and when each step had ended.
func (r *reload) reload() []time.Time {
	r.b.Helper()
	r.host.awaitIdle(r.b, 0)
	mark := r.host.Log.Mark()
	r.files.drain()
	begin := r.install()
	var started, runs tholetest.Lines
	poll(r.b, "the new revision has reconciled an object", func() bool {
		lines := r.host.Log.Since(mark)
		started, runs = lines.Events("PluginStarted"), lines.Reconciled()
		return len(started) > 0 && len(runs) > 0
	})
	at := append([]time.Time{begin}, r.fileSteps(begin)...)
	return append(at, r.time(started[0]), r.time(runs[0]))
}

// fileSteps returns when the file was first opened and last closed, when the
// compiler got its directory, and when the code was in the cache.
func (r *reload) fileSteps(begin time.Time) []time.Time {
	r.b.Helper()
	var opened, closed, verified, compiled time.Time
	for _, e := range r.files.drain() {
		switch {
		case e.at.Before(begin):
		case e.dir == r.plugins.path && e.opened() && opened.IsZero():
			opened = e.at
		case e.dir == r.plugins.path && e.closed() && verified.IsZero():
			closed = e.at
		case strings.HasPrefix(e.name, "thole-compile-") && e.created():
			verified = e.at
		case strings.Contains(e.dir, "thole-code-") && e.moved():
			compiled = e.at
		}
	}
	steps := []time.Time{opened, closed, verified, compiled}
	if slices.ContainsFunc(steps, time.Time.IsZero) {
		r.b.Fatalf("not every step was observed: %v", steps)
	}
	return steps
}

// time returns the time of a line of the log.
func (r *reload) time(line tholetest.Line) time.Time {
	r.b.Helper()
	at, err := time.Parse(time.RFC3339Nano, line.String("@timestamp"))
	must(r.b, err)
	return at
}
