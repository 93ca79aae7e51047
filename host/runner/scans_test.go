package runner

import (
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
)

// scanSeries returns the scans that have series of a metric, in order.
func scanSeries(t *testing.T, m *telemetry.Metrics, name string) (scans []string) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			for _, l := range one.GetLabel() {
				if f.GetName() == name && l.GetName() == "scan" {
					scans = append(scans, l.GetValue())
				}
			}
		}
	}
	slices.Sort(scans)
	return slices.Compact(scans)
}

// A scan that another revision does not have leaves no series behind, and one that it has keeps its own.
func TestTheSeriesOfScansAreThoseOfTheRunningRevision(t *testing.T) {
	r := &Runner{Config: Config{Metrics: telemetry.NewMetrics()}}
	rev := &catalog.Revision[*sandbox.Guest]{Revision: events.Revision{Plugin: "p"}}
	expect := func(want ...string) {
		t.Helper()
		for _, name := range []string{"thole_scans_total", "thole_scan_interval_seconds", "thole_scan_running"} {
			if got := scanSeries(t, r.Metrics, name); !slices.Equal(got, want) {
				t.Errorf("%s: there are %s, want %s", name, strings.Join(got, ", "), strings.Join(want, ", "))
			}
		}
	}
	first := &abi.Controller{Name: "c", Scans: []abi.Scan{{Name: "due", Interval: 1}, {Name: "old", Interval: 2000}}}
	scans := r.scansOf(rev, first)
	expect("due", "old")
	if len(scans.Metrics) != 2 || scans.Metrics["due"] == nil {
		t.Fatalf("the scans are %+v", scans)
	}
	second := &abi.Controller{Name: "c", Scans: []abi.Scan{{Name: "due", Interval: 1}, {Name: "new", Interval: 2000}}}
	r.scansOf(rev, second)
	r.removeScans("p", first, second.Scans)
	expect("due", "new")
	scans.Metrics["old"].Failed(1) // it was in progress
	expect("due", "new")
	r.removeScans("p", second, nil)
	expect()
	if r.scansOf(rev, &abi.Controller{Name: "c"}) != nil {
		t.Error("a controller without scans has some")
	}
}
