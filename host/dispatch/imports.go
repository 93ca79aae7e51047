package dispatch

import (
	"context"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file has the functions of the host that capabilities answer, and what a call needs that has effects outside of
// the cluster.

// ImportCall is a call of a function that a capability answers. Its functions may be called until the answer is
// returned, by the same goroutine.
type ImportCall struct {
	sandbox.ReadCall
	Revision *Revision  // that the guest is of
	Run      events.Run // or the other call of the guest that has led to this one
	Kept     any        // what the capability keeps for the revision

	// BeginEffect must be called before the call does something outside of the cluster. The object has the finalizer
	// by which that is cleaned up then, and until end is called this replica does not give up its Lease. A code that
	// is not 0 is the result of the call, and nothing may be done: another replica may lead the plugin, or the call
	// of the guest will be repeated because something could not be read. It sends requests to the API server, and
	// blocks for these.
	BeginEffect func(ctx context.Context) (end func(), code int64)
	// ListDerived lists objects of a kind that the capability has derived from another one, in a namespace or, if that
	// is "", in all where the guest may list the other one. A code that is not 0 is the result of the call.
	ListDerived func(ctx context.Context, namespace string, wanted cache.Reading) (found cache.List, code int64)
	// MayGoOn returns an error if the replica has ceased to lead the plugin since the effect began, which may wait or
	// have several steps: nothing more may be done.
	MayGoOn func() error
	// Warn logs a line about the call, within what the plugin may cause to be logged.
	Warn func(message string, args ...any)
}

// Import implements [sandbox.HostCalls].
func (g *guestCall) Import(ctx context.Context, name string, served sandbox.ReadCall) (sandbox.Reply, int64) {
	for i := range g.c.Hooks {
		if f := g.c.Hooks[i].Imports[name]; f != nil {
			reply, code := f(ctx, &ImportCall{
				ReadCall: served, Revision: g.revision, Run: g.identity(), Kept: g.revision.KeptBy(i),
				BeginEffect: func(ctx context.Context) (func(), int64) { return g.beginEffect(ctx, name) },
				ListDerived: func(ctx context.Context, namespace string, wanted cache.Reading) (cache.List, int64) {
					wanted.Look = served.Pay
					return g.listDerived(ctx, name, namespace, wanted)
				},
				MayGoOn: g.c.mayGoOn,
				Warn:    func(message string, args ...any) { g.warn(name+": "+message, args...) },
			})
			return sandbox.Bytes(reply), code
		}
	}
	return sandbox.Reply{}, abi.CodeDenied
}

// KeptBy returns what the capability of a hook keeps for the revision.
func (rev *Revision) KeptBy(hook int) any {
	if hook < len(rev.Kept) {
		return rev.Kept[hook]
	}
	return nil
}

// Invalid returns the code of a call that is not as its specification says, and logs why.
func (c *ImportCall) Invalid(err error) (reply []byte, code int64) {
	c.Warn("the message is not valid", "error", err)
	return nil, abi.CodeInvalid
}

// beginEffect is [ImportCall.BeginEffect] of the import.
func (g *guestCall) beginEffect(ctx context.Context, name string) (end func(), code int64) {
	if g.incomplete != nil {
		return nil, abi.CodeUnavailable
	}
	end, err := g.c.beginEffect()
	if err != nil {
		g.warn(name+": nothing is done outside of the cluster", "error", err)
		return nil, abi.CodeUnavailable
	}
	if g.hold != nil && !g.hold(ctx) {
		end()
		return nil, abi.CodeUnavailable
	}
	return end, 0
}

// listDerived is [ImportCall.ListDerived] of the import.
func (g *guestCall) listDerived(
	ctx context.Context, name, namespace string, wanted cache.Reading,
) (found cache.List, code int64) {
	of, _ := cache.SourceOf(wanted.Kind)
	wanted.Namespaces, code = g.mayRead(ctx, rights.List, of, &object.Key{Namespace: namespace}, func(in []string) ([]string, int64) {
		return g.revision.Scopes.Reads[of].Namespaces(in), 0
	})
	if code != 0 {
		return found, code
	}
	found, err := g.reads.List(wanted)
	if err != nil {
		return found, g.unavailable(name, of, err)
	}
	return found, 0
}

// mayGoOn is [ImportCall.MayGoOn].
func (c *Controller) mayGoOn() error {
	end, err := c.beginEffect()
	if err == nil {
		end()
	}
	return err
}

// beginEffect returns an error if another replica may lead the plugin. Until end is called this one
// does not give up its Lease.
func (c *Controller) beginEffect() (end func(), err error) {
	if c.Lease == nil {
		return func() {}, nil
	}
	return c.Lease.BeginWrite()
}

// addsFinalizer adds the finalizer before the first effect of the run outside of the cluster: the cleanup may have to
// undo it. It reports whether the object has the finalizer, or needs none. One that is being deleted has it: without
// it there would be no run.
func (r *run) addsFinalizer(ctx context.Context) bool {
	if !r.revision.Controller.Finalizer || r.gone != nil || r.revision.Effects.HasFinalizer(r.target()) {
		return true
	}
	if r.unheld == nil {
		report, failure := r.revision.Effects.EnsureFinalizer(ctx, r.target())
		r.wrote(report, report.Primary)
		r.unheld = failure
	}
	return r.unheld == nil
}
