package http

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/with/http/egress"
)

// metrics are the metrics of requests.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(m *telemetry.Metrics) metrics {
	return metrics{
		requests: m.Counter("thole_http_requests_total",
			"HTTP requests of plugins, by the host of the policy's entry (empty if none allows the request) and the status of the answer, or why there is none.", "plugin", "host", "code"),
		duration: m.Histogram("thole_http_request_duration_seconds",
			"Duration of an HTTP request of a plugin, with its redirects and the time that it waited for the plugin's limits.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "plugin", "host"),
	}
}

// of returns what observes the requests of a plugin, and creates its series: for the hosts of its policy an answer
// and the codes of calls without one.
func (m metrics) of(plugin string, entries egress.Entries) func(host, code string, took time.Duration) {
	m.duration.WithLabelValues(plugin, "")
	for _, e := range entries {
		m.duration.WithLabelValues(plugin, e.Host)
		for _, code := range append([]string{"200"}, egress.Codes()...) {
			m.requests.WithLabelValues(plugin, e.Host, code)
		}
	}
	return func(host, code string, took time.Duration) {
		m.requests.WithLabelValues(plugin, host, code).Inc()
		m.duration.WithLabelValues(plugin, host).Observe(took.Seconds())
	}
}
