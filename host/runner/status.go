package runner

import (
	"fmt"
	"maps"
	"time"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
)

// Status is the state of a plugin that runs or is started.
type Status struct {
	// WaitsFor is what the plugin waits for now, at its start or because its informers
	// are late; "" if it does not.
	WaitsFor string
	// Answers states that a capability calls the guest before the plugin runs.
	Answers bool
	// Breaker is that of the running revision; nil while it is started.
	Breaker *dispatch.BreakerStatus
	// Openings is how often a breaker has opened since the plugin was added.
	Openings uint64
	// CannotFollow describes each kind whose changes do not reach the plugin now,
	// and why: for want of a right, or of the API server.
	CannotFollow []string
	// MissingRights has for each rule that the service account of the plugin lacks, or the
	// host for it, who lacks it and what to add.
	MissingRights []string
	// OwnWrites is how many objects the plugin has written that its informers do not
	// show yet.
	OwnWrites int
	// Capabilities has what they show of the plugin, by their names.
	Capabilities map[string]any
	// Usage is how much of its limits of bytes the plugin has used up.
	Usage effect.Usage
}

// Statuses returns the states of the plugins of which something runs or is started,
// by name.
func (r *Runner) Statuses() map[string]Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]Status, len(r.plugins))
	for name, p := range r.plugins {
		status := Status{CannotFollow: p.informers.problems(), Openings: p.openings.Load(), OwnWrites: p.ownWrites.Len(), Capabilities: shown(p.parts), MissingRights: p.review.Load().missingRights()}
		if e := p.effects.Load(); e != nil {
			status.Usage = e.Usage()
		}
		if p.ownWrites.Full() {
			status.WaitsFor = fmt.Sprintf("informers that are late: they do not show %d objects yet that it has written", status.OwnWrites)
		}
		if b := p.breaker.Load(); b != nil {
			now := b.Status()
			status.Breaker = &now
		}
		out[name] = status
	}
	for name, what := range r.waitsFor {
		status := out[name]
		status.WaitsFor = what
		out[name] = status
	}
	for name, e := range r.early {
		if e.callers != nil {
			status := out[name]
			status.Answers = true
			out[name] = status
		}
	}
	return out
}

// Impairments implements [catalog.Runner].
func (r *Runner) Impairments(plugin string) catalog.Impairments {
	p := r.running(plugin)
	if p == nil {
		return catalog.Impairments{}
	}
	b, e := p.breaker.Load(), p.effects.Load()
	return catalog.Impairments{
		Tripped:    b != nil && b.Status().State != dispatch.BreakerClosed,
		NotLeading: e != nil && e.Lease != nil && e.Lease.Check() != nil,
	}
}

// LastRuns returns how the latest run of each object has ended, by the controllers that run, each named
// plugin/controller.
func (r *Runner) LastRuns() map[string][]dispatch.LastRun {
	r.mu.Lock()
	running := maps.Clone(r.controllers)
	r.mu.Unlock()
	out := make(map[string][]dispatch.LastRun, len(running))
	for id, c := range running {
		out[id] = c.LastRuns()
	}
	return out
}

// newComparison returns the probation of a revision, nil if it is not on
// probation.
func newComparison(rev *Revision) *dispatch.RevisionComparison {
	if rev.Probation.IsZero() {
		return nil
	}
	number := rev.Number
	return dispatch.NewRevisionComparison(rev.Probation, func(reason string) { rev.RollBack(number, reason) })
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
			Controller: s.LastFault.Controller, Object: s.LastFault.Object,
			Failure: events.Failure{Class: s.LastFault.Class, Message: s.LastFault.Message, Stack: s.LastFault.Stack},
		})
	})
}
