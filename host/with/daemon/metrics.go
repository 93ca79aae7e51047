package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/telemetry"
)

// metrics are those of the daemons of a host.
type metrics struct {
	running *prometheus.GaugeVec
	steps   *prometheus.CounterVec
}

// Values of the label result.
const (
	resultSuccess = "success"
	resultFailed  = "error"
)

func newMetrics(m *telemetry.Metrics) metrics {
	return metrics{
		running: m.Gauge("thole_daemons", "Daemons of the plugin that run: each takes up to daemon.stateKiB of its policy.", "plugin"),
		steps:   m.Counter("thole_daemon_steps_total", "Steps of the daemons of objects, by result. One that could not be made, or not read what it needs, is made again and does not count.", "plugin", "controller", "result"),
	}
}

// begin creates the series of a controller with daemons, and removes those of one without.
func (m *metrics) begin(plugin string, rev *dispatch.Revision) {
	if rev.Controller.Section(contract.Name) == nil {
		m.steps.DeletePartialMatch(prometheus.Labels{"plugin": plugin, "controller": rev.Controller.Name})
		return
	}
	m.running.WithLabelValues(plugin)
	m.steps.WithLabelValues(plugin, rev.Controller.Name, resultSuccess)
	m.steps.WithLabelValues(plugin, rev.Controller.Name, resultFailed)
}

func (m *metrics) stepped(plugin, controller string, failed bool) {
	result := resultSuccess
	if failed {
		result = resultFailed
	}
	m.steps.WithLabelValues(plugin, controller, result).Inc()
}
