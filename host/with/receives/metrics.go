package receives

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/telemetry"
)

// metrics counts events from outside. It implements [Metrics].
type metrics struct{ events *prometheus.CounterVec }

// newMetrics registers the metrics, and creates the series of requests that are refused.
func newMetrics(m *telemetry.Metrics) metrics {
	all := metrics{m.Counter("thole_events_received_total",
		"Events from outside by the HTTP status of the answer: 202 for those that are queued. A request that is refused counts as one, without a plugin if that is not known.", "plugin", "code")}
	for _, code := range Codes() {
		if code >= 400 {
			all.Received("", code, 0)
		}
	}
	return all
}

// Received implements [Metrics].
func (m metrics) Received(plugin string, code, events int) {
	m.events.WithLabelValues(plugin, strconv.Itoa(code)).Add(float64(events))
}
