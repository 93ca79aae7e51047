package cloudevents

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/telemetry"
)

func TestEventsOfASinkAreCounted(t *testing.T) {
	host := telemetry.NewMetrics()
	m := newMetrics(host)
	s := m.of("p", "s")
	s.Published(3)
	s.Buffered(2)
	s.Buffered(1)
	s.Failed()
	s.Dropped("full", 5)
	for name, one := range map[string]struct {
		got, want float64
	}{
		"published": {testutil.ToFloat64(m.published.WithLabelValues("p", "s")), 3},
		"buffered":  {testutil.ToFloat64(m.buffered.WithLabelValues("p", "s")), 1},
		"failures":  {testutil.ToFloat64(m.failures.WithLabelValues("p", "s")), 1},
		"full":      {testutil.ToFloat64(m.dropped.WithLabelValues("p", "s", "full")), 5},
		"refused":   {testutil.ToFloat64(m.dropped.WithLabelValues("p", "s", "refused")), 0},
	} {
		if one.got != one.want {
			t.Errorf("%s: %v, want %v", name, one.got, one.want)
		}
	}
	host.CountEvents().Observe(events.PluginStopped{Plugin: "p"})
	s.Published(1) // is late
	if n := testutil.CollectAndCount(m.published) + testutil.CollectAndCount(m.dropped); n != 0 {
		t.Errorf("%d series remain of a plugin that has stopped", n)
	}
}
