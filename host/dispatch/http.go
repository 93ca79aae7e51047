package dispatch

import (
	"context"
	"errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/egress"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sandbox"
)

// HTTP implements the host function http (SPEC.md, "http"). Nothing is sent for a run that will be
// repeated because something could not be read, nor when another replica may lead the plugin.
func (g *guestCall) HTTP(ctx context.Context, served sandbox.ReadCall) (sandbox.Reply, int64) {
	call, err := abi.DecodeHTTPCall(served.Message)
	switch {
	case err != nil:
		return g.invalid("http", err)
	case g.revision.HTTP == nil:
		g.warn("http denied: HTTP of the controller names no host")
		return sandbox.Reply{}, abi.CodeDenied
	case g.incomplete != nil:
		return sandbox.Reply{}, abi.CodeUnavailable
	}
	end, err := g.c.beginSending()
	if err != nil {
		return g.notSent(err)
	}
	defer end()
	if g.hold != nil && !g.hold(ctx) {
		return sandbox.Reply{}, abi.CodeUnavailable
	}
	reply, err := g.revision.HTTP.Do(ctx, g.revision.Controller.HTTP, call, min(served.MaxReply, abi.MaxHTTPAnswer), g.c.maySend, g.requestEnded)
	if err != nil {
		return g.notSent(err)
	}
	return sandbox.Bytes(abi.EncodeHTTPReply(reply)), 0
}

// requestEnded reports a request to the observers.
func (g *guestCall) requestEnded(e events.RequestEnded) {
	e.Run = g.identity()
	g.c.Events.Observe(e)
}

// beginSending returns an error if another replica may lead the plugin. Until end is called this one
// does not give up its Lease.
func (c *Controller) beginSending() (end func(), err error) {
	if c.Lease == nil {
		return func() {}, nil
	}
	return c.Lease.BeginWrite()
}

// maySend returns an error if the replica has ceased to lead the plugin since the request began: it
// waits before it is sent.
func (c *Controller) maySend() error {
	end, err := c.beginSending()
	if err == nil {
		end()
	}
	return err
}

// addsFinalizer adds the finalizer before the first request of the run: the cleanup may have to undo it. It
// reports whether the object has the finalizer, or needs none. One that is being deleted has it: without
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

// errNotHeld is why a run is repeated that has sent nothing.
var errNotHeld = errors.New("nothing was sent, because the finalizer has not been added yet")

// settleUnheld ends a run whose object could not be held, whatever the guest has made of that. If the
// API server or the limit of writes has asked for time, the run is repeated after that, as if it had
// not taken place.
func (r *run) settleUnheld() {
	failure := r.unheld
	if failure == nil || failure.Later <= 0 {
		r.settle(failure)
		return
	}
	if failure.Uncertain {
		r.state.addUncertain(failure.Ref)
	}
	r.incomplete = errNotHeld
	r.decide(nil)
	r.decision.Next.After = max(r.decision.Next.After, failure.Later)
}

// notSent returns the code of a request without a reply.
func (g *guestCall) notSent(err error) (sandbox.Reply, int64) {
	if _, invalid := errors.AsType[*egress.InvalidError](err); invalid {
		return g.invalid("http", err)
	}
	code := abi.CodeUnavailable
	if _, denied := errors.AsType[*egress.DeniedError](err); denied {
		code = abi.CodeDenied
	} else if errors.Is(err, egress.ErrTooLarge) {
		code = abi.CodeTooLarge
	}
	g.warn("http: the request has no answer", "error", err)
	return sandbox.Reply{}, code
}
