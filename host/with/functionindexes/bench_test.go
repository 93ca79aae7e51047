package functionindexes

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// BenchmarkIndex has pods of 5 to each parent in the index of the plugin kopfexample, compiled
// by TinyGo. It reports how long the index takes to be built and the heap of each entry, and
// then the time of a lookup and that from the change of a pod to the wake-up of who has looked
// its parent up, which both are not to depend on the number of pods.
func BenchmarkIndex(b *testing.B) {
	for _, pods := range []int{200, 2_000, 20_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) { benchmarkIndex(b, pods) })
	}
}

func benchmarkIndex(b *testing.B, pods int) {
	const perParent = 5
	timers := sandbox.Capability{Name: "timers", Check: func(*abi.Controller, []byte) error { return nil }}
	s, err := sandbox.New(b.Context(), sandbox.Config{Capabilities: append(with.List{Capability()}.Modules(), timers)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(context.Background())
	g, err := s.Load(b.Context(), sandbox.Plugin{
		Name: "kopfexample", Wasm: wasmbuild.Build(b, wasmbuild.TinyGo, "plugins/kopfexample"),
	})
	if err != nil {
		b.Fatal(err)
	}
	w := newWorld(b)
	put := func(i, parent int) {
		name := fmt.Sprintf("pod-%06d", i)
		o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":%q,"uid":%q,"resourceVersion":"%d-%d","labels":{"parent-kex":"kex-%d"}},"spec":{"containers":[{"name":"main","image":"nginx"}]}}`,
			name, name, i, parent, parent), pod)
		if err != nil {
			b.Fatal(err)
		}
		w.pods.Put(o)
	}
	for i := range pods {
		put(i, i/perParent)
	}
	had := heapInUse()
	began := time.Now()
	w.index, err = start(config{
		plugin: "kopfexample", name: "kex-pods", guest: g, objects: w.pods.Informer(), logger: hclog.NewNullLogger(),
		failed: func(_ *object.Object, err error) { b.Error(err) },
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	last := fmt.Sprintf("kex-%d", (pods-1)/perParent)
	if err := w.index.entries.Informer().WaitForSync(b.Context()); err != nil {
		b.Fatal(err)
	}
	build := time.Since(began)
	entries := float64(heapInUse()-had) / float64(pods)
	var lookups, wakes time.Duration
	n := 0
	for b.Loop() {
		began = time.Now()
		found, err := w.read("reader", "", last)
		lookups += time.Since(began)
		if err != nil || len(found) < perParent-1 {
			b.Fatal(found, err)
		}
		w.note(func() { w.woken = nil })
		began = time.Now()
		put(pods-1, (pods-1)/perParent-(n+1)%2) // away and back
		for woken := false; !woken; runtime.Gosched() {
			w.note(func() { woken = len(w.woken) > 0 })
		}
		wakes += time.Since(began)
		n++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(build.Microseconds())/1000, "build-ms")
	b.ReportMetric(entries, "B/entry")
	b.ReportMetric(float64(lookups.Nanoseconds())/float64(n)/1000, "µs/lookup")
	b.ReportMetric(float64(wakes.Nanoseconds())/float64(n)/1000, "µs/wake-up")
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
