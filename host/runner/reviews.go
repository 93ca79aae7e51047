package runner

import (
	"cmp"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/webhook"
)

// reviewedOf returns what the controllers of a revision review and convert.
func reviewedOf(rev *Revision, follows *scope.Plugin, resources map[abi.Kind]object.Resource) *webhook.Plugin {
	p := &webhook.Plugin{Name: rev.Plugin, Webhooks: webhook.SettingsOf(rev.Policy), DryRun: rev.Policy.DryRun}
	for i, m := range rev.Manifest.Controllers {
		if of := webhooks.Of(&m); m.Section(webhooks.Name) != nil {
			by := follows.Controllers[i].For
			p.Reviewed = append(p.Reviewed, webhook.Reviewed{
				Controller: m.Name, Validate: of.Validate, Mutate: of.Mutate, Convert: of.Convert,
				Resource: resources[m.For.Kind], Namespaces: by.Namespaces, Labels: by.LabelSelector(),
			})
		}
	}
	return p
}

// Reviewed returns what the plugins review and convert, in the order of their names: those that run,
// and those that are being started and convert.
func (r *Runner) Reviewed() (all []webhook.Plugin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.plugins {
		if reviewed := p.reviewed.Load(); reviewed != nil {
			one := *reviewed
			one.Leads = p.leads()
			all = append(all, one)
		}
	}
	for name, c := range r.converters {
		if p := r.plugins[name]; p == nil || p.reviewed.Load() == nil {
			all = append(all, c.starting())
		}
	}
	slices.SortFunc(all, func(a, b webhook.Plugin) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// ReviewedOf returns what one plugin reviews and converts. ok is false if it does not run.
func (r *Runner) ReviewedOf(plugin string) (reviewed *webhook.Plugin, ok bool) {
	p := r.running(plugin)
	if p == nil {
		return nil, false
	}
	reviewed = p.reviewed.Load()
	return reviewed, reviewed != nil
}

// Reviewer returns the controller of a plugin that calls an export: one that runs, or for
// conversions one of a loaded revision. It returns nil if there is none.
func (r *Runner) Reviewer(export, plugin, name string) webhook.Controller {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.controllers[plugin+"/"+name]; c != nil {
		return c.Controller
	}
	if loaded := r.converters[plugin]; export == webhooks.ExportConvert && loaded != nil {
		if c := loaded.byName[name]; c != nil {
			return c
		}
	}
	return nil
}
