package queue_test

import (
	"maps"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/queue"
)

// meter keeps what a queue reports, by metric.
type meter struct {
	mu     sync.Mutex
	values map[string]float64
}

type metric struct {
	*meter
	name string
}

func (m metric) add(v float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[m.name] += v
}

func (m metric) Inc()              { m.add(1) }
func (m metric) Dec()              { m.add(-1) }
func (m metric) Observe(v float64) { m.add(v) }
func (m metric) Set(v float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[m.name] = v
}

func (m *meter) metric(queue, name string) metric { return metric{m, queue + " " + name} }

func (m *meter) NewDepthMetric(n string) workqueue.GaugeMetric { return m.metric(n, "depth") }
func (m *meter) NewAddsMetric(n string) workqueue.CounterMetric {
	return m.metric(n, "adds")
}

func (m *meter) NewLatencyMetric(n string) workqueue.HistogramMetric {
	return m.metric(n, "latency")
}

func (m *meter) NewWorkDurationMetric(n string) workqueue.HistogramMetric {
	return m.metric(n, "work")
}

func (m *meter) NewUnfinishedWorkSecondsMetric(n string) workqueue.SettableGaugeMetric {
	return m.metric(n, "unfinished")
}

func (m *meter) NewLongestRunningProcessorSecondsMetric(n string) workqueue.SettableGaugeMetric {
	return m.metric(n, "longest")
}

func (m *meter) NewRetriesMetric(n string) workqueue.CounterMetric {
	return m.metric(n, "retries")
}

func (m *meter) expect(t *testing.T, want map[string]float64) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.values, want) {
		t.Errorf("reported\n%v\nwant\n%v", m.values, want)
	}
}

func TestMetricsFollowTheKeys(t *testing.T) {
	m := &meter{values: map[string]float64{}}
	scenario(t, queue.Config{Name: "podmanager", MetricsProvider: m}, func(w *world) {
		w.add("a", abi.ReasonPrimary, abi.ReasonRequest)
		w.add("b", abi.ReasonPrimary)
		w.advance(time.Second)
		w.expectRun("a", abi.ReasonPrimary, abi.ReasonRequest)
		w.advance(3 * time.Second)
		m.expect(t, map[string]float64{
			"podmanager adds": 2, "podmanager depth": 1, "podmanager latency": 1,
			"podmanager unfinished": 3, "podmanager longest": 3,
		})
		w.done("a", backoff(time.Hour))
		w.run("b", after(time.Hour), abi.ReasonPrimary)
		w.advance(time.Second)
		m.expect(t, map[string]float64{
			"podmanager adds": 2, "podmanager depth": 0, "podmanager latency": 5, "podmanager work": 3,
			"podmanager unfinished": 0, "podmanager longest": 0, "podmanager retries": 1,
		})
	})
}
