// Package telemetry holds what all stages report to: one stream of logs, into
// which klog, logr and slog are bridged, and one registry of metrics.
//
// Metrics have the names that the field already has where the meaning is the
// same: controller_runtime_* of controller-runtime, workqueue_* and
// rest_client_* of Kubernetes components. The others are thole_*.
package telemetry

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/outcome"
)

// Metrics is the registry with its instruments. Numbers that a stage keeps
// itself are not among them: the wiring registers a collector of those.
type Metrics struct {
	Registry *prometheus.Registry
	// Controllers has some of the series of controllers alone: runs, errors, time, workers and depths of queues. To
	// collect everything takes as long as a scrape.
	Controllers *prometheus.Registry

	limits  []string         // values of the label limit
	byLabel map[string][]vec // by the first label

	reconciles    *prometheus.CounterVec
	errors        *prometheus.CounterVec
	terminal      *prometheus.CounterVec
	panics        *prometheus.CounterVec
	timeouts      *prometheus.CounterVec
	failures      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	activeWorkers *prometheus.GaugeVec
	maxWorkers    *prometheus.GaugeVec
	writes        *prometheus.CounterVec
	writeLoops    *prometheus.CounterVec
	vanished      *prometheus.CounterVec
	droppedLines  *prometheus.CounterVec

	pluginInfo   *prometheus.GaugeVec
	pluginLoads  *prometheus.CounterVec
	loadFailures *prometheus.CounterVec
	rollbacks    *prometheus.CounterVec
	slotWait     *prometheus.HistogramVec
	handovers    *prometheus.CounterVec
	limitHits    *prometheus.CounterVec
	writeWait    *prometheus.HistogramVec

	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
	queues      workQueueMetrics
}

// vec is a metric with labels.
type vec interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// NewMetrics returns a registry with the instruments of the host and those of
// the Go runtime and the process. sandboxLimits are the limits whose hits the
// sandbox counts.
func NewMetrics(sandboxLimits ...string) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		limits:   append(slices.Clone(sandboxLimits), "intents", "reads", "indexes", limitWrites, "events", "stored", "churn"),
		byLabel:  map[string][]vec{},
	}
	m.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.addControllerMetrics()
	m.addPluginMetrics()
	m.addRequestMetrics()
	m.addWorkQueueMetrics()
	m.Controllers = prometheus.NewRegistry()
	m.Controllers.MustRegister(m.reconciles, m.errors, m.duration, m.activeWorkers, m.maxWorkers, m.queues.depth)
	return m
}

func (m *Metrics) addControllerMetrics() {
	m.reconciles = m.Counter("controller_runtime_reconcile_total",
		"Reconciles by controller and result.", "controller", "result")
	m.errors = m.Counter("controller_runtime_reconcile_errors_total",
		"Reconciles that failed.", "controller")
	m.terminal = m.Counter("controller_runtime_terminal_reconcile_errors_total",
		"Reconciles that failed and are not tried again until something changes.", "controller")
	m.panics = m.Counter("controller_runtime_reconcile_panics_total",
		"Reconciles in which the plugin crashed: by a trap, or for want of memory or stack.", "controller")
	m.timeouts = m.Counter("controller_runtime_reconcile_timeouts_total",
		"Reconciles that exceeded their deadline.", "controller")
	m.failures = m.Counter("thole_reconcile_errors_total",
		"Reconciles that failed, by class of the error.", "controller", "class")
	m.duration = m.Histogram("controller_runtime_reconcile_time_seconds",
		"Duration of a reconcile with its effects.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "controller")
	m.activeWorkers = m.Gauge("controller_runtime_active_workers",
		"Workers that are reconciling.", "controller")
	m.maxWorkers = m.Gauge("controller_runtime_max_concurrent_reconciles",
		"Workers of a controller.", "controller")
	m.writes = m.Counter("thole_writes_total",
		"Writes to the API server by verb of the effect.", "controller", "verb")
	m.writeLoops = m.Counter("thole_write_loop_runs_total",
		"Reconciles of objects in a write loop: only their own writes run them, and they go on writing.", "controller")
	m.vanished = m.Counter("thole_vanished_objects_total",
		"Objects that the API server deleted in spite of the finalizer of the controller, by what became of their cleanup.", "controller", "result")
	m.droppedLines = m.Counter("thole_guest_log_lines_dropped_total",
		"Log lines of plugins that exceeded the limit.", "controller")
}

func (m *Metrics) addPluginMetrics() {
	m.pluginInfo = m.Gauge("thole_plugin_info",
		"The running revision of each plugin; the value is always 1.", "plugin", "version", "digest")
	m.pluginLoads = m.Counter("thole_plugin_loads_total",
		"Revisions that have started to run.", "plugin")
	m.loadFailures = m.Counter("thole_plugin_load_failures_total",
		"Revisions that could not be loaded, by the step that failed.", "plugin", "reason")
	m.rollbacks = m.Counter("thole_plugin_rollbacks_total",
		"Revisions that were rolled back because objects failed that had not failed before.", "plugin")
	m.slotWait = m.Histogram("thole_sandbox_slot_wait_seconds",
		"Time that a guest call waited for an execution slot, before it began and while it ran.",
		[]float64{.00001, .0001, .0005, .001, .0025, .005, .01, .025, .1, .5, 1, 10}, "plugin")
	m.handovers = m.Counter("thole_sandbox_slot_handovers_total",
		"Times that a running guest call handed over its execution slot.", "plugin")
	m.limitHits = m.Counter("thole_plugin_limit_hits_total",
		"Times that a limit of the plugin was hit.", "plugin", "limit")
	m.writeWait = m.Histogram("thole_write_wait_seconds",
		"Time by which a write to the API server was postponed because of the plugin's limit of writes per second.",
		[]float64{.001, .01, .05, .1, .5, 1, 2.5, 5, 10, 30}, "plugin")
}

// Counter registers a counter, whose first label is plugin, or is controller with the value plugin/controller:
// its series are removed when that has stopped.
func (m *Metrics) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return register(m, labels[0], prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

// Gauge is [Metrics.Counter] for a gauge.
func (m *Metrics) Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(m, labels[0], prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// Histogram is [Metrics.Counter] for a histogram.
func (m *Metrics) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(m, labels[0], prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

func register[V vec](m *Metrics, label string, v V) V {
	m.Registry.MustRegister(v)
	m.byLabel[label] = append(m.byLabel[label], v)
	return v
}

// remove removes all series whose first label has a value.
func (m *Metrics) remove(label, value string) {
	for _, v := range m.byLabel[label] {
		v.DeletePartialMatch(prometheus.Labels{label: value})
	}
}

// CountEvents returns an observer that counts what happens to plugins, and removes
// the series of a plugin that has stopped.
func (m *Metrics) CountEvents() events.Observer { return events.Func(m.countEvent) }

func (m *Metrics) countEvent(event events.Event) {
	switch e := event.(type) {
	case events.PluginStarted:
		m.pluginInfo.DeletePartialMatch(prometheus.Labels{"plugin": e.Plugin})
		m.pluginInfo.WithLabelValues(e.Plugin, e.Version, e.Digest).Set(1)
		m.pluginLoads.WithLabelValues(e.Plugin).Inc()
		m.rollbacks.WithLabelValues(e.Plugin) // creates the series
	case events.PluginStopped:
		m.remove("plugin", e.Plugin)
	case events.PluginRefused:
		m.loadFailures.WithLabelValues(e.Plugin, e.Step).Inc()
	case events.PluginRolledBack:
		m.rollbacks.WithLabelValues(e.From.Plugin).Inc()
	}
}

// ControllerMetrics are the instruments of one controller.
type ControllerMetrics struct {
	m    *Metrics
	name string
}

// Controller returns the instruments of a controller and creates its series.
// name is plugin/controller.
func (m *Metrics) Controller(name string, workers int) *ControllerMetrics {
	for _, result := range outcome.Metrics() {
		m.reconciles.WithLabelValues(name, string(result))
	}
	for _, class := range abi.Classes() {
		m.failures.WithLabelValues(name, string(class))
	}
	for _, verb := range []string{abi.VerbFinalizer, abi.VerbPatch, abi.VerbRelease, abi.VerbApply, abi.VerbDelete, abi.VerbStatus} {
		m.writes.WithLabelValues(name, verb)
	}
	for _, counter := range []*prometheus.CounterVec{m.errors, m.terminal, m.panics, m.timeouts, m.writeLoops, m.droppedLines} {
		counter.WithLabelValues(name)
	}
	m.duration.WithLabelValues(name)
	for _, end := range outcome.LateCleanups() {
		m.vanished.WithLabelValues(name, string(end))
	}
	m.activeWorkers.WithLabelValues(name)
	c := &ControllerMetrics{m: m, name: name}
	c.SetWorkers(workers)
	return c
}

// SetWorkers sets how many runs there may be at once.
func (c *ControllerMetrics) SetWorkers(n int) { c.m.maxWorkers.WithLabelValues(c.name).Set(float64(n)) }

// Started counts a worker as active until the returned function is called with
// what the run leads to and its duration in seconds.
func (c *ControllerMetrics) Started() (ended func(d outcome.Decision, seconds float64)) {
	active := c.m.activeWorkers.WithLabelValues(c.name)
	active.Inc()
	return func(d outcome.Decision, seconds float64) {
		active.Dec()
		c.m.reconciles.WithLabelValues(c.name, string(d.Metric)).Inc()
		c.m.duration.WithLabelValues(c.name).Observe(seconds)
		if d.Metric == outcome.MetricError { // a waiting object has a class, too, and is not an error
			c.m.errors.WithLabelValues(c.name).Inc()
		}
		if d.Terminal() {
			c.m.terminal.WithLabelValues(c.name).Inc()
		}
		if d.Class != abi.ClassNone {
			c.failed(d.Class)
		}
	}
}

func (c *ControllerMetrics) failed(class abi.Class) {
	c.m.failures.WithLabelValues(c.name, string(class)).Inc()
	if slices.Contains([]abi.Class{abi.ClassPanic, abi.ClassOutOfMemory, abi.ClassStackOverflow}, class) {
		c.m.panics.WithLabelValues(c.name).Inc()
	}
	if class == abi.ClassTimeout {
		c.m.timeouts.WithLabelValues(c.name).Inc()
	}
}

// Wrote counts a write to the API server.
func (c *ControllerMetrics) Wrote(verb string) { c.m.writes.WithLabelValues(c.name, verb).Inc() }

// Vanished counts an object that was deleted in spite of its finalizer.
func (c *ControllerMetrics) Vanished(end outcome.LateCleanup) {
	c.m.vanished.WithLabelValues(c.name, string(end)).Inc()
}

// Looped counts a run of a key in a write loop.
func (c *ControllerMetrics) Looped() { c.m.writeLoops.WithLabelValues(c.name).Inc() }

// Dropped counts a log line of the plugin that exceeded the limit.
func (c *ControllerMetrics) Dropped() { c.m.droppedLines.WithLabelValues(c.name).Inc() }

// Limited counts a hit of a limit of the controller's plugin.
func (c *ControllerMetrics) Limited(limit string) {
	plugin, _, _ := strings.Cut(c.name, "/")
	c.m.limitHits.WithLabelValues(plugin, limit).Inc()
}

// Stopped removes the series of the controller.
func (c *ControllerMetrics) Stopped() { c.m.remove("controller", c.name) }

// PluginMetrics are the instruments of one plugin. They may be used after
// the plugin has stopped: a call that ends late does not create series.
type PluginMetrics struct {
	slotWait, writeWait prometheus.Observer
	handovers           prometheus.Counter
	limits              map[string]prometheus.Counter
}

// Plugin returns the instruments of a plugin and creates its series.
func (m *Metrics) Plugin(name string) *PluginMetrics {
	p := &PluginMetrics{
		slotWait:  m.slotWait.WithLabelValues(name),
		writeWait: m.writeWait.WithLabelValues(name),
		handovers: m.handovers.WithLabelValues(name),
		limits:    map[string]prometheus.Counter{},
	}
	for _, limit := range m.limits {
		p.limits[limit] = m.limitHits.WithLabelValues(name, limit)
	}
	return p
}

// Waited observes how long a call waited for a slot.
func (p *PluginMetrics) Waited(d time.Duration) { p.slotWait.Observe(d.Seconds()) }

// HandedOver counts a slot that a running call has handed over.
func (p *PluginMetrics) HandedOver() { p.handovers.Inc() }

// Limited counts a hit of a limit.
func (p *PluginMetrics) Limited(limit string) { p.limits[limit].Inc() }

const limitWrites = "writes"

// WriteWaited observes by how long a write was postponed, and counts a hit of the
// limit if it was.
func (p *PluginMetrics) WriteWaited(d time.Duration) {
	p.writeWait.Observe(d.Seconds())
	if d > 0 {
		p.Limited(limitWrites)
	}
}
