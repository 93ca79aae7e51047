package telemetry

import "github.com/prometheus/client_golang/prometheus"

// cloudEventMetrics are the metrics of the CloudEvents that the host publishes.
type cloudEventMetrics struct {
	published *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	failures  *prometheus.CounterVec
	buffered  *prometheus.GaugeVec
}

func (m *Metrics) addCloudEventMetrics() {
	m.cloudEvents = cloudEventMetrics{
		published: m.counter("thole_cloudevents_published_total",
			"CloudEvents that a sink has taken.", "plugin", "sink"),
		dropped: m.counter("thole_cloudevents_dropped_total",
			"CloudEvents that a sink does not get: its buffer was full, it refused them, the policy has it no more (removed), or the plugin has stopped.", "plugin", "sink", "reason"),
		failures: m.counter("thole_cloudevents_failures_total",
			"Requests to a sink that have failed and are sent again.", "plugin", "sink"),
		buffered: m.gauge("thole_cloudevents_buffered",
			"CloudEvents that wait for a sink; at 30,000, or 16 MiB, new ones are dropped.", "plugin", "sink"),
	}
}

// CloudEventMetrics are the instruments of one sink. They may be used after the plugin has stopped: an
// event that is sent late does not create series.
type CloudEventMetrics struct {
	published, failures prometheus.Counter
	buffered            prometheus.Gauge
	dropped             map[string]prometheus.Counter
}

// CloudEvents returns the instruments of a sink, and creates its series for the reasons why events are
// dropped.
func (m *Metrics) CloudEvents(plugin, sink string, reasons []string) *CloudEventMetrics {
	of := &m.cloudEvents
	c := &CloudEventMetrics{
		published: of.published.WithLabelValues(plugin, sink),
		failures:  of.failures.WithLabelValues(plugin, sink),
		buffered:  of.buffered.WithLabelValues(plugin, sink),
		dropped:   map[string]prometheus.Counter{},
	}
	for _, reason := range reasons {
		c.dropped[reason] = of.dropped.WithLabelValues(plugin, sink, reason)
	}
	return c
}

// Published counts events that the sink has taken.
func (c *CloudEventMetrics) Published(n int) { c.published.Add(float64(n)) }

// Dropped counts events that the sink does not get.
func (c *CloudEventMetrics) Dropped(reason string, n int) { c.dropped[reason].Add(float64(n)) }

// Buffered sets how many events wait.
func (c *CloudEventMetrics) Buffered(n int) { c.buffered.Set(float64(n)) }

// Failed counts a request that is sent again.
func (c *CloudEventMetrics) Failed() { c.failures.Inc() }
