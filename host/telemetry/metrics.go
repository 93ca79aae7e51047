package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// Metrics is the registry and every instrument in it.
type Metrics struct {
	Registry *prometheus.Registry

	reconciles    *prometheus.CounterVec
	errors        *prometheus.CounterVec
	failures      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	activeWorkers *prometheus.GaugeVec
	maxWorkers    *prometheus.GaugeVec
	requests      *prometheus.CounterVec
	requestTime   *prometheus.HistogramVec
	pluginInfo    *prometheus.GaugeVec
	pluginLoads   *prometheus.CounterVec
	loadFailures  *prometheus.CounterVec
	rollbacks     *prometheus.CounterVec
	writes        *prometheus.CounterVec
	loops         *prometheus.CounterVec
	dropped       *prometheus.CounterVec
	plugins       pluginVecs
	queues        workQueueMetrics
}

// NewMetrics returns a registry with the instruments of the host and those of
// the Go runtime and the process.
func NewMetrics() *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		reconciles: counter("controller_runtime_reconcile_total",
			"Reconciles by controller and result.", "controller", "result"),
		errors: counter("controller_runtime_reconcile_errors_total",
			"Reconciles that failed.", "controller"),
		failures: counter("thole_reconcile_errors_total",
			"Reconciles that failed, by class of the error.", "controller", "class"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "controller_runtime_reconcile_time_seconds",
			Help:    "Duration of a reconcile with its effects.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"controller"}),
		activeWorkers: gauge("controller_runtime_active_workers", "Workers that reconcile now.", "controller"),
		maxWorkers:    gauge("controller_runtime_max_concurrent_reconciles", "Workers of a controller.", "controller"),
		requests: counter("rest_client_requests_total",
			"Requests to the API server by status code, method and host.", "code", "method", "host"),
		requestTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rest_client_request_duration_seconds",
			Help:    "Duration of requests to the API server by verb and host.",
			Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60},
		}, []string{"verb", "host"}),
		pluginInfo: gauge("thole_plugin_info",
			"The running generation of each plugin; the value is always 1.", "plugin", "version", "digest"),
		pluginLoads: counter("thole_plugin_loads_total", "Generations that started to run.", "plugin"),
		loadFailures: counter("thole_plugin_load_failures_total",
			"Generations that could not be loaded, by the step that failed.", "plugin", "reason"),
		rollbacks: counter("thole_plugin_rollbacks_total",
			"Generations that were given up for the one before, as objects failed that had not failed.", "plugin"),
		writes:  counter("thole_writes_total", "Writes to the API server by verb of the effect.", "controller", "verb"),
		loops:   counter("thole_write_loop_runs_total", "Runs of keys that write in every run; they are slowed.", "controller"),
		dropped: counter("thole_guest_log_lines_dropped_total", "Lines of plugins beyond what they may log.", "controller"),
		plugins: newPluginVecs(),
		queues:  newWorkQueueMetrics(),
	}
	m.Registry.MustRegister(
		m.reconciles, m.errors, m.failures, m.duration, m.activeWorkers, m.maxWorkers,
		m.requests, m.requestTime, m.pluginInfo, m.pluginLoads, m.loadFailures, m.rollbacks, m.writes, m.loops, m.dropped,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.Registry.MustRegister(m.plugins.collectors()...)
	m.Registry.MustRegister(m.queues.collectors()...)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// PluginStarted reports the generation that runs now, in place of the one
// before.
func (m *Metrics) PluginStarted(plugin, version, digest string) {
	m.pluginInfo.DeletePartialMatch(prometheus.Labels{"plugin": plugin})
	m.pluginInfo.WithLabelValues(plugin, version, digest).Set(1)
	m.pluginLoads.WithLabelValues(plugin).Inc()
	m.rollbacks.WithLabelValues(plugin) // it exists at zero
}

// PluginStopped removes the series of a plugin that is gone.
func (m *Metrics) PluginStopped(plugin string) {
	m.plugins.remove(plugin)
	labels := prometheus.Labels{"plugin": plugin}
	m.pluginInfo.DeletePartialMatch(labels)
	m.pluginLoads.DeletePartialMatch(labels)
	m.loadFailures.DeletePartialMatch(labels)
	m.rollbacks.DeletePartialMatch(labels)
}

// PluginFailed counts a generation that could not be loaded. reason is one of
// a bounded set: the step that failed.
func (m *Metrics) PluginFailed(plugin, reason string) {
	m.loadFailures.WithLabelValues(plugin, reason).Inc()
}

// PluginRolledBack counts a generation that was given up for the one before.
func (m *Metrics) PluginRolledBack(plugin string) {
	m.rollbacks.WithLabelValues(plugin).Inc()
}

// Controller returns the instruments of one controller; all its series exist
// from then on. name is plugin/controller.
func (m *Metrics) Controller(name string, workers int) *ControllerMetrics {
	c := &ControllerMetrics{m: m, name: name}
	for _, result := range outcome.Metrics() {
		m.reconciles.WithLabelValues(name, string(result))
	}
	for _, class := range abi.Classes() {
		m.failures.WithLabelValues(name, string(class))
	}
	for _, verb := range []string{abi.VerbFinalizer, abi.VerbPatch, abi.VerbApply, abi.VerbDelete, abi.VerbStatus} {
		m.writes.WithLabelValues(name, verb)
	}
	m.errors.WithLabelValues(name)
	m.loops.WithLabelValues(name)
	m.dropped.WithLabelValues(name)
	m.duration.WithLabelValues(name)
	m.activeWorkers.WithLabelValues(name)
	m.maxWorkers.WithLabelValues(name).Set(float64(workers))
	return c
}

// ControllerMetrics are the instruments of one controller.
type ControllerMetrics struct {
	m    *Metrics
	name string
}

// Started counts a worker as active until the returned function is called
// with the run's result, its class and its duration in seconds.
func (c *ControllerMetrics) Started() func(result string, class abi.Class, seconds float64) {
	active := c.m.activeWorkers.WithLabelValues(c.name)
	active.Inc()
	return func(result string, class abi.Class, seconds float64) {
		active.Dec()
		c.m.reconciles.WithLabelValues(c.name, result).Inc()
		c.m.duration.WithLabelValues(c.name).Observe(seconds)
		if class != abi.ClassNone {
			c.m.failures.WithLabelValues(c.name, string(class)).Inc()
			if result == "error" { // a wait has a class, and is none
				c.m.errors.WithLabelValues(c.name).Inc()
			}
		}
	}
}

// Wrote counts a write to the API server.
func (c *ControllerMetrics) Wrote(verb string) { c.m.writes.WithLabelValues(c.name, verb).Inc() }

// Looped counts a run of a key that is in a write loop.
func (c *ControllerMetrics) Looped() { c.m.loops.WithLabelValues(c.name).Inc() }

// Dropped counts a line of the plugin that was not logged.
func (c *ControllerMetrics) Dropped() { c.m.dropped.WithLabelValues(c.name).Inc() }

// Limited counts a hit of one of [Limits] of the controller's plugin.
func (c *ControllerMetrics) Limited(limit string) {
	plugin, _, _ := strings.Cut(c.name, "/")
	c.m.plugins.limitHits.WithLabelValues(plugin, limit).Inc()
}

// Stopped removes the controller's series.
func (c *ControllerMetrics) Stopped() {
	labels := prometheus.Labels{"controller": c.name}
	c.m.reconciles.DeletePartialMatch(labels)
	c.m.errors.DeletePartialMatch(labels)
	c.m.failures.DeletePartialMatch(labels)
	c.m.duration.DeletePartialMatch(labels)
	c.m.activeWorkers.DeletePartialMatch(labels)
	c.m.maxWorkers.DeletePartialMatch(labels)
	c.m.writes.DeletePartialMatch(labels)
	c.m.loops.DeletePartialMatch(labels)
	c.m.dropped.DeletePartialMatch(labels)
}
