package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
)

func (m *Metrics) addRequestMetrics() {
	m.requests = m.Counter("rest_client_requests_total",
		"Requests to the API server by status code, method and host.", "code", "method", "host")
	m.requestTime = m.Histogram("rest_client_request_duration_seconds",
		"Duration of requests to the API server by verb and host.",
		[]float64{.001, .005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60}, "verb", "host")
}

// Instrument makes the clients of config count their requests. Unlike the
// process-wide hooks of client-go it belongs to one host, so that two hosts in
// one process, as in tests, have metrics of their own.
func (m *Metrics) Instrument(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper{next: next, m: m}
	})
}

type roundTripper struct {
	next http.RoundTripper
	m    *Metrics
}

// RoundTrip implements http.RoundTripper. The duration of a watch is not
// observed.
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	response, err := t.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	t.m.requests.WithLabelValues(code, r.Method, r.URL.Host).Inc()
	if r.URL.Query().Get("watch") == "" {
		t.m.requestTime.WithLabelValues(r.Method, r.URL.Host).Observe(time.Since(start).Seconds())
	}
	return response, err
}

// WrappedRoundTripper returns the next transport, for client-go.
func (t roundTripper) WrappedRoundTripper() http.RoundTripper { return t.next }

// workQueueMetrics are the workqueue_* series of Kubernetes components. Names,
// labels and buckets are those of k8s.io/component-base.
type workQueueMetrics struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, duration          *prometheus.HistogramVec
}

func (m *Metrics) addWorkQueueMetrics() {
	buckets := prometheus.ExponentialBuckets(10e-9, 10, 12)
	m.queues = workQueueMetrics{
		depth:      m.Gauge("workqueue_depth", "Keys that wait in the queue.", "name"),
		unfinished: m.Gauge("workqueue_unfinished_work_seconds", "Sum of the time that running keys have run so far.", "name"),
		longest:    m.Gauge("workqueue_longest_running_processor_seconds", "Time that the longest running key has run.", "name"),
		adds:       m.Counter("workqueue_adds_total", "Keys added to the queue.", "name"),
		retries:    m.Counter("workqueue_retries_total", "Keys added again after a failure.", "name"),
		latency:    m.Histogram("workqueue_queue_duration_seconds", "Time that a key waited before it ran.", buckets, "name"),
		duration:   m.Histogram("workqueue_work_duration_seconds", "Time that a key ran.", buckets, "name"),
	}
}

// WorkQueues returns the provider of the metrics of work queues.
func (m *Metrics) WorkQueues() workqueue.MetricsProvider { return &m.queues }

// QueueStopped removes the series of a queue.
func (m *Metrics) QueueStopped(name string) { m.remove("name", name) }

// The following methods implement workqueue.MetricsProvider.

func (q *workQueueMetrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	return q.depth.WithLabelValues(name)
}

func (q *workQueueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return q.adds.WithLabelValues(name)
}

func (q *workQueueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return q.latency.WithLabelValues(name)
}

func (q *workQueueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return q.duration.WithLabelValues(name)
}

func (q *workQueueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.unfinished.WithLabelValues(name)
}

func (q *workQueueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.longest.WithLabelValues(name)
}

func (q *workQueueMetrics) NewRetriesMetric(name string) workqueue.CounterMetric {
	return q.retries.WithLabelValues(name)
}
