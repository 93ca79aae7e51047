package runner

import (
	"cmp"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/receive"
)

// receive sets what the controllers of a revision receive, and how much of it.
func (p *plugin) receive(rev *Revision, resources map[abi.Kind]object.Resource) {
	receive.SetRate(p.events, float64(rev.Policy.Limits.EventsPerSecond))
	var all []receive.Receiver
	for _, m := range rev.Manifest.Controllers {
		if len(m.Receives) > 0 {
			all = append(all, receive.Receiver{Plugin: rev.Plugin, Name: m.Name, Receives: m.Receives, Primaries: resources[m.For.Kind], Rate: p.events})
		}
	}
	p.receives.Store(&all)
}

// Receivers returns the controllers that receive events, of the plugins that run, in the order of their
// names. One that is being replaced has no Controller.
func (r *Runner) Receivers() (all []receive.Receiver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, p := range r.plugins {
		declared := p.receives.Load()
		if declared == nil {
			continue
		}
		for _, one := range *declared {
			one.Leads = p.leads()
			if c := r.controllers[name+"/"+one.Name]; c != nil && !c.stopping.Load() {
				one.Controller = c.Controller
			}
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b receive.Receiver) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// KnowsReceivers reports whether it is known what a plugin receives: a revision of it runs.
func (r *Runner) KnowsReceivers(plugin string) bool {
	p := r.running(plugin)
	return p != nil && p.receives.Load() != nil
}
