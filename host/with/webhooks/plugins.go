package webhooks

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/runner"
)

// This file has the plugins that run or are being started, and what they offer.

// offers are what the controllers of a revision offer, by their names: those with a section.
type offers map[string]contract.Webhooks

func offersOf(m *abi.Manifest) offers {
	all := offers{}
	for _, c := range m.Controllers {
		if c.Section(contract.Name) != nil {
			all[c.Name] = contract.Of(&c)
		}
	}
	return all
}

// plugins are those that run, and those that convert before they do.
type plugins struct {
	mu       sync.Mutex
	running  map[string]*running
	starting map[string]*starting
}

func newPlugins() *plugins {
	return &plugins{running: map[string]*running{}, starting: map[string]*starting{}}
}

// running is a plugin that runs.
type running struct {
	controllers map[string]*controller // that can be called
	offered     *Plugin                // by the running revision; nil until all of its controllers have started
}

// starting is a revision that converts, whether it runs or not: one runs only once it has listed its primaries, which
// the API server may have to have converted before.
type starting struct {
	*runner.Starting
	offered     Plugin
	controllers map[string]*controller
}

// controller implements [Controller].
type controller struct {
	runner.Caller
	offers func(*dispatch.Revision) contract.Webhooks
}

func (c *controller) Offers(rev *dispatch.Revision) contract.Webhooks { return c.offers(rev) }

// all returns what the plugins review and convert, in the order of their names: those that run,
// and those that are being started and convert. The API server is told of these, so that it trusts the certificate
// of the host.
func (all *plugins) all() (found []Plugin) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, p := range all.running {
		if p.offered != nil {
			found = append(found, *p.offered)
		}
	}
	for name, s := range all.starting {
		if p := all.running[name]; p == nil || p.offered == nil {
			found = append(found, s.offered)
		}
	}
	slices.SortFunc(found, func(a, b Plugin) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// of returns what one plugin reviews and converts, nil if it does not run.
func (all *plugins) of(name string) *Plugin {
	all.mu.Lock()
	defer all.mu.Unlock()
	if p := all.running[name]; p != nil {
		return p.offered
	}
	return nil
}

// controller implements [Config].Controller.
func (all *plugins) controller(export, plugin, name string) Controller {
	all.mu.Lock()
	defer all.mu.Unlock()
	if p := all.running[plugin]; p != nil && p.controllers[name] != nil {
		return p.controllers[name]
	}
	if s := all.starting[plugin]; s != nil && export == contract.ExportConvert && s.controllers[name] != nil {
		return s.controllers[name]
	}
	return nil
}

// start implements [runner.Capability].Starting.
func (all *plugins) start(s *runner.Starting) {
	settings, next := SettingsOf(s.Policy), &starting{Starting: s, controllers: map[string]*controller{}}
	next.offered = Plugin{Name: s.Plugin, Webhooks: settings, DryRun: s.Policy.DryRun, Starting: true, Leads: s.Leads}
	for _, m := range s.Manifest.Controllers {
		of := contract.Of(&m)
		if settings == nil || !of.Convert {
			continue
		}
		next.controllers[m.Name] = &controller{s.Caller(m), func(*dispatch.Revision) contract.Webhooks { return of }}
		next.offered.Reviewed = append(next.offered.Reviewed, Reviewed{Controller: m.Name, Convert: true, Resource: s.Resources[m.For.Kind]})
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.starting, s.Plugin)
	if len(next.controllers) > 0 {
		all.starting[s.Plugin] = next
	}
}

// discard implements [runner.Capability].Discarded.
func (all *plugins) discard(rev *runner.Revision) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.starting[rev.Plugin]; s != nil && s.Guest == rev.Guest {
		delete(all.starting, rev.Plugin)
	}
}

// part is what is done with one plugin.
type part struct {
	c    *capability
	name string

	// Of the goroutine of the catalog.
	rev     *runner.Revision
	offers  offers
	started map[string]Reviewed // the controllers of the revision that have started
}

// use is called when a revision replaces the running one.
func (p *part) use(rev *runner.Revision) (kept any) {
	p.rev, p.offers, p.started = rev, offersOf(rev.Manifest), map[string]Reviewed{}
	p.c.started(p.name, p.offers)
	p.c.plugins.mu.Lock()
	defer p.c.plugins.mu.Unlock()
	if p.c.plugins.running[p.name] == nil {
		p.c.plugins.running[p.name] = &running{controllers: map[string]*controller{}}
	}
	return p.offers
}

func (p *part) controller(h runner.Handle) runner.ControllerPart {
	c := &controller{h, func(rev *dispatch.Revision) contract.Webhooks {
		kept, _ := h.Kept(rev).(offers)
		return kept[rev.Controller.Name]
	}}
	return runner.ControllerPart{
		Swapped: func(_, next *dispatch.Revision) { p.swapped(c, h, next) },
		Ended:   func() { p.ended(c) },
	}
}

// swapped is called when a controller runs the revision. What the plugin offers is replaced when all of them do: the
// webhook configurations have those of all.
func (p *part) swapped(c *controller, h runner.Handle, next *dispatch.Revision) {
	m, of, by := &next.Controller, p.offers[next.Controller.Name], next.Scopes.For
	p.started[m.Name] = Reviewed{
		Controller: m.Name, Validate: of.Validate, Mutate: of.Mutate, Convert: of.Convert,
		Resource: h.Resource(), Namespaces: by.Namespaces, Labels: by.LabelSelector(),
	}
	all := p.c.plugins
	all.mu.Lock()
	defer all.mu.Unlock()
	r := all.running[p.name]
	r.controllers[m.Name] = c
	if len(p.started) < len(p.rev.Manifest.Controllers) {
		return
	}
	r.offered = &Plugin{Name: p.name, Webhooks: SettingsOf(p.rev.Policy), DryRun: p.rev.Policy.DryRun, Leads: h.MayWrite}
	for _, m := range p.rev.Manifest.Controllers {
		if _, offers := p.offers[m.Name]; offers {
			r.offered.Reviewed = append(r.offered.Reviewed, p.started[m.Name])
		}
	}
}

// ended is called when a controller has ended.
func (p *part) ended(c *controller) {
	p.c.plugins.mu.Lock()
	defer p.c.plugins.mu.Unlock()
	if r := p.c.plugins.running[p.name]; r != nil {
		for name, other := range r.controllers {
			if other == c {
				delete(r.controllers, name)
			}
		}
	}
}

// stop is called when the plugin has stopped.
func (p *part) stop() {
	p.c.plugins.mu.Lock()
	defer p.c.plugins.mu.Unlock()
	delete(p.c.plugins.running, p.name)
}

func (c *capability) plugin(name string) runner.PluginPart {
	p := &part{c: c, name: name}
	return runner.PluginPart{
		Prepare: func(_ context.Context, rev *runner.Revision) (use runner.Use, err error) {
			return func(runner.Running) any { return p.use(rev) }, nil
		},
		Controller: p.controller,
		Stop:       p.stop,
	}
}
