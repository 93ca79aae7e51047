package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/serve"
	"github.com/thole-dev/thole/host/source"
)

// modules returns the plugins of a snapshot for the catalog. This is where the
// bytes of policies are read, once, under the ceiling of the configuration.
func (h *Host) modules(snapshot source.Snapshot) []catalog.Module {
	out, policies := make([]catalog.Module, len(snapshot)), map[string]config.Policy{}
	for i, p := range snapshot {
		m := catalog.Module{Name: p.Name, Digest: p.Digest, Size: p.Size, Read: p.Read, Err: p.Err, PolicyUnknown: p.PolicyUnknown}
		if !m.PolicyUnknown {
			policy, err := h.config.ReadPolicy(p.Name, p.Policy)
			m.Policy, m.PolicyUnknown, m.Err = policy, err != nil, cmp.Or(m.Err, err)
		}
		if !m.PolicyUnknown {
			policies[p.Name] = m.Policy
		}
		out[i] = m
	}
	if len(snapshot) == 0 {
		h.events.Observe(events.NoPlugins{Path: h.config.Plugins})
	}
	h.policies.set(policies)
	h.setLogLevels(snapshot, policies)
	return out
}

// setLogLevels reports the log levels that have changed. A policy that cannot be read changes none.
func (h *Host) setLogLevels(snapshot source.Snapshot, policies map[string]config.Policy) {
	before := h.logLevels
	h.logLevels = map[string]string{}
	for _, p := range snapshot {
		h.logLevels[p.Name] = before[p.Name]
		if policy, known := policies[p.Name]; known {
			h.logLevels[p.Name] = policy.LogLevel
		}
		if level := h.logLevels[p.Name]; level != before[p.Name] {
			h.events.Observe(events.LogLevelSet{Plugin: p.Name, Level: level})
		}
	}
	for plugin, level := range before {
		if _, there := h.logLevels[plugin]; !there && level != "" {
			h.events.Observe(events.LogLevelSet{Plugin: plugin})
		}
	}
}

// newUnlimited returns a client without a rate limit, for those that have bounds of their own: see
// access.Config.
func newUnlimited(cluster *rest.Config) (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(cluster)
	config.RateLimiter, config.QPS = nil, -1
	return kubernetes.NewForConfig(config)
}

// newReviewer returns what asks the API server for the rights of service accounts.
func newReviewer(client *kubernetes.Clientset, c config.Config, allowedFor time.Duration) *access.Reviewer {
	return access.New(access.Config{Client: client.AuthorizationV1(), Local: c.InNamespaces(), Accounts: client.CoreV1(), AllowedFor: allowedFor})
}

// loader loads modules into the sandbox for the catalog.
type loader struct{ sandbox *sandbox.Sandbox }

var _ catalog.Loader[*sandbox.Guest] = loader{}

func (l loader) Load(ctx context.Context, m *catalog.Module) (*sandbox.Guest, error) {
	guest, err := l.sandbox.Load(ctx, sandbox.Plugin{Name: m.Name, Digest: m.Digest, Size: m.Size, Source: m.Read, Limits: m.Policy.Sandbox()})
	return guest, loadError(err)
}

func (l loader) WithPolicy(ctx context.Context, guest *sandbox.Guest, m *catalog.Module) (*sandbox.Guest, error) {
	again, err := l.sandbox.CloneWithLimits(ctx, guest, m.Policy.Sandbox())
	return again, loadError(err)
}

// loadError makes the catalog wait for memory that other plugins use, and states
// for other errors what to do.
func loadError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sandbox.ErrHostMemory):
		return &catalog.WaitError{Reason: err.Error()}
	}
	return loadFailure{err}
}

// loadFailure is a load that failed, with what to do about it.
type loadFailure struct{ error }

func (f loadFailure) Error() string {
	text := f.error.Error()
	if fault, ok := errors.AsType[*sandbox.Fault](f.error); ok {
		text += dispatch.Where(fault.Stack)
	}
	if e, ok := errors.AsType[*sandbox.LoadError](f.error); ok && e.Advice() != "" {
		text += "; " + e.Advice()
	}
	return text
}

func (f loadFailure) Unwrap() error { return f.error }

// LoadStep names the step that failed, for metrics and the status.
func (f loadFailure) LoadStep() string {
	if e, ok := errors.AsType[*sandbox.LoadError](f.error); ok {
		return e.Step
	}
	return "load"
}

// readiness returns the parts of /readyz: the API server answers, the directory
// was read, and every plugin runs, waits or has failed. A plugin runs only once its
// informers have synced. For that the API server may need what it answers, which a
// Service passes to ready hosts only: so a plugin that a capability calls before it runs need not run.
func (h *Host) readiness() []serve.Check {
	updated := h.catalog.Updated() // before the plugins are taken from it
	checks := []serve.Check{
		{Name: "API server", Ready: h.cache.Reachable},
		{Name: "plugin directory", Ready: func() error {
			if !updated {
				return errors.New("has not been read yet: if it cannot be, the log states why")
			}
			return nil
		}},
	}
	for _, c := range h.capabilities {
		if c.Ready != nil {
			checks = append(checks, serve.Check{Name: c.Name, Ready: c.Ready})
		}
	}
	statuses := h.runner.Statuses()
	for _, s := range h.pluginsOf(statuses, h.guestStats()) {
		checks = append(checks, serve.Check{Name: fmt.Sprintf("plugin %s: %s", s.Name, s.State), Ready: func() error {
			waitsFor := statuses[s.Name].WaitsFor
			switch {
			case s.State != catalog.Loading || statuses[s.Name].Answers:
				return nil
			case waitsFor != "":
				return errors.New("is being started: waits for " + waitsFor)
			}
			return errors.New("is being loaded")
		}})
	}
	return checks
}

// awaits implements [runner.Environment].Awaits.
func (h *Host) awaits(runs func(plugin string) bool) bool {
	return !h.catalog.Updated() || awaited(h.catalog.Statuses(), runs)
}

// awaited reports whether there is a plugin that is about to run. One that is started again, because of a
// change of its kinds for example, keeps its state meanwhile.
func awaited(all []catalog.Status, runs func(plugin string) bool) bool {
	return slices.ContainsFunc(all, func(s catalog.Status) bool {
		return s.IsLoading() || s.State.Runs() && !runs(s.Name)
	})
}

// lastRuns implements [runner.Environment].LastRuns.
func (h *Host) lastRuns() map[string][]dispatch.LastRun { return h.runner.LastRuns() }

// handlersOf returns the handlers of all capabilities, by their patterns, and their views, by their paths.
func handlersOf(capabilities []runner.Capability) (handlers, views map[string]http.Handler) {
	handlers, views = map[string]http.Handler{}, map[string]http.Handler{}
	for _, c := range capabilities {
		maps.Copy(handlers, c.Serve)
		maps.Copy(views, c.Views)
	}
	return handlers, views
}

// Plugins returns the status of every plugin, ordered by name.
func (h *Host) Plugins() []runner.PluginStatus {
	return h.pluginsOf(h.runner.Statuses(), h.guestStats())
}

// pluginsOf is Plugins, with what the runner and the sandbox know of them.
func (h *Host) pluginsOf(statuses map[string]runner.Status, guests map[string]sandbox.Stats) []runner.PluginStatus {
	out := []runner.PluginStatus{}
	for _, s := range h.catalog.Statuses() {
		running := statuses[s.Name]
		p := runner.PluginStatus{Status: s, Breaker: running.Breaker, CannotFollow: running.CannotFollow, MissingRights: running.MissingRights, WaitsFor: running.WaitsFor, Capabilities: running.Capabilities, Problems: h.problemsOf(s.Name)}
		if running.Usage != (effect.Usage{}) {
			p.Usage = &running.Usage
		}
		if g, loaded := guests[s.Name]; loaded {
			p.Sandbox = &runner.SandboxStatus{Busy: g.Busy, Idle: g.Idle, Compiled: g.Compiled}
			if err := h.sandbox.CacheProblem(); err != nil {
				p.CacheProblem = "the compile cache cannot be written: " + err.Error()
			}
		}
		if h.leaders != nil {
			if lead := h.leaders.Lead(s.Name); lead != nil {
				p.Leader = lead.Leader()
			}
		}
		out = append(out, p)
	}
	return out
}

// problemsOf returns what is wrong with what capabilities do for a plugin, by their names; nil if nothing is.
func (h *Host) problemsOf(plugin string) (all map[string]string) {
	for _, c := range h.capabilities {
		if c.Problem == nil {
			continue
		}
		if text := c.Problem(plugin); text != "" {
			if all == nil {
				all = map[string]string{}
			}
			all[c.Name] = text
		}
	}
	return all
}

// leadersOf returns what decides which replica leads which plugin, nil if there is one replica.
func leadersOf(capabilities []runner.Capability) (leaders runner.Leaders, err error) {
	by := ""
	for _, c := range capabilities {
		switch {
		case c.Leaders == nil:
		case leaders != nil:
			return nil, fmt.Errorf("both %s and %s decide which replica leads a plugin: a host has one of them", by, c.Name)
		default:
			leaders, by = c.Leaders, c.Name
		}
	}
	return leaders, nil
}

// reconsider implements [runner.Environment].Reconsider, and restart Restart.
func (h *Host) reconsider(plugin string) { h.catalog.Reconsider(plugin) }

func (h *Host) restart(plugin, reason string) { h.catalog.Restart(plugin, reason) }

// guestStats returns the stats of the running revisions, by plugin.
func (h *Host) guestStats() map[string]sandbox.Stats {
	stats := map[string]sandbox.Stats{}
	for _, r := range h.catalog.Running() {
		stats[r.Plugin] = r.Guest.Stats()
	}
	return stats
}

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
