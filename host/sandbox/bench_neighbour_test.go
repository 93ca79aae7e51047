package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// BenchmarkNeighbour measures how much a plugin is disturbed by others. Its keys come
// due on a grid, whether those before are done or not, and what counts is how late
// each has its decoded result: a stall of 100 ms makes a hundred keys late. /healthz
// is asked on a grid in the same way. Windows in which the plugin is alone (quiet) and
// in which something else runs (beside) take turns, so that a busy machine disturbs
// both.
//
//	p50-ratio    beside/quiet of the medians: at most 1.2 (DESIGN.md, idea 4)
//	p99-more-ms  beside-quiet of the 99th percentiles: at most 5
//	healthz-*    of the windows beside something
//	pause-max-µs the longest that the garbage collector waited until all goroutines
//	             had stopped: guests stop at their ticks
//
// nothing runs nothing beside it, which shows the noise of the measurement. computes
// runs a loop in Go on all cores but one, which shows the cost of a busy machine.
// Where the name ends in +garbage, garbage is collected without a pause in both
// kinds of windows.
func BenchmarkNeighbour(b *testing.B) {
	for _, d := range disturbances() {
		b.Run(d.name, func(b *testing.B) {
			s := newSandbox(b, compiledGuests())
			n := newNeighbour(b, s)
			calm, disturb := idle, d.prepare(b, s)
			if d.calm != nil {
				calm = d.calm(b, s)
			}
			var quiet, beside lateness
			var stops pauses
			for b.Loop() {
				for range pairsOfWindows {
					quiet.add(n.window(b, calm))
					before := readPauses()
					beside.add(n.window(b, disturb))
					stops.add(before, readPauses())
				}
			}
			reportNeighbour(b, quiet, beside)
			stops.report(b)
		})
	}
}

const (
	pairsOfWindows = 12
	windowLength   = 200 * time.Millisecond
	notCounted     = 20 * time.Millisecond // at its begin: all callers start at once, which is an artefact
	neighbourGrid  = time.Millisecond      // from one key to the next
	healthzGrid    = 5 * time.Millisecond
	hostileCallers = 8
)

// lateness is how late keys and answers of /healthz were.
type lateness struct{ keys, healthz []time.Duration }

func (l *lateness) add(more lateness) {
	l.keys = append(l.keys, more.keys...)
	l.healthz = append(l.healthz, more.healthz...)
}

func reportNeighbour(b *testing.B, quiet, beside lateness) {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	b.ReportMetric(0, "ns/op") // which is that of the whole measurement
	b.ReportMetric(us(quantile(quiet.keys, 0.5)), "p50-quiet-µs")
	b.ReportMetric(us(quantile(beside.keys, 0.5)), "p50-beside-µs")
	b.ReportMetric(us(quantile(beside.keys, 0.5))/us(quantile(quiet.keys, 0.5)), "p50-ratio")
	b.ReportMetric(us(quantile(quiet.keys, 0.99)), "p99-quiet-µs")
	b.ReportMetric(us(quantile(beside.keys, 0.99)), "p99-beside-µs")
	b.ReportMetric((us(quantile(beside.keys, 0.99))-us(quantile(quiet.keys, 0.99)))/1000, "p99-more-ms")
	b.ReportMetric(us(quantile(beside.keys, 1))/1000, "max-beside-ms")
	b.ReportMetric(us(quantile(beside.healthz, 0.99))/1000, "healthz-p99-ms")
	b.ReportMetric(us(quantile(beside.healthz, 1))/1000, "healthz-max-ms")
}

func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

// A disturbance prepares, before the measurement, what then runs beside the
// neighbour until its context ends.
type disturbance struct {
	name    string
	prepare func(b *testing.B, s *Sandbox) (run func(ctx context.Context))
	calm    func(b *testing.B, s *Sandbox) (run func(ctx context.Context)) // in quiet windows; nil: nothing
}

func idle(context.Context) {}

// neighbour is a plugin whose keys become due on a grid, in a process that answers
// /healthz.
type neighbour struct {
	g       *Guest
	healthz string // URL
}

func newNeighbour(b *testing.B, s *Sandbox) *neighbour {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	b.Cleanup(server.Close)
	return &neighbour{
		g:       load(b, s, Plugin{Name: "podmanager", Wasm: wasmbuild.Build(b, wasmbuild.TinyGo, "plugins/podmanager")}),
		healthz: server.URL + "/healthz",
	}
}

const podManager = `{"apiVersion":"example.thole.dev/v1","kind":"PodManager","metadata":{"name":"sample","namespace":"default","uid":"6a3f","generation":1,"resourceVersion":"77"},"spec":{"image":"nginx:1.29","env":[{"name":"GREETING","value":"hello"}],"labels":{"app":"sample"}}}`

func (n *neighbour) reconcile(b *testing.B) {
	request := abi.EncodeRequest(&abi.Request{Controller: "podmanager", Object: []byte(podManager), Now: callTime})
	_, err := n.g.Reconcile(b.Context(), Call{Request: [][]byte{request}, Now: callTime, Host: kitHost{b}, BeforeRelease: func(out Return) {
		if _, err := abi.DecodeResult(out.Output); err != nil {
			b.Error(err)
		}
	}})
	if err != nil {
		b.Error(err)
	}
}

func (n *neighbour) askHealthz(b *testing.B) {
	reply, err := http.Get(n.healthz)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, reply.Body)
	_ = reply.Body.Close()
}

// window measures for windowLength while beside runs.
func (n *neighbour) window(b *testing.B, beside func(ctx context.Context)) (out lateness) {
	ctx, cancel := context.WithCancel(b.Context())
	var other, grids sync.WaitGroup
	other.Go(func() { beside(ctx) })
	defer other.Wait()
	defer cancel()
	counted := time.Now().Add(notCounted)
	grids.Go(func() { out.keys = onGrid(counted, neighbourGrid, func() { n.reconcile(b) }) })
	grids.Go(func() { out.healthz = onGrid(counted, healthzGrid, func() { n.askHealthz(b) }) })
	grids.Wait()
	return out
}

// onGrid calls do at each point of a grid that begins at a time and lasts for
// windowLength, or as soon as it can, and returns how long after its point each call
// had ended.
func onGrid(begin time.Time, step time.Duration, do func()) (late []time.Duration) {
	pause := time.NewTimer(0)
	<-pause.C
	for due := begin; due.Before(begin.Add(windowLength)); due = due.Add(step) {
		pause.Reset(time.Until(due))
		<-pause.C
		do()
		late = append(late, time.Since(due))
	}
	return late
}

// disturbances returns the hostile guests of the kit that differ in what they do,
// things that a normal host does, and combinations of the two.
func disturbances() []disturbance {
	out := []disturbance{
		{name: "nothing", prepare: func(*testing.B, *Sandbox) func(context.Context) { return idle }},
		{name: "computes", prepare: inGo},
		{name: "computes+garbage", prepare: both(inGo, collectsGarbage), calm: collectsGarbage},
		{name: "other-process", prepare: inShell},
		{name: "other-process+garbage", prepare: both(inShell, collectsGarbage), calm: collectsGarbage},
		{name: "busy-plugin", prepare: busyPlugin},
		{name: "loads-go-plugin", prepare: loadsAgain("probe", func(b *testing.B) []byte { return wasmbuild.Build(b, wasmbuild.Go, probeDir) })},
		{name: "collects-garbage", prepare: collectsGarbage},
		{name: "spinning-daemons", prepare: spinningDaemons},
		{name: "waits-for-reply", prepare: waitsForReply},
	}
	for _, c := range append(tck.Cases(), tck.Hostile()...) {
		switch {
		case c.Stage == tck.StageCall && measured(c.Name):
			out = append(out,
				disturbance{name: c.Name, prepare: hostile(c)},
				disturbance{name: c.Name + "+garbage", prepare: both(hostile(c), collectsGarbage), calm: collectsGarbage})
		case c.Stage == tck.StageLoad && measured(c.Name):
			out = append(out, disturbance{name: c.Name, prepare: loadsAgain(c.Name, func(*testing.B) []byte { return c.Wasm() })})
		}
	}
	return out
}

// measured reports whether a guest of the kit is among those that are measured.
func measured(name string) bool {
	return slices.Contains([]string{
		"infinite-loop", "recursion-exponential", "call-tree", "call-tree-table", "loop-heavy",
		"deep-recursion", "deep-recursion-tails", "deep-trap", "long-names",
		"memory-bomb", "memory-bomb-touched", "memory-bomb-doubling", "table-bomb", "grow-refused",
		"fill-loop", "fill-straight", "copy-straight", "table-fill-straight",
		"output-bomb-bytes", "output-oversize", "log-bomb", "log-bomb-huge", "stdout-bomb", "random-storm",
		"get-storm", "list-storm", "trap", "exit", "trap-after-output", "output-not-json", "result-very-deep", "result-large-number",
		"locals-bomb", "locals-bomb-spread", "count-bomb-types", "huge-function", "elements-bomb", "jump-bomb",
		"count-bomb-function-names", "start-loops", "start-memory-bomb",
	}, name)
}

// hostile calls a guest as a controller with many objects does: a failure is logged,
// and the next object is due at once.
func hostile(c tck.Case) func(b *testing.B, s *Sandbox) func(context.Context) {
	return func(b *testing.B, s *Sandbox) func(context.Context) {
		g := load(b, s, Plugin{Name: c.Name, Wasm: c.Wasm()})
		logger := fileLogger(b)
		return callers(func(ctx context.Context) {
			var invalid error
			_, err := g.Reconcile(ctx, Call{Request: [][]byte{tck.Request()}, Now: time.Now(), Host: logged{logger}, BeforeRelease: func(out Return) {
				_, invalid = abi.DecodeResult(out.Output)
			}})
			if fault, ok := errors.AsType[*Fault](err); ok {
				logger.Error("reconcile failed", "class", fault.Class, "message", err, "stack", fault.Stack)
			}
			if invalid != nil {
				logger.Error("reconcile failed", "class", abi.ClassABI, "message", invalid)
			}
		})
	}
}

// daemonFuel is what a daemon may use in a second by default.
const daemonFuel = 100_000_000

// spinningDaemons makes steps that never return, of as many daemons as there are callers. Each
// uses its fuel of a second, and is tried again as soon as that has passed.
func spinningDaemons(b *testing.B, s *Sandbox) func(context.Context) {
	c, _ := tck.CaseOf("daemon-loop")
	g := load(b, s, Plugin{Name: c.Name, Wasm: c.Wasm()})
	return callers(func(ctx context.Context) {
		next := time.After(time.Second)
		_, _ = g.Call(ctx, tck.DaemonExport, Call{Request: [][]byte{tck.DaemonRequest()}, Now: time.Now(), Fuel: daemonFuel})
		select {
		case <-next:
		case <-ctx.Done():
		}
	})
}

// waitsForReply makes calls that wait for a reply all the time, each with an instance of its own.
func waitsForReply(b *testing.B, s *Sandbox) func(context.Context) {
	c, _ := tck.CaseOf("http-request")
	g := load(b, s, Plugin{Name: c.Name, Wasm: c.Wasm(), Limits: Limits{Instances: hostileCallers}})
	return callers(func(ctx context.Context) {
		_, err := g.Reconcile(context.WithoutCancel(ctx), Call{Request: [][]byte{tck.Request()}, Now: time.Now(), Host: hostFunc(func(_ context.Context, call []byte) ([]byte, int64) {
			<-ctx.Done() // the end of the window
			return tck.Import(waiting().Import, call)
		})})
		if err != nil {
			b.Error(err)
		}
	})
}

func inGo(*testing.B, *Sandbox) func(context.Context) { return computes }

// inShell runs a loop in another process.
func inShell(b *testing.B, _ *Sandbox) func(context.Context) {
	return func(ctx context.Context) {
		other := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := other.Start(); err != nil {
			b.Error(err)
			return
		}
		_ = other.Wait() // the context kills it
	}
}

func computes(ctx context.Context) {
	var all sync.WaitGroup
	for range max(1, runtime.GOMAXPROCS(0)-1) {
		all.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				if n%1000 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
}

func busyPlugin(b *testing.B, s *Sandbox) func(context.Context) {
	g := load(b, s, Plugin{Name: "podmanager", Wasm: wasmbuild.Build(b, wasmbuild.TinyGo, "plugins/podmanager")})
	n := &neighbour{g: g}
	return callers(func(context.Context) { n.reconcile(b) })
}

func callers(call func(ctx context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		var all sync.WaitGroup
		for range hostileCallers {
			all.Go(func() {
				for ctx.Err() == nil {
					call(ctx)
				}
			})
		}
		all.Wait()
	}
}

// betweenLoads is a tenth of the time that a directory has to be quiet before
// its files are loaded.
const betweenLoads = 20 * time.Millisecond

// loadsAgain loads a file again and again, as if it had changed.
func loadsAgain(name string, wasm func(b *testing.B) []byte) func(b *testing.B, s *Sandbox) func(context.Context) {
	return func(b *testing.B, s *Sandbox) func(context.Context) {
		file := wasm(b)
		return func(ctx context.Context) {
			pause := time.NewTicker(betweenLoads)
			defer pause.Stop()
			for ctx.Err() == nil {
				<-pause.C
				var stamp tck.Module
				stamp.Custom("again", binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano())))
				again := append(slices.Clip(file), stamp.Bytes()[8:]...)
				if g, err := s.Load(ctx, Plugin{Name: name, Wasm: again}); err == nil {
					closeGuest(b, g)
				}
			}
		}
	}
}

// liveHeap is the heap of a host with some ten thousand objects in its cache.
const liveHeap = 200_000 // objects of 1 KiB

func collectsGarbage(*testing.B, *Sandbox) func(context.Context) {
	live := make([]*[128]*byte, liveHeap)
	for i := range live {
		live[i] = new([128]*byte)
	}
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			runtime.GC()
		}
		runtime.KeepAlive(live)
	}
}

func both(one, other func(b *testing.B, s *Sandbox) func(context.Context)) func(b *testing.B, s *Sandbox) func(context.Context) {
	return func(b *testing.B, s *Sandbox) func(context.Context) {
		first, second := one(b, s), other(b, s)
		return func(ctx context.Context) {
			var all sync.WaitGroup
			all.Go(func() { first(ctx) })
			all.Go(func() { second(ctx) })
			all.Wait()
		}
	}
}

// logged is the host of the kit with a log that is written, as a real host's is.
type logged struct{ logger hclog.Logger }

func (logged) Get(_ context.Context, call ReadCall) (Reply, int64) {
	return answer(tck.Get(call.Message))
}

func (logged) List(_ context.Context, call ReadCall) (Reply, int64) {
	return answer(tck.List(call.Message))
}

func (logged) Import(_ context.Context, name string, call ReadCall) (Reply, int64) {
	return answer(tck.Import(name, call.Message))
}

func (l logged) Log(_ int32, message []byte) { l.logger.Info(string(message)) }

// fileLogger writes JSON to a file that keeps nothing.
func fileLogger(b *testing.B) hclog.Logger {
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = nowhere.Close() })
	return hclog.New(&hclog.LoggerOptions{Output: io.Writer(nowhere), JSONFormat: true})
}

// pauses is a histogram of how long the garbage collector waited for the goroutines
// to stop, in seconds.
type pauses struct {
	limits []float64
	counts []uint64
}

func readPauses() pauses {
	sample := []metrics.Sample{{Name: "/sched/pauses/stopping/gc:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	return pauses{limits: h.Buckets[1:], counts: h.Counts}
}

// add adds the pauses between two readings.
func (p *pauses) add(before, after pauses) {
	if p.counts == nil {
		p.limits, p.counts = after.limits, make([]uint64, len(after.counts))
	}
	for i := range p.counts {
		p.counts[i] += after.counts[i] - before.counts[i]
	}
}

func (p *pauses) report(b *testing.B) {
	for i, n := range slices.Backward(p.counts) {
		if n > 0 {
			b.ReportMetric(p.limits[i]*1e6, "pause-max-µs")
			return
		}
	}
}
