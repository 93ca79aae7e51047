package scans

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/telemetry"
)

// metrics are the metrics of scans.
type metrics struct {
	scans    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	objects  *prometheus.GaugeVec
	ignored  *prometheus.CounterVec
	interval *prometheus.GaugeVec
	running  *prometheus.GaugeVec
}

// The values of the label result of thole_scans_total.
const (
	resultSuccess = "success"
	resultFailed  = "failed"
)

func newMetrics(m *telemetry.Metrics) metrics {
	return metrics{
		scans: m.Counter("thole_scans_total",
			"Scans of controllers by result. One that could not be made, or not read, is made again and does not count.", "plugin", "controller", "scan", "result"),
		duration: m.Histogram("thole_scan_duration_seconds",
			"Duration of a call of a scan, with all waits.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "plugin", "controller", "scan"),
		objects: m.Gauge("thole_scan_objects",
			"Objects that the last scan that has succeeded has made due; 0 where another replica leads the plugin.", "plugin", "controller", "scan"),
		ignored: m.Counter("thole_scan_ignored_objects_total",
			"Objects that scans have named and that their controller does not follow.", "plugin", "controller", "scan"),
		interval: m.Gauge("thole_scan_interval_seconds",
			"Time from the end of a scan to the next one, without jitter.", "plugin", "controller", "scan"),
		running: m.Gauge("thole_scan_running",
			"1 while the scan runs.", "plugin", "controller", "scan"),
	}
}

// scanMetrics are the instruments of one scan. They may be used after remove: a scan that ends late creates no
// series.
type scanMetrics struct {
	success, failed, ignored   prometheus.Counter
	duration                   prometheus.Observer
	objects, interval, running prometheus.Gauge
}

// of returns the instruments of a scan, and creates its series.
func (m *metrics) of(plugin, controller, scan string, interval time.Duration) *scanMetrics {
	s := &scanMetrics{
		success:  m.scans.WithLabelValues(plugin, controller, scan, resultSuccess),
		failed:   m.scans.WithLabelValues(plugin, controller, scan, resultFailed),
		ignored:  m.ignored.WithLabelValues(plugin, controller, scan),
		duration: m.duration.WithLabelValues(plugin, controller, scan),
		objects:  m.objects.WithLabelValues(plugin, controller, scan),
		interval: m.interval.WithLabelValues(plugin, controller, scan),
		running:  m.running.WithLabelValues(plugin, controller, scan),
	}
	s.interval.Set(interval.Seconds())
	return s
}

// remove removes the series of a scan.
func (m *metrics) remove(plugin, controller, scan string) {
	labels := prometheus.Labels{"plugin": plugin, "controller": controller, "scan": scan}
	for _, v := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{m.scans, m.duration, m.objects, m.ignored, m.interval, m.running} {
		v.DeletePartialMatch(labels)
	}
}

// started counts the scan as running until the returned function is called.
func (s *scanMetrics) started() (ended func()) {
	s.running.Inc()
	return s.running.Dec
}

// succeeded counts a scan that has made so many objects due, and has named some that its controller does
// not follow.
func (s *scanMetrics) succeeded(objects, ignored int, seconds float64) {
	s.success.Inc()
	s.ignored.Add(float64(ignored))
	s.objects.Set(float64(objects))
	s.duration.Observe(seconds)
}

// hasFailed counts a scan that has failed.
func (s *scanMetrics) hasFailed(seconds float64) {
	s.failed.Inc()
	s.duration.Observe(seconds)
}

// idle forgets what the last scan has found: another replica scans.
func (s *scanMetrics) idle() { s.objects.Set(0) }
