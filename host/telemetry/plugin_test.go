package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/thole-dev/thole/host/events"
)

func TestSeriesOfAPluginExistAtZeroUntilItStops(t *testing.T) {
	m := NewMetrics("fuel")
	p := m.Plugin("p")
	for name, want := range map[string]int{
		"thole_sandbox_slot_wait_seconds": 1, "thole_sandbox_slot_handovers_total": 1, "thole_write_wait_seconds": 1,
		"thole_plugin_limit_hits_total": len([]string{"fuel", "intents", "reads", "indexes", "writes", "events", "stored", "churn"}),
	} {
		if n, err := testutil.GatherAndCount(m.Registry, name); n != want || err != nil {
			t.Errorf("%d series of %s, want %d, %v", n, name, want, err)
		}
	}
	m.countEvent(events.PluginStopped{Plugin: "p"})
	p.Limited("fuel") // by a call that ends late
	p.HandedOver()
	p.Waited(time.Second)
	p.WriteWaited(time.Second)
	for _, v := range m.byLabel["plugin"] {
		if n := testutil.CollectAndCount(v); n != 0 {
			t.Errorf("%d series remain", n)
		}
	}
}

func TestLimitHitsAreCountedPerPlugin(t *testing.T) {
	m := NewMetrics("fuel", "log")
	p := m.Plugin("p")
	m.Plugin("q")
	p.Limited("fuel")
	p.WriteWaited(0) // not limited
	p.WriteWaited(2 * time.Second)
	m.Controller("p/c", 1).Limited("intents")
	err := testutil.GatherAndCompare(m.Registry, strings.NewReader(`
# HELP thole_plugin_limit_hits_total Times that a limit of the plugin was hit.
# TYPE thole_plugin_limit_hits_total counter
thole_plugin_limit_hits_total{limit="churn",plugin="p"} 0
thole_plugin_limit_hits_total{limit="churn",plugin="q"} 0
thole_plugin_limit_hits_total{limit="events",plugin="p"} 0
thole_plugin_limit_hits_total{limit="events",plugin="q"} 0
thole_plugin_limit_hits_total{limit="fuel",plugin="p"} 1
thole_plugin_limit_hits_total{limit="fuel",plugin="q"} 0
thole_plugin_limit_hits_total{limit="indexes",plugin="p"} 0
thole_plugin_limit_hits_total{limit="indexes",plugin="q"} 0
thole_plugin_limit_hits_total{limit="intents",plugin="p"} 1
thole_plugin_limit_hits_total{limit="intents",plugin="q"} 0
thole_plugin_limit_hits_total{limit="log",plugin="p"} 0
thole_plugin_limit_hits_total{limit="log",plugin="q"} 0
thole_plugin_limit_hits_total{limit="reads",plugin="p"} 0
thole_plugin_limit_hits_total{limit="reads",plugin="q"} 0
thole_plugin_limit_hits_total{limit="stored",plugin="p"} 0
thole_plugin_limit_hits_total{limit="stored",plugin="q"} 0
thole_plugin_limit_hits_total{limit="writes",plugin="p"} 1
thole_plugin_limit_hits_total{limit="writes",plugin="q"} 0
`), "thole_plugin_limit_hits_total")
	if err != nil {
		t.Error(err)
	}
}

// TestStoppedPluginHasNoSeries covers directories through which many plugins
// pass: their series would fill the memory.
func TestStoppedPluginHasNoSeries(t *testing.T) {
	m := NewMetrics("fuel")
	m.Plugin("p")
	m.countEvent(events.PluginStarted{Revision: events.Revision{Plugin: "p", Version: "1", Digest: "abc"}})
	m.countEvent(events.PluginRefused{Plugin: "p", Step: "parse"})
	m.countEvent(events.PluginRolledBack{From: events.Revision{Plugin: "p"}})
	m.countEvent(events.PluginStopped{Plugin: "p"})
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
