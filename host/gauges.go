package host

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/runner"
)

// collectGauges collects the gauges of plugins.
func collectGauges(ch chan<- prometheus.Metric, gauges []runner.Gauge) {
	for _, g := range gauges {
		for value, n := range g.ByValue {
			gauge(ch, "thole_objects", "Primaries of the controller by the value of a field: empty for those without one, other for those beyond 32 values. Only from the replica that leads the plugin.",
				n, prometheus.Labels{"plugin": g.Plugin, "controller": g.Controller, "field": g.Field, "value": value})
		}
	}
}
