package runner

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/election"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/webhook"
)

// converters convert objects by a loaded guest whether its revision runs or not. A revision runs
// only once it has listed its primaries, which the API server may have to have converted before.
type converters struct {
	guest  *sandbox.Guest
	byName map[string]*dispatch.Controller // they do not run, and their cache is empty
	log    *telemetry.PluginLog

	reviewed *webhook.Plugin  // by the revision
	lead     *election.Plugin // nil: there is one replica
}

// startConverting makes the guest of a revision, which its policy allows, convert objects in the
// place of the one before. The API server is told, so that it trusts the certificate of the host.
func (r *Runner) startConverting(rev *Revision, lead *election.Plugin, reviewed *webhook.Plugin) {
	r.mu.Lock()
	before := r.converters[rev.Plugin]
	if before != nil && before.guest == rev.Guest { // another attempt to start it
		r.mu.Unlock()
		return
	}
	delete(r.converters, rev.Plugin)
	if next := r.newConverters(rev); next != nil {
		next.reviewed, next.lead = reviewed, lead
		r.converters[rev.Plugin] = next
	}
	r.mu.Unlock()
	before.close()
}

// starting returns what a plugin that does not run is to convert.
func (c *converters) starting() webhook.Plugin {
	p := *c.reviewed
	p.Starting, p.Leads = true, c.lead == nil || c.lead.Leads()
	return p
}

// newConverters returns nil if a revision converts nothing.
func (r *Runner) newConverters(rev *Revision) *converters {
	byName := map[string]*dispatch.Controller{}
	for _, m := range rev.Manifest.Controllers {
		if webhook.SettingsOf(rev.Policy) != nil && webhooks.Of(&m).Convert {
			byName[m.Name] = r.newConverter(rev, m)
		}
	}
	if len(byName) == 0 {
		return nil
	}
	metrics := r.Metrics.Plugin(rev.Plugin)
	c := &converters{guest: rev.Guest, byName: byName, log: r.pluginLogs.Open(rev.Plugin, func() { metrics.Limited(sandbox.LimitLog) })}
	for _, one := range byName {
		one.LogLines = c.log
	}
	return c
}

func (r *Runner) newConverter(rev *Revision, m abi.Controller) *dispatch.Controller {
	id := rev.Plugin + "/" + m.Name
	return dispatch.New(dispatch.Config{
		Plugin: rev.Plugin, Name: m.Name,
		Cache:   controllerCache{cache: r.Cache, controller: id, informers: &informers{}, indexes: &indexes{}, ownWrites: &cache.OwnWrites{}},
		Metrics: noMetrics{},
		Events:  r.Events,
		Logger:  r.Logger.Named("dispatch").With("plugin", rev.Plugin, "controller", m.Name),
	}, &dispatch.Revision{Number: rev.Number, Digest: rev.Digest, Guest: rev.Guest, Controller: m, Config: rev.Policy.Config})
}

// noMetrics are those of a controller that does not run. Of them a conversion uses Dropped alone.
type noMetrics struct{ dispatch.Metrics }

func (noMetrics) Dropped() {}

// Discard implements [catalog.Runner].
func (r *Runner) Discard(rev *Revision) {
	r.mu.Lock()
	c := r.converters[rev.Plugin]
	if c != nil && c.guest == rev.Guest {
		delete(r.converters, rev.Plugin)
	} else {
		c = nil
	}
	r.mu.Unlock()
	c.close()
}

// close ends converters that are in no map any more, nil for none.
func (c *converters) close() {
	if c != nil {
		c.log.Close()
	}
}
