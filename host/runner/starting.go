package runner

import (
	"context"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
)

// Caller calls exports of a guest beside the queue.
type Caller interface {
	// Revision returns the revision that new calls use.
	Revision() *dispatch.Revision
	// Call calls an export, see [dispatch.Controller.Call].
	Call(ctx context.Context, call dispatch.ExportCall) (sandbox.Return, error)
}

// Starting is a revision that is about to start, which its policy allows. It runs only once its informers have synced,
// and the API server may need the guest for that: to list objects that it has to have converted, for example.
type Starting struct {
	*Revision
	Resources map[abi.Kind]object.Resource // how the API server serves the kinds of the manifest
	Leads     func() bool                  // reports whether this replica leads the plugin
	// Caller returns what calls the guest for a controller until the revision is discarded, whether it runs or not. The
	// guest cannot read objects meanwhile. The host is ready before a plugin runs that has one: a Service may pass
	// requests to ready hosts alone. It must be called before [Capability].Starting has returned.
	Caller func(m abi.Controller) Caller
}

// early is what calls a loaded guest whether its revision runs or not.
type early struct {
	guest   *sandbox.Guest
	callers map[string]*dispatch.Controller // by the names of controllers; they do not run
	log     *telemetry.PluginLog            // nil: there is no caller
}

// announce calls the capabilities before each attempt to start a revision.
func (r *Runner) announce(rev *Revision, lead Lead, resources map[abi.Kind]object.Resource) {
	r.mu.Lock()
	before := r.early[rev.Plugin]
	if before != nil && before.guest == rev.Guest { // another attempt
		before = nil
	} else {
		r.early[rev.Plugin] = &early{guest: rev.Guest}
	}
	r.mu.Unlock()
	s := &Starting{Revision: rev, Resources: resources, Leads: func() bool { return lead == nil || lead.Leads() }}
	s.Caller = func(m abi.Controller) Caller { return r.callerOf(rev, m) }
	for _, c := range r.Capabilities {
		if c.Starting != nil {
			c.Starting(s)
		}
	}
	before.close()
}

// callerOf returns what calls the guest of a revision that is about to start for a controller.
func (r *Runner) callerOf(rev *Revision, m abi.Controller) *dispatch.Controller {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.early[rev.Plugin]
	if e.callers == nil {
		metrics := r.Metrics.Plugin(rev.Plugin)
		e.callers = map[string]*dispatch.Controller{}
		e.log = r.pluginLogs.Open(rev.Plugin, func() { metrics.Limited(sandbox.LimitLog) })
	}
	if e.callers[m.Name] == nil {
		e.callers[m.Name] = r.newCaller(rev, m, e.log)
	}
	return e.callers[m.Name]
}

func (r *Runner) newCaller(rev *Revision, m abi.Controller, log *telemetry.PluginLog) *dispatch.Controller {
	id := rev.Plugin + "/" + m.Name
	return dispatch.New(dispatch.Config{
		Plugin: rev.Plugin, Name: m.Name,
		Cache:   controllerCache{cache: r.Cache, controller: id, informers: &informers{}, ownWrites: &cache.OwnWrites{}},
		Metrics: noMetrics{}, LogLines: log,
		Events: r.Events,
		Logger: r.Logger.Named("dispatch").With("plugin", rev.Plugin, "controller", m.Name),
	}, nil, &dispatch.Revision{Number: rev.Number, Digest: rev.Digest, Guest: rev.Guest, Controller: m, Config: rev.Policy.Config})
}

// noMetrics are those of a controller that does not run. Of them a [dispatch.ExportCall] uses Dropped alone.
type noMetrics struct{ dispatch.Metrics }

func (noMetrics) Dropped() {}

// Discard implements [catalog.Runner].
func (r *Runner) Discard(rev *Revision) {
	r.mu.Lock()
	e := r.early[rev.Plugin]
	if e == nil || e.guest != rev.Guest {
		r.mu.Unlock()
		return
	}
	delete(r.early, rev.Plugin)
	r.mu.Unlock()
	for _, c := range r.Capabilities {
		if c.Discarded != nil {
			c.Discarded(rev)
		}
	}
	e.close()
}

// close ends what is in no map any more, nil for nothing.
func (e *early) close() {
	if e != nil && e.log != nil {
		e.log.Close()
	}
}
