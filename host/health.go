package host

import (
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
)

// pluginStatus is what /plugins says of one plugin.
type pluginStatus struct {
	catalog.Status
	// Breaker is that of the running generation; nil while none runs.
	Breaker *dispatch.BreakerStatus `json:"breaker,omitempty"`
	// Sandbox is what the running generation has in memory now; nil while none
	// runs.
	Sandbox *sandboxStatus `json:"sandbox,omitempty"`
	// CannotFollow tells of each kind whose changes do not reach the running
	// generation now, and why: for want of a right or of the API server.
	CannotFollow []string `json:"cannotFollow,omitempty"`
}

// sandboxStatus tells a plugin that is called from one that is idle.
type sandboxStatus struct {
	Busy     int  `json:"busy"`     // instances that run a call
	Idle     int  `json:"idle"`     // instances that wait for one
	Compiled bool `json:"compiled"` // false: idle for minutes, the next call brings the code back from the cache
}

func sandboxStatusOf(g *catalog.Generation) *sandboxStatus {
	s := g.Guest.(*sandbox.Guest).Stats()
	return &sandboxStatus{Busy: s.Busy, Idle: s.Idle, Compiled: s.Compiled}
}

func (p *plugins) statuses() []pluginStatus {
	breakers := p.breakers()
	guests := map[string]*sandboxStatus{}
	for _, g := range p.h.catalog.Running() {
		guests[g.Plugin] = sandboxStatusOf(g)
	}
	out := []pluginStatus{}
	for _, s := range p.h.catalog.Statuses() {
		status := pluginStatus{Status: s, Sandbox: guests[s.Name], CannotFollow: p.running(s.Name).troubles()}
		if b := breakers[s.Name]; b != nil {
			now := b.Status()
			status.Breaker = &now
			if now.State != dispatch.BreakerClosed && (s.State == catalog.Running || s.State == catalog.Degraded) {
				status.State = catalog.Quarantined
			}
		}
		out = append(out, status)
	}
	return out
}

func (p *plugins) breakerStats() []telemetry.BreakerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []telemetry.BreakerStats
	for name, pl := range p.byName {
		if b := pl.breaker.Load(); b != nil {
			out = append(out, telemetry.BreakerStats{Plugin: name, State: string(b.Status().State), States: dispatch.BreakerStates(), Openings: pl.openings.Load()})
		}
	}
	return out
}

func (p *plugins) breakers() map[string]*dispatch.Breaker {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]*dispatch.Breaker{}
	for name, pl := range p.byName {
		out[name] = pl.breaker.Load()
	}
	return out
}

// trial returns the probation of a generation, nil if it has none.
func (p *plugins) trial(g *catalog.Generation) *dispatch.Trial {
	if g.Probation.IsZero() {
		return nil
	}
	return dispatch.NewTrial(g.Probation, func(reason string) { p.h.catalog.RollBack(g.Plugin, g.Number, reason) })
}

// breaker returns the breaker of a generation. It starts closed: new code or
// a new policy may be what was missing.
func (p *plugins) breaker(g *catalog.Generation, pl *plugin) *dispatch.Breaker {
	logger := p.h.logger.Named("dispatch").With("plugin", g.Plugin, "generation", g.Number)
	return dispatch.NewBreaker(func(s dispatch.BreakerStatus) {
		if s.State == dispatch.BreakerClosed {
			logger.Info("circuit breaker closed, the plugin runs as before")
			p.h.events.pod.PluginRecovered(g.Plugin)
			return
		}
		pl.openings.Add(1)
		f := s.LastFault
		logger.Error("circuit breaker opened, the plugin's objects wait while single runs probe it: correct or replace the plugin",
			"reason", s.Reason, "nextProbe", s.NextProbe, "class", f.Class, "message", f.Message, "controller", f.Controller, "object", f.Object)
		p.h.events.pod.PluginQuarantined(g.Plugin, s.Reason)
	})
}
