package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestMemoryIsAskedForAtEachScrape(t *testing.T) {
	m := NewMetrics()
	s := MemoryStats{LimitBytes: 1000}
	m.ObserveMemory(func() MemoryStats { return s })
	s.UsedBytes, s.Refused = 10, 2
	err := testutil.GatherAndCompare(m.Registry, strings.NewReader(`
# HELP thole_guest_memory_bytes Memory that the instances and images of all plugins have.
# TYPE thole_guest_memory_bytes gauge
thole_guest_memory_bytes 10
# HELP thole_guest_memory_limit_bytes Memory that the instances and images of all plugins may have together.
# TYPE thole_guest_memory_limit_bytes gauge
thole_guest_memory_limit_bytes 1000
# HELP thole_guest_memory_refusals_total Growths and new instances that were refused because all plugins together had what they may have.
# TYPE thole_guest_memory_refusals_total counter
thole_guest_memory_refusals_total 2
`), "thole_guest_memory_bytes", "thole_guest_memory_limit_bytes", "thole_guest_memory_refusals_total")
	if err != nil {
		t.Error(err)
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("names: %+v, %v", problems, err)
	}
}
