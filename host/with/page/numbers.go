package page

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Numbers are some metrics of a controller, with the values that /metrics has.
type Numbers struct {
	Queued  int     // workqueue_depth
	Active  int     // controller_runtime_active_workers
	Workers int     // controller_runtime_max_concurrent_reconciles
	Runs    float64 // controller_runtime_reconcile_total, of every result
	Errors  float64 // controller_runtime_reconcile_errors_total
	Seconds float64 // controller_runtime_reconcile_time_seconds_sum
}

// numbersOf returns those of each controller that runs, by plugin/controller.
func numbersOf(metrics prometheus.Gatherer) (map[string]Numbers, error) {
	families, err := metrics.Gather()
	if err != nil {
		return nil, fmt.Errorf("collect the metrics of controllers: %w", err)
	}
	all := map[string]Numbers{}
	for _, family := range families {
		for _, metric := range family.Metric {
			labels := labelsOf(metric)
			name := labels["controller"] + labels["name"] // it has one of them
			n := all[name]
			n.add(family.GetName(), metric)
			all[name] = n
		}
	}
	return all, nil
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range metric.Label {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// add adds one series to the numbers.
func (n *Numbers) add(family string, metric *dto.Metric) {
	switch family {
	case "workqueue_depth":
		n.Queued = int(metric.GetGauge().GetValue())
	case "controller_runtime_active_workers":
		n.Active = int(metric.GetGauge().GetValue())
	case "controller_runtime_max_concurrent_reconciles":
		n.Workers = int(metric.GetGauge().GetValue())
	case "controller_runtime_reconcile_time_seconds":
		n.Seconds = metric.GetHistogram().GetSampleSum()
	case "controller_runtime_reconcile_total":
		n.Runs += metric.GetCounter().GetValue()
	case "controller_runtime_reconcile_errors_total":
		n.Errors = metric.GetCounter().GetValue()
	}
}
