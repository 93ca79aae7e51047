package cloudevents

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/telemetry"
)

// metrics are the metrics of the events that the host publishes.
type metrics struct {
	published *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	failures  *prometheus.CounterVec
	buffered  *prometheus.GaugeVec
}

func newMetrics(m *telemetry.Metrics) metrics {
	return metrics{
		published: m.Counter("thole_cloudevents_published_total",
			"CloudEvents that a sink has taken.", "plugin", "sink"),
		dropped: m.Counter("thole_cloudevents_dropped_total",
			"CloudEvents that a sink does not get: its buffer was full, it refused them, the policy has it no more (removed), or the plugin has stopped.", "plugin", "sink", "reason"),
		failures: m.Counter("thole_cloudevents_failures_total",
			"Requests to a sink that have failed and are sent again.", "plugin", "sink"),
		buffered: m.Gauge("thole_cloudevents_buffered",
			"CloudEvents that wait for a sink; at 30,000, or 16 MiB, new ones are dropped.", "plugin", "sink"),
	}
}

// sinkMetrics are the instruments of one sink. They may be used after the plugin has stopped: an
// event that is sent late does not create series.
type sinkMetrics struct {
	published, failures prometheus.Counter
	buffered            prometheus.Gauge
	dropped             map[string]prometheus.Counter
}

// of returns the instruments of a sink, and creates its series for the reasons why events are dropped.
func (m *metrics) of(plugin, sink string) *sinkMetrics {
	s := &sinkMetrics{
		published: m.published.WithLabelValues(plugin, sink),
		failures:  m.failures.WithLabelValues(plugin, sink),
		buffered:  m.buffered.WithLabelValues(plugin, sink),
		dropped:   map[string]prometheus.Counter{},
	}
	for _, reason := range []string{dropFull, dropRefused, dropRemoved, dropStopped} {
		s.dropped[reason] = m.dropped.WithLabelValues(plugin, sink, reason)
	}
	return s
}

// Published implements [Metrics].
func (s *sinkMetrics) Published(n int) { s.published.Add(float64(n)) }

// Dropped implements [Metrics].
func (s *sinkMetrics) Dropped(reason string, n int) { s.dropped[reason].Add(float64(n)) }

// Buffered implements [Metrics].
func (s *sinkMetrics) Buffered(n int) { s.buffered.Set(float64(n)) }

// Failed implements [Metrics].
func (s *sinkMetrics) Failed() { s.failures.Inc() }
