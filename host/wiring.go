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

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/kube"
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

// newUnlimited returns clients without a rate limit, for users that have bounds of their own: see
// access.Config.
func newUnlimited(cluster *rest.Config) (*kube.Clients, error) {
	config := rest.CopyConfig(cluster)
	config.RateLimiter, config.QPS = nil, -1
	return kube.New(config)
}

// newReviewer returns what asks the API server for the rights of service accounts.
func newReviewer(clients *kube.Clients, c config.Config, allowedFor time.Duration) *access.Reviewer {
	return access.New(access.Config{Reviews: clients.AccessReviews, Local: c.InNamespaces(), Accounts: clients.ServiceAccounts, AllowedFor: allowedFor})
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

// awaits implements [runner.Host].Awaits.
func (h *Host) awaits(runs func(plugin string) bool) bool {
	return !h.catalog.Updated() || awaited(h.catalog.Statuses(), runs)
}

// awaited reports whether there is a plugin that is about to run. One that is started again, because of a
// change of its kinds for example, is shown as running meanwhile.
func awaited(all []catalog.Status, runs func(plugin string) bool) bool {
	return slices.ContainsFunc(all, func(s catalog.Status) bool {
		return s.IsLoading() || s.State.Runs() && !runs(s.Name)
	})
}

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
		p := runner.PluginStatus{Status: s, Breaker: running.Breaker, CannotFollow: running.CannotFollow, MissingRights: running.MissingRights, WaitsFor: running.WaitsFor, Capabilities: running.Capabilities, Problems: h.problemsOf(s.Name), Leader: h.leaderOf(s.Name)}
		if running.Usage != (effect.Usage{}) {
			p.Usage = &running.Usage
		}
		if g, loaded := guests[s.Name]; loaded {
			p.Sandbox = &runner.SandboxStatus{Busy: g.Busy, Idle: g.Idle, Compiled: g.Compiled}
			if err := h.sandbox.CacheProblem(); err != nil {
				p.CacheProblem = "the compile cache cannot be written: " + err.Error()
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

// leaderOf returns the replica that leads a plugin; "" if none does, or there is one replica.
func (h *Host) leaderOf(plugin string) string {
	if h.leaders == nil {
		return ""
	}
	lead := h.leaders.Lead(plugin)
	if lead == nil {
		return ""
	}
	return lead.Leader()
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

// guestStats returns the stats of the running revisions, by plugin.
func (h *Host) guestStats() map[string]sandbox.Stats {
	stats := map[string]sandbox.Stats{}
	for _, r := range h.catalog.Running() {
		stats[r.Plugin] = r.Guest.Stats()
	}
	return stats
}
