package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scanMetrics are the metrics of scans.
type scanMetrics struct {
	scans    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	objects  *prometheus.GaugeVec
	ignored  *prometheus.CounterVec
	interval *prometheus.GaugeVec
	running  *prometheus.GaugeVec
}

// The values of the label result of thole_scans_total.
const (
	scanSuccess = "success"
	scanFailed  = "failed"
)

func (m *Metrics) addScanMetrics() {
	m.scans = scanMetrics{
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

// ScanMetrics are the instruments of one scan. They may be used after [Metrics.ScanStopped]: a scan that
// ends late creates no series.
type ScanMetrics struct {
	success, failed, ignored   prometheus.Counter
	duration                   prometheus.Observer
	objects, interval, running prometheus.Gauge
}

// Scan returns the instruments of a scan, and creates its series.
func (m *Metrics) Scan(plugin, controller, scan string, interval time.Duration) *ScanMetrics {
	s := &ScanMetrics{
		success:  m.scans.scans.WithLabelValues(plugin, controller, scan, scanSuccess),
		failed:   m.scans.scans.WithLabelValues(plugin, controller, scan, scanFailed),
		ignored:  m.scans.ignored.WithLabelValues(plugin, controller, scan),
		duration: m.scans.duration.WithLabelValues(plugin, controller, scan),
		objects:  m.scans.objects.WithLabelValues(plugin, controller, scan),
		interval: m.scans.interval.WithLabelValues(plugin, controller, scan),
		running:  m.scans.running.WithLabelValues(plugin, controller, scan),
	}
	s.interval.Set(interval.Seconds())
	return s
}

// ScanStopped removes the series of a scan.
func (m *Metrics) ScanStopped(plugin, controller, scan string) {
	labels := prometheus.Labels{"plugin": plugin, "controller": controller, "scan": scan}
	for _, v := range []vec{m.scans.scans, m.scans.duration, m.scans.objects, m.scans.ignored, m.scans.interval, m.scans.running} {
		v.DeletePartialMatch(labels)
	}
}

// Started counts the scan as running until the returned function is called.
func (s *ScanMetrics) Started() (ended func()) {
	s.running.Inc()
	return s.running.Dec
}

// Succeeded counts a scan that has made so many objects due, and has named some that its controller does
// not follow.
func (s *ScanMetrics) Succeeded(objects, ignored int, seconds float64) {
	s.success.Inc()
	s.ignored.Add(float64(ignored))
	s.objects.Set(float64(objects))
	s.duration.Observe(seconds)
}

// Failed counts a scan that has failed.
func (s *ScanMetrics) Failed(seconds float64) {
	s.failed.Inc()
	s.duration.Observe(seconds)
}

// Idle forgets what the last scan has found: another replica scans.
func (s *ScanMetrics) Idle() { s.objects.Set(0) }
