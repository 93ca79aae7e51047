package e2e

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/thole-dev/thole/host/internal/await"
)

// statusWatch reports when the status of a Replica reaches a number.
type statusWatch struct {
	tb     testing.TB
	events <-chan watch.Event
}

func watchStatus(tb testing.TB, ns, name string) statusWatch {
	tb.Helper()
	w, err := objects.Resource(replicas).Namespace(ns).Watch(tb.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	must(tb, err)
	tb.Cleanup(w.Stop)
	return statusWatch{tb, w.ResultChan()}
}

// until blocks until a number in the status is n.
func (w statusWatch) until(field string, n int) {
	w.tb.Helper()
	limit := time.After(await.Limit)
	for {
		select {
		case e := <-w.events:
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				w.tb.Fatalf("the watch ended: %v", e)
			}
			if have, _, _ := unstructured.NestedInt64(o.Object, "status", field); have == int64(n) {
				return
			}
		case <-limit:
			w.tb.Fatalf("status.%s is not %d after %s", field, n, await.Limit)
		}
	}
}

// latencies are the times of many steps.
type latencies []time.Duration

func (l latencies) report(b *testing.B, name string) {
	b.Helper()
	for _, q := range []struct {
		name string
		of   float64
	}{{"p50", .5}, {"p99", .99}, {"max", 1}} {
		b.ReportMetric(milliseconds(l.quantile(q.of)), name+"-"+q.name+"-ms")
	}
}

// quantile returns the time that a part of the steps did not exceed.
func (l latencies) quantile(of float64) time.Duration {
	sorted := slices.Sorted(slices.Values(l))
	return sorted[min(int(of*float64(len(sorted))), len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// BenchmarkRollout measures how soon the status shows each of 30 steps in 10 s: of
// children that become ready, and of a person who scales.
func BenchmarkRollout(b *testing.B) {
	defer b.ReportMetric(0, "ns/op")
	ns := namespace(b)
	startReplicas(b, ns)
	for b.Loop() {
		const many = 30
		name := fmt.Sprint("r", b.Elapsed().Milliseconds())
		createReplica(b, ns, name, many)
		status := watchStatus(b, ns, name)
		status.until("replicas", many)
		step := time.NewTicker(10 * time.Second / many)
		defer step.Stop()
		var ready, scaled latencies
		for i, child := range configMapsOf(b, ns, name) {
			<-step.C
			begin := time.Now()
			must(b, patch(b.Context(), configMaps, ns, child.GetName(), `{"metadata":{"annotations":{"ready":"1"}}}`))
			status.until("ready", i+1)
			ready = append(ready, time.Since(begin))
		}
		for i := range many {
			<-step.C
			begin := time.Now()
			must(b, patch(b.Context(), replicas, ns, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, many+i+1)))
			status.until("replicas", many+i+1)
			scaled = append(scaled, time.Since(begin))
		}
		ready.report(b, "ready")
		scaled.report(b, "scaled")
	}
}

// BenchmarkEdits edits one object as soon as its status shows the last edit, for 20 s.
func BenchmarkEdits(b *testing.B) {
	defer b.ReportMetric(0, "ns/op")
	ns := namespace(b)
	startReplicas(b, ns)
	createReplica(b, ns, "r", 1)
	status := watchStatus(b, ns, "r")
	status.until("replicas", 1)
	for b.Loop() {
		const duration = 20 * time.Second
		edits, begin := 0, time.Now()
		for ; time.Since(begin) < duration; edits++ {
			n := 2 - edits%2
			must(b, patch(b.Context(), replicas, ns, "r", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)))
			status.until("replicas", n)
		}
		b.ReportMetric(float64(edits)/duration.Seconds(), "edits/s")
	}
}

// BenchmarkFreshEdit measures how soon an edit is shown while one key fails under 100
// events a second, another exceeds its deadline in every run, and 10,000 objects come
// again at the same time.
func BenchmarkFreshEdit(b *testing.B) {
	defer b.ReportMetric(0, "ns/op")
	ns := namespace(b)
	startReplicas(b, ns)
	for name, flag := range map[string]string{"failing": "fails", "poison": "spins"} {
		must(b, tryCreate(b.Context(), replicas, "Replica", ns, name, map[string]any{flag: true}))
	}
	createReplica(b, ns, "fresh", 1)
	status := watchStatus(b, ns, "fresh")
	status.until("replicas", 1)
	var n atomic.Int64
	storm := time.NewTicker(10 * time.Millisecond)
	defer storm.Stop()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-storm.C:
				_ = patch(b.Context(), replicas, ns, "failing", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, n.Add(1)))
			}
		}
	}()
	for b.Loop() {
		var edits latencies
		for i := range 200 {
			begin := time.Now()
			want := 2 - i%2
			must(b, patch(b.Context(), replicas, ns, "fresh", fmt.Sprintf(`{"spec":{"replicas":%d}}`, want)))
			status.until("replicas", want)
			edits = append(edits, time.Since(begin))
		}
		edits.report(b, "edit")
	}
}
