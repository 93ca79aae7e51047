package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits are those of one plugin whose hits are counted: those of the sandbox
// (its constants of these names), intents of one result, writes per second, and
// events per second.
func Limits() []string {
	return []string{
		"memory", "timeout", "fuel", "output", "reply", "hostCalls", "log", "instances",
		"intents", "writes", "events",
	}
}

// pluginVecs are the series that each plugin has.
type pluginVecs struct {
	slotWait  *prometheus.HistogramVec
	handovers *prometheus.CounterVec
	limitHits *prometheus.CounterVec
	writeWait *prometheus.HistogramVec
}

func newPluginVecs() pluginVecs {
	waits := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"plugin"})
	}
	return pluginVecs{
		slotWait: waits("thole_sandbox_slot_wait_seconds",
			"Time that a guest call waited for an execution slot, to begin and to go on.",
			.00001, .0001, .0005, .001, .0025, .005, .01, .025, .1, .5, 1, 10),
		handovers: counter("thole_sandbox_slot_handovers_total",
			"Times that a guest call handed its execution slot over while it ran.", "plugin"),
		limitHits: counter("thole_plugin_limit_hits_total",
			"Times that a limit of the plugin ended or bounded what it did.", "plugin", "limit"),
		writeWait: waits("thole_write_wait_seconds",
			"Time that a write to the API server waited because the plugin had used up its writes per second.",
			.001, .01, .05, .1, .5, 1, 2.5, 5, 10, 30),
	}
}

func (v *pluginVecs) collectors() []prometheus.Collector {
	return []prometheus.Collector{v.slotWait, v.handovers, v.limitHits, v.writeWait}
}

// remove drops a plugin's series.
func (v *pluginVecs) remove(plugin string) {
	labels := prometheus.Labels{"plugin": plugin}
	v.slotWait.DeletePartialMatch(labels)
	v.handovers.DeletePartialMatch(labels)
	v.limitHits.DeletePartialMatch(labels)
	v.writeWait.DeletePartialMatch(labels)
}

// PluginMetrics are the instruments of one plugin. They may be used after its
// series were removed.
type PluginMetrics struct {
	slotWait, writeWait prometheus.Observer
	handovers           prometheus.Counter
	limits              map[string]prometheus.Counter
}

// Plugin returns the instruments of a plugin; all its series exist from then
// on, until [Metrics.PluginStopped].
func (m *Metrics) Plugin(name string) *PluginMetrics {
	p := &PluginMetrics{
		slotWait:  m.plugins.slotWait.WithLabelValues(name),
		writeWait: m.plugins.writeWait.WithLabelValues(name),
		handovers: m.plugins.handovers.WithLabelValues(name),
		limits:    map[string]prometheus.Counter{},
	}
	for _, limit := range Limits() {
		p.limits[limit] = m.plugins.limitHits.WithLabelValues(name, limit)
	}
	return p
}

// Waited observes for how long a call waited for a slot.
func (p *PluginMetrics) Waited(d time.Duration) { p.slotWait.Observe(d.Seconds()) }

// HandedOver counts a slot that a running call gave up.
func (p *PluginMetrics) HandedOver() { p.handovers.Inc() }

// Limited counts a hit of one of [Limits].
func (p *PluginMetrics) Limited(limit string) { p.limits[limit].Inc() }

// waitedAtAll is more than a write takes that does not have to wait.
const waitedAtAll = time.Millisecond

// WriteWaited observes for how long a write was kept waiting.
func (p *PluginMetrics) WriteWaited(d time.Duration) {
	p.writeWait.Observe(d.Seconds())
	if d > waitedAtAll {
		p.Limited("writes")
	}
}
