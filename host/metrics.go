package host

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file has the metrics of numbers that the stages keep themselves.

// stageCollector is a [prometheus.Collector] of the numbers that the stages keep
// themselves. It reads them at each scrape.
type stageCollector struct {
	memory  func() sandbox.MemoryStats
	slots   func() sandbox.SlotStats
	compile func() error // why compiled plugins cannot be kept on disk
	kinds   func() []cache.Stats
	follows func() []cache.Following
	cached  func() cache.Memory
	guests  func() map[string]sandbox.Stats // of the running revisions, by plugin
	running func() map[string]runner.Status
	plugins func(map[string]runner.Status, map[string]sandbox.Stats) []runner.PluginStatus // as /plugins has them
}

// Describe implements [prometheus.Collector]. Without descriptions the registry
// checks the metrics when they are collected.
func (stageCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c stageCollector) Collect(ch chan<- prometheus.Metric) {
	collectSandbox(ch, c.memory(), c.slots())
	gauge(ch, "thole_compile_cache_failing", "1 while the compile cache cannot be written, so that plugins are compiled again at each start; 0 otherwise.", oneIf(c.compile() != nil), nil)
	for _, s := range c.kinds() {
		kind := prometheus.Labels{"kind": s.Kind.String()}
		gauge(ch, "thole_cache_objects", "Objects in the cache by kind.", s.Objects, kind)
		gauge(ch, "thole_cache_bytes", "JSON in the cache by kind.", s.Bytes, kind)
		counter(ch, "thole_cache_restores_total",
			"Times that the API server was found to have gone back to an earlier state of a kind.", s.Restores, kind)
	}
	collectFollowing(ch, c.follows())
	for part, bytes := range c.parts() {
		gauge(ch, "thole_memory_bytes", "Memory by part: objects and indexes of the cache, edges to what was read, guests. Estimated, but for guests.",
			bytes, prometheus.Labels{"part": part})
	}
	guests, running := c.guests(), c.running()
	for plugin, s := range guests {
		collectGuest(ch, plugin, s)
	}
	for _, p := range c.plugins(running, guests) {
		for _, state := range catalog.States() {
			gauge(ch, "thole_plugin_state", "State of the plugin: 1 for its state, 0 for the others.",
				oneIf(state == p.State), prometheus.Labels{"plugin": p.Name, "state": string(state)})
		}
	}
	for plugin, s := range running {
		collectBreaker(ch, plugin, s)
		gauge(ch, "thole_own_writes", "Objects that the plugin has written and that its informers do not show yet; at 10,000, or 32 MiB, it waits for them.",
			s.OwnWrites, prometheus.Labels{"plugin": plugin})
		collectUsage(ch, plugin, s.Usage)
		gauge(ch, "thole_plugin_missing_rights", "Rules that the service account of the plugin lacks, or the host for it.",
			len(s.MissingRights), prometheus.Labels{"plugin": plugin})
	}
}

func collectUsage(ch chan<- prometheus.Metric, plugin string, u effect.Usage) {
	labels := prometheus.Labels{"plugin": plugin}
	gauge(ch, "thole_plugin_stored_bytes", "About what the plugin has stored in objects.", u.StoredBytes, labels)
	gauge(ch, "thole_plugin_stored_limit_bytes", "What the plugin may have stored in objects.", u.StoredLimitBytes, labels)
	gauge(ch, "thole_plugin_churned_bytes", "Versions of objects that the plugin has written, less what time has made up for.", u.ChurnedBytes, labels)
	gauge(ch, "thole_plugin_churn_limit_bytes", "Versions of objects that the plugin may write in 5 minutes.", u.ChurnLimitBytes, labels)
}

// parts returns what takes memory, with its size in bytes.
func (c stageCollector) parts() map[string]uint64 {
	m := c.cached()
	return map[string]uint64{"objects": m.Objects, "indexes": m.Indexes, "edges": m.Edges, "guests": c.memory().UsedBytes}
}

func collectSandbox(ch chan<- prometheus.Metric, memory sandbox.MemoryStats, slots sandbox.SlotStats) {
	gauge(ch, "thole_guest_memory_limit_bytes", "Memory that the instances and images of all plugins may have together.", memory.LimitBytes, nil)
	gauge(ch, "thole_guest_memory_bytes", "Memory that the instances and images of all plugins have.", memory.UsedBytes, nil)
	counter(ch, "thole_guest_memory_refusals_total",
		"Growths and new instances that were refused because of the limit of all plugins together.", memory.Refused, nil)
	gauge(ch, "thole_sandbox_slots", "Execution slots: guest calls that may run at the same time.", slots.Slots, nil)
	gauge(ch, "thole_sandbox_slots_in_use", "Guest calls that are running.", slots.InUse, nil)
	gauge(ch, "thole_sandbox_slot_waiting_calls", "Guest calls that wait for an execution slot, before they begin or while they run.", slots.Waiting, nil)
}

// collectGuest collects the stats of a running revision. Its counters start at
// zero with a new revision, as after a restart.
func collectGuest(ch chan<- prometheus.Metric, plugin string, s sandbox.Stats) {
	labels := prometheus.Labels{"plugin": plugin}
	counter(ch, "thole_sandbox_calls_total", "Reconcile calls of the running revision.", s.Calls, labels)
	counter(ch, "thole_sandbox_faults_total", "Reconcile calls that trapped, hit a limit or violated the ABI.", s.Faults, labels)
	for state, n := range map[string]int{"idle": s.Idle, "busy": s.Busy} {
		gauge(ch, "thole_sandbox_instances", "Instances by state: idle or busy.", n, prometheus.Labels{"plugin": plugin, "state": state})
	}
	gauge(ch, "thole_sandbox_idle_memory_bytes", "Linear memory of the idle instances.", s.IdleBytes, labels)
	gauge(ch, "thole_sandbox_compiled",
		"1 while the plugin's native code is in memory, 0 while it is only in the cache.", oneIf(s.Compiled), labels)
	counter(ch, "thole_sandbox_wakes_total",
		"Times that the running revision's native code was loaded from the cache for a call.", s.Reloads, labels)
}

func collectBreaker(ch chan<- prometheus.Metric, plugin string, s runner.Status) {
	if s.Breaker == nil {
		return
	}
	counter(ch, "thole_breaker_openings_total", "Times that the plugin's circuit breaker opened.",
		s.Openings, prometheus.Labels{"plugin": plugin})
	for _, state := range dispatch.BreakerStates() {
		gauge(ch, "thole_breaker_state", "Circuit breaker of the plugin: 1 for its state, 0 for the others.",
			oneIf(state == string(s.Breaker.State)), prometheus.Labels{"plugin": plugin, "state": state})
	}
}

func gauge[N int | int64 | uint64 | float64](ch chan<- prometheus.Metric, name, help string, value N, labels prometheus.Labels) {
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, labels), prometheus.GaugeValue, float64(value))
}

func counter(ch chan<- prometheus.Metric, name, help string, value uint64, labels prometheus.Labels) {
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, labels), prometheus.CounterValue, float64(value))
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// collectFollowing collects how kinds are followed: by a watch, or by lists at an interval.
func collectFollowing(ch chan<- prometheus.Metric, kinds []cache.Following) {
	for _, f := range kinds {
		kind, by := f.Kind.String(), "watch"
		if f.Polled {
			by = "poll"
		}
		gauge(ch, "thole_cache_following", "1 while the kind is followed, by a watch or by a poll; 0 before the first list, and while its requests fail.",
			oneIf(f.Working), prometheus.Labels{"kind": kind, "by": by})
		gauge(ch, "thole_cache_handlers", "Handlers of controllers that the changes of the kind go to: for each entry of for, owns and watches that has the kind.",
			f.Handlers, prometheus.Labels{"kind": kind})
		if !f.Polled {
			continue
		}
		gauge(ch, "thole_poll_interval_seconds", "Time between two lists of a kind that cannot be watched, without jitter.",
			f.Interval.Seconds(), prometheus.Labels{"kind": kind})
		collectPolls(ch, kind, "success", f.Succeeded)
		collectPolls(ch, kind, "error", f.Failed)
	}
}

func collectPolls(ch chan<- prometheus.Metric, kind, result string, n uint64) {
	counter(ch, "thole_polls_total", "Lists of kinds that cannot be watched, by result.", n, prometheus.Labels{"kind": kind, "result": result})
}
