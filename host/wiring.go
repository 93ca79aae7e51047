package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/serve"
	"github.com/thole-dev/thole/host/source"
	"github.com/thole-dev/thole/host/telemetry"
)

// modules returns the plugins of a snapshot for the catalog. This is where the
// bytes of policies are read, once, under the ceiling of the configuration.
func (h *Host) modules(snapshot source.Snapshot) []catalog.Module {
	out := make([]catalog.Module, len(snapshot))
	for i, p := range snapshot {
		m := catalog.Module{Name: p.Name, Digest: p.Digest, Read: p.Read, Err: p.Err}
		if m.Err == nil {
			m.Policy, m.Err = h.config.ReadPolicy(p.Name, p.Policy)
		}
		out[i] = m
	}
	return out
}

// loader loads modules into the sandbox for the catalog.
type loader struct{ sandbox *sandbox.Sandbox }

var _ catalog.Loader[*sandbox.Guest] = loader{}

func (l loader) Load(ctx context.Context, m *catalog.Module) (*sandbox.Guest, error) {
	guest, err := l.sandbox.Load(ctx, sandbox.Plugin{Name: m.Name, Digest: m.Digest, Source: m.Read, Limits: m.Policy.Limits.Sandbox()})
	return guest, loadError(err)
}

func (l loader) WithPolicy(ctx context.Context, guest *sandbox.Guest, m *catalog.Module) (*sandbox.Guest, error) {
	again, err := l.sandbox.Relimit(ctx, guest, m.Policy.Limits.Sandbox())
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
// informers have synced.
func (h *Host) readiness() []serve.Check {
	checks := []serve.Check{
		{Name: "API server", Ready: h.cache.Reachable},
		{Name: "plugin directory", Ready: func() error {
			switch {
			case !h.catalog.Updated():
				return errors.New("has not been read yet: if it cannot be, the log states why")
			case !h.catalog.Settled():
				return errors.New("its plugins are being loaded")
			}
			return nil
		}},
	}
	for _, s := range h.catalog.Statuses() {
		checks = append(checks, serve.Check{Name: fmt.Sprintf("plugin %s: %s", s.Name, s.State), Ready: func() error {
			if s.State == catalog.Loading {
				return errors.New("is being loaded")
			}
			return nil
		}})
	}
	return checks
}

// PluginStatus is an entry of /plugins.
type PluginStatus struct {
	catalog.Status
	// Breaker is that of the running revision; nil while none runs.
	Breaker *dispatch.BreakerStatus `json:"breaker,omitempty"`
	// Sandbox is what the running revision has in memory; nil while none runs.
	Sandbox *SandboxStatus `json:"sandbox,omitempty"`
	// CannotFollow describes each kind whose changes do not reach the running
	// revision now, and why: for want of a right, or of the API server.
	CannotFollow []string `json:"cannotFollow,omitempty"`
}

// SandboxStatus shows whether a plugin is in use.
type SandboxStatus struct {
	Busy     int  `json:"busy"`     // instances with a call in progress
	Idle     int  `json:"idle"`     // instances without
	Compiled bool `json:"compiled"` // false: unused for minutes, the next call loads the code from the cache
}

// Plugins returns the status of every plugin, ordered by name.
func (h *Host) Plugins() []PluginStatus {
	guests := map[string]*SandboxStatus{}
	for _, r := range h.catalog.Running() {
		s := r.Guest.Stats()
		guests[r.Plugin] = &SandboxStatus{Busy: s.Busy, Idle: s.Idle, Compiled: s.Compiled}
	}
	out := []PluginStatus{}
	for _, s := range h.catalog.Statuses() {
		running := h.runner.Status(s.Name)
		status := PluginStatus{Status: s, Sandbox: guests[s.Name], Breaker: running.Breaker, CannotFollow: running.CannotFollow}
		broken := status.Breaker != nil && status.Breaker.State != dispatch.BreakerClosed
		if broken && (s.State == catalog.Running || s.State == catalog.Degraded) {
			status.State = catalog.Quarantined
		}
		out = append(out, status)
	}
	return out
}

// observeStages makes the metrics ask the stages for what these count themselves.
func (h *Host) observeStages() {
	h.metrics.ObserveMemory(func() telemetry.MemoryStats {
		s := h.sandbox.Memory()
		return telemetry.MemoryStats{LimitBytes: s.LimitBytes, UsedBytes: s.UsedBytes, Refused: s.Refused}
	})
	h.metrics.ObserveSlots(func() telemetry.SlotStats { return telemetry.SlotStats(h.sandbox.Slots()) })
	h.metrics.Observe(h.cacheStats, h.sandboxStats, h.runner.BreakerStats)
}

func (h *Host) cacheStats() []telemetry.CacheStats {
	var out []telemetry.CacheStats
	for _, s := range h.cache.Stats() {
		out = append(out, telemetry.CacheStats{Kind: s.Kind.String(), Objects: s.Objects, Bytes: s.Bytes})
	}
	return out
}

func (h *Host) sandboxStats() []telemetry.SandboxStats {
	var out []telemetry.SandboxStats
	for _, r := range h.catalog.Running() {
		s := r.Guest.Stats()
		out = append(out, telemetry.SandboxStats{
			Plugin: r.Plugin, Calls: s.Calls, Faults: s.Faults, Idle: s.Idle, Busy: s.Busy, IdleBytes: s.IdleBytes,
			Compiled: s.Compiled, Wakes: s.Wakes,
		})
	}
	return out
}
