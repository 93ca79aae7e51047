package telemetry_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/telemetry"
)

// scanSeries returns the series of scans, with their values.
func scanSeries(t *testing.T, m *telemetry.Metrics) map[string]float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "thole_scan") {
			continue
		}
		for _, one := range f.GetMetric() {
			labels := ""
			for _, l := range one.GetLabel() {
				if l.GetName() != "plugin" && l.GetName() != "controller" {
					labels += " " + l.GetValue()
				}
			}
			series[f.GetName()+labels] = one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return series
}

func expectScans(t *testing.T, m *telemetry.Metrics, want map[string]float64) {
	t.Helper()
	if got := scanSeries(t, m); !maps.Equal(got, want) {
		t.Errorf("series %v, want %v", got, want)
	}
}

func TestSeriesOfAScanExistFromItsStartToItsEnd(t *testing.T) {
	m := telemetry.NewMetrics()
	due := m.Scan("p", "c", "due", 30*time.Second)
	want := map[string]float64{
		"thole_scans_total success due": 0, "thole_scans_total failed due": 0, "thole_scan_duration_seconds due": 0, "thole_scan_objects due": 0,
		"thole_scan_ignored_objects_total due": 0, "thole_scan_interval_seconds due": 30, "thole_scan_running due": 0,
	}
	set := func(values map[string]float64) { maps.Copy(want, values) }
	expectScans(t, m, want)
	ended := due.Started()
	set(map[string]float64{"thole_scan_running due": 1})
	expectScans(t, m, want)
	ended()
	due.Succeeded(5, 2, 0.1)
	due.Failed(0.1)
	set(map[string]float64{
		"thole_scan_running due": 0, "thole_scans_total success due": 1, "thole_scans_total failed due": 1,
		"thole_scan_objects due": 5, "thole_scan_ignored_objects_total due": 2, "thole_scan_duration_seconds due": 2,
	})
	expectScans(t, m, want)
	due.Idle()
	set(map[string]float64{"thole_scan_objects due": 0})
	expectScans(t, m, want)

	m.Scan("p", "c", "cleanup", time.Second)
	m.ScanStopped("p", "c", "due")
	due.Succeeded(1, 1, 1) // ends late
	due.Started()
	for series := range scanSeries(t, m) {
		if strings.HasSuffix(series, " due") {
			t.Errorf("there is still %s", series)
		}
	}
	m.CountEvents().Observe(events.PluginStopped{Plugin: "p"})
	expectScans(t, m, map[string]float64{})
}
