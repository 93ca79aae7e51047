package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestSeriesOfAPluginExistAtZeroAndGoWithIt(t *testing.T) {
	m := NewMetrics()
	p := m.Plugin("p")
	for _, name := range []string{"thole_sandbox_slot_wait_seconds", "thole_sandbox_slot_handovers_total", "thole_write_wait_seconds"} {
		if n, err := testutil.GatherAndCount(m.Registry, name); n != 1 || err != nil {
			t.Errorf("%d series of %s, %v", n, name, err)
		}
	}
	if n := testutil.CollectAndCount(m.plugins.limitHits); n != len(Limits()) {
		t.Errorf("%d series of limits, want %d", n, len(Limits()))
	}
	m.PluginStopped("p")
	p.Limited("fuel") // by a call that ends late
	p.HandedOver()
	p.Waited(time.Second)
	p.WriteWaited(time.Second)
	for _, c := range m.plugins.collectors() {
		if n := testutil.CollectAndCount(c); n != 0 {
			t.Errorf("%d series are left", n)
		}
	}
}

func TestLimitsAreCountedPerPlugin(t *testing.T) {
	m := NewMetrics()
	p := m.Plugin("p")
	m.Plugin("q")
	p.Limited("fuel")
	p.WriteWaited(10 * time.Microsecond) // there was room
	p.WriteWaited(2 * time.Second)
	m.Controller("p/c", 1).Limited("intents")
	err := testutil.GatherAndCompare(m.Registry, strings.NewReader(`
# HELP thole_plugin_limit_hits_total Times that a limit of the plugin ended or bounded what it did.
# TYPE thole_plugin_limit_hits_total counter
`+series("p", map[string]string{"fuel": "1", "writes": "1", "intents": "1"})+series("q", nil)), "thole_plugin_limit_hits_total")
	if err != nil {
		t.Error(err)
	}
}

func series(plugin string, counts map[string]string) string {
	var out strings.Builder
	for _, limit := range Limits() {
		count := counts[limit]
		if count == "" {
			count = "0"
		}
		out.WriteString(`thole_plugin_limit_hits_total{limit="` + limit + `",plugin="` + plugin + `"} ` + count + "\n")
	}
	return out.String()
}

func TestSlotsAreAskedForAtEachScrape(t *testing.T) {
	m := NewMetrics()
	now := SlotStats{Slots: 2}
	m.ObserveSlots(func() SlotStats { return now })
	now.InUse, now.Waiting = 1, 3
	err := testutil.GatherAndCompare(m.Registry, strings.NewReader(`
# HELP thole_sandbox_slot_waiting_calls Guest calls that wait for an execution slot, to begin or to go on.
# TYPE thole_sandbox_slot_waiting_calls gauge
thole_sandbox_slot_waiting_calls 3
# HELP thole_sandbox_slots_in_use Guest calls that run now.
# TYPE thole_sandbox_slots_in_use gauge
thole_sandbox_slots_in_use 1
`), "thole_sandbox_slots_in_use", "thole_sandbox_slot_waiting_calls")
	if err != nil {
		t.Error(err)
	}
}

// TestAPluginThatIsGoneHasNoSeries: a directory through which many pass would
// fill the memory with them.
func TestAPluginThatIsGoneHasNoSeries(t *testing.T) {
	m := NewMetrics()
	m.Plugin("p")
	m.PluginStarted("p", "1", "abc")
	m.PluginFailed("p", "parse")
	m.PluginRolledBack("p")
	m.PluginStopped("p")
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == "plugin" {
					t.Errorf("%s still has %s", family.GetName(), series)
				}
			}
		}
	}
}
