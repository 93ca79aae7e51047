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

// reloadSteps are the parts of a reload, in their order, as they are seen from
// outside: each is the time since the one before.
var reloadSteps = []string{
	"noticed-ms",  // the host opens the file, which has been stable for 100 ms
	"read-ms",     // it has read the file, for the digest and to compile it
	"verified-ms", // the module is checked and rewritten: its compiler gets a directory
	"compiled-ms", // the native code is in the cache
	"started-ms",  // the generation runs: code opened, first instance, manifest, informers
	"first-ms",    // the first object has been reconciled, with its two writes
}

// BenchmarkReload replaces the file of a plugin of 350 KB, of which no cache
// knows anything, by a rename, and waits for the first reconcile of the new
// generation. reload-ms is all of it, the others are its parts; each is the
// median.
func BenchmarkReload(b *testing.B) {
	r := newReload(b)
	took := map[string][]float64{}
	for b.Loop() {
		at := r.replace()
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
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// reload is a host with a plugin that is replaced again and again.
type reload struct {
	b       *testing.B
	plugins string
	modules soakModules
	host    *benchHost
	seen    *inotify
	version int
}

func newReload(b *testing.B) *reload {
	b.Helper()
	dir, ns, kind := b.TempDir(), namespace(b), installSoakKind(b, 0)
	r := &reload{b: b, plugins: filepath.Join(dir, "plugins"), modules: newSoakModules(b)}
	if err := os.Mkdir(r.plugins, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range 20 {
		if err := create(b.Context(), kind, soakKind(0), ns, fmt.Sprintf("object-%d", i), map[string]any{"text": "as it is"}); err != nil {
			b.Fatal(err)
		}
	}
	r.put()
	how := host(r.plugins, cluster.Kubeconfig, ns, soakLimits)
	how.CacheDir = dir
	r.host = &benchHost{how.Start(b), b}
	r.host.awaitRest(20)
	cache := filepath.Join(dir, "thole")
	code, err := filepath.Glob(filepath.Join(cache, "thole-code-*"))
	if err != nil || len(code) != 1 {
		b.Fatalf("the compile cache is at %v: %v", code, err)
	}
	r.seen = newInotify(b, r.plugins, cache, code[0])
	return r
}

// put replaces the plugin and tells when.
func (r *reload) put() time.Time {
	r.b.Helper()
	r.version++
	partial := filepath.Join(r.plugins, ".partial")
	if err := os.WriteFile(partial, soakModule(r.modules.plain, 0, r.version), 0o644); err != nil {
		r.b.Fatal(err)
	}
	start := time.Now()
	if err := os.Rename(partial, filepath.Join(r.plugins, "soak-0.wasm")); err != nil {
		r.b.Fatal(err)
	}
	return start
}

// replace puts the next version in place, and answers when that was and when
// each step had ended.
func (r *reload) replace() []time.Time {
	r.b.Helper()
	r.host.awaitRest(0)
	mark := r.host.Log.Mark()
	r.seen.drain()
	start := r.put()
	var runs, first tholetest.Line
	poll(r.b, "the new generation has reconciled an object", func() bool {
		for _, line := range r.host.Log.Since(mark) {
			switch line.String("@message") {
			case "plugin runs":
				runs = line
			case "reconciled":
				if first == nil {
					first = line
				}
			}
		}
		return runs != nil && first != nil
	})
	at := append([]time.Time{start}, r.files(start)...)
	started, ended := r.time(runs), r.time(first)
	if ended.Before(started) { // keys are triggered before the line is written
		started = ended
	}
	return append(at, started, ended)
}

// files answers when the file was opened first and closed last, when the
// compiler got its directory, and when the code was there.
func (r *reload) files(start time.Time) []time.Time {
	r.b.Helper()
	var opened, closed, verified, compiled time.Time
	for _, e := range r.seen.drain() {
		switch {
		case e.at.Before(start):
		case e.dir == r.plugins && e.opened() && opened.IsZero():
			opened = e.at
		case e.dir == r.plugins && e.closed() && verified.IsZero():
			closed = e.at
		case strings.HasPrefix(e.name, "thole-compile-") && e.created():
			verified = e.at
		case strings.Contains(e.dir, "thole-code-") && e.moved():
			compiled = e.at
		}
	}
	steps := []time.Time{opened, closed, verified, compiled}
	if slices.ContainsFunc(steps, time.Time.IsZero) {
		r.b.Fatalf("not all steps were seen: %v", steps)
	}
	return steps
}

// time of a line of the log.
func (r *reload) time(line tholetest.Line) time.Time {
	r.b.Helper()
	at, err := time.Parse(time.RFC3339Nano, line.String("@timestamp"))
	if err != nil {
		r.b.Fatal(err)
	}
	return at
}
