package telemetry

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/abi"
)

// ReceiveMetrics counts events from outside.
type ReceiveMetrics struct{ events *prometheus.CounterVec }

func (m *Metrics) addReceiveMetrics() {
	m.received.events = m.Counter("thole_events_received_total",
		"Events from outside by the HTTP status of the answer: 202 for those that are queued. A request that is refused counts as one, without a plugin if that is not known.", "plugin", "code")
}

// Received returns the instruments, and creates the series of requests that are refused.
func (m *Metrics) Received(codes []int) ReceiveMetrics {
	for _, code := range codes {
		if code >= 400 {
			m.received.events.WithLabelValues("", strconv.Itoa(code))
		}
	}
	return m.received
}

// create creates the series of a plugin that receives events.
func (r ReceiveMetrics) create(plugin string, controllers []abi.Controller) {
	if slices.ContainsFunc(controllers, func(c abi.Controller) bool { return len(c.Receives) > 0 }) {
		r.events.WithLabelValues(plugin, "202")
	}
}

// Received counts events of a plugin, "" if it is not known, that were answered with a status.
func (r ReceiveMetrics) Received(plugin string, code, events int) {
	r.events.WithLabelValues(plugin, strconv.Itoa(code)).Add(float64(events))
}
