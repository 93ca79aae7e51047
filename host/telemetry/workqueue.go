package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// workQueueMetrics are the workqueue_* series as Kubernetes components have
// them: names, help and buckets follow k8s.io/component-base.
type workQueueMetrics struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, duration          *prometheus.HistogramVec
}

func newWorkQueueMetrics() workQueueMetrics {
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(10e-9, 10, 12),
		}, []string{"name"})
	}
	return workQueueMetrics{
		depth:      gauge("workqueue_depth", "Keys that wait in the queue.", "name"),
		unfinished: gauge("workqueue_unfinished_work_seconds", "Sum of the time that running keys have run so far.", "name"),
		longest:    gauge("workqueue_longest_running_processor_seconds", "Time that the longest running key has run.", "name"),
		adds:       counter("workqueue_adds_total", "Keys added to the queue.", "name"),
		retries:    counter("workqueue_retries_total", "Keys that come again after a failure.", "name"),
		latency:    histogram("workqueue_queue_duration_seconds", "Time that a key waited before it ran."),
		duration:   histogram("workqueue_work_duration_seconds", "Time that a key ran."),
	}
}

func (q *workQueueMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{q.depth, q.unfinished, q.longest, q.adds, q.retries, q.latency, q.duration}
}

// WorkQueues returns the provider that work queues report to.
func (m *Metrics) WorkQueues() workqueue.MetricsProvider { return workQueueProvider{&m.queues} }

type workQueueProvider struct{ q *workQueueMetrics }

func (p workQueueProvider) NewDepthMetric(name string) workqueue.GaugeMetric {
	return p.q.depth.WithLabelValues(name)
}

func (p workQueueProvider) NewAddsMetric(name string) workqueue.CounterMetric {
	return p.q.adds.WithLabelValues(name)
}

func (p workQueueProvider) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return p.q.latency.WithLabelValues(name)
}

func (p workQueueProvider) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return p.q.duration.WithLabelValues(name)
}

func (p workQueueProvider) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return p.q.unfinished.WithLabelValues(name)
}

func (p workQueueProvider) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return p.q.longest.WithLabelValues(name)
}

func (p workQueueProvider) NewRetriesMetric(name string) workqueue.CounterMetric {
	return p.q.retries.WithLabelValues(name)
}

// QueueStopped removes the series of a queue that is gone.
func (m *Metrics) QueueStopped(name string) {
	labels := prometheus.Labels{"name": name}
	for _, v := range []*prometheus.GaugeVec{m.queues.depth, m.queues.unfinished, m.queues.longest} {
		v.DeletePartialMatch(labels)
	}
	for _, v := range []*prometheus.CounterVec{m.queues.adds, m.queues.retries} {
		v.DeletePartialMatch(labels)
	}
	for _, v := range []*prometheus.HistogramVec{m.queues.latency, m.queues.duration} {
		v.DeletePartialMatch(labels)
	}
}
