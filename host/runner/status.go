package runner

import (
	"time"

	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/telemetry"
)

// Status is the state of a running plugin.
type Status struct {
	// Breaker is nil if nothing of the plugin runs.
	Breaker *dispatch.BreakerStatus
	// CannotFollow describes each kind whose changes do not reach the plugin now,
	// and why: for want of a right, or of the API server.
	CannotFollow []string
}

// Status returns the state of a plugin; its zero value if nothing of it runs.
func (r *Runner) Status(plugin string) Status {
	r.mu.Lock()
	p := r.plugins[plugin]
	r.mu.Unlock()
	if p == nil {
		return Status{}
	}
	status := Status{CannotFollow: p.informers.problems()}
	if b := p.breaker.Load(); b != nil {
		now := b.Status()
		status.Breaker = &now
	}
	return status
}

// BreakerStats returns the circuit breakers of all plugins, for metrics.
func (r *Runner) BreakerStats() []telemetry.BreakerStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []telemetry.BreakerStats
	for name, p := range r.plugins {
		if b := p.breaker.Load(); b != nil {
			out = append(out, telemetry.BreakerStats{
				Plugin: name, State: string(b.Status().State), States: dispatch.BreakerStates(), Openings: p.openings.Load(),
			})
		}
	}
	return out
}

// newComparison returns the probation of a revision, nil if it is not on
// probation.
func (r *Runner) newComparison(rev *Revision) *dispatch.RevisionComparison {
	if rev.Probation.IsZero() {
		return nil
	}
	return dispatch.NewRevisionComparison(rev.Probation, func(reason string) { r.RollBack(rev.Plugin, rev.Number, reason) })
}

// newBreaker returns the breaker of a revision. It starts closed: new code or a
// new policy may be the correction.
func (r *Runner) newBreaker(rev *Revision, p *plugin) *dispatch.Breaker {
	identity := rev.Revision
	return dispatch.NewBreaker(func(s dispatch.BreakerStatus) {
		if s.State == dispatch.BreakerClosed {
			r.Events.Observe(events.PluginRecovered{Revision: identity})
			return
		}
		p.openings.Add(1)
		r.Events.Observe(events.PluginQuarantined{
			Revision: identity, Reason: s.Reason, NextProbe: s.NextProbe.Round(time.Millisecond),
			Failure: events.Failure{Class: s.LastFault.Class, Message: s.LastFault.Message, Stack: s.LastFault.Stack},
		})
	})
}
