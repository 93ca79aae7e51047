package dispatch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// work takes keys until there are none any more. runs is the context of the
// runs, which may go on after ctx.
func (c *Controller) work(ctx, runs context.Context) {
	for {
		l, ok := c.take(ctx)
		if !ok {
			return
		}
		c.process(runs, l)
	}
}

// lease is a key that was handed out, and the leave to run it.
type lease struct {
	due        Due
	generation *Generation
	pass       *pass
}

// take waits for the next key that may run. While the plugin's breaker is open
// the keys stay in the queue. One worker at a time is in here, so that the key
// that is the first in the queue is the one that runs.
func (c *Controller) take(ctx context.Context) (l lease, ok bool) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	for {
		c.generation.Load().Breaker.wait(ctx)
		due, ok := c.Queue.Next()
		if !ok {
			return lease{}, false
		}
		g := c.generation.Load()
		if pass, ok := g.Breaker.admit(); ok {
			return lease{due, g, pass}, true
		}
		c.Queue.Return(due)
	}
}

// process is one run, from the key to the key.
func (c *Controller) process(ctx context.Context, l lease) {
	defer l.pass.cancel()
	r := c.begin(ctx, l.due, l.generation)
	if r == nil {
		return
	}
	done := c.Metrics.Started()
	r.call(ctx)
	r.decide(nil)
	r.perform(ctx)
	r.judge(l.pass)
	r.trial()
	r.end()
	done(string(r.decision.Metric), r.decision.Class, time.Since(r.start).Seconds())
}

// run is one reconcile under way.
type run struct {
	c          *Controller
	generation *Generation
	due        Due
	id         string
	start      time.Time
	seed       [32]byte
	logger     hclog.Logger
	state      *keyState

	given   *object.Object // as the guest was given it
	primary *object.Object // with what this run has written since

	reads    Reads
	unsynced bool // a read could not be answered yet
	replaced bool // the guest was closed before the call began: the next generation makes the run

	code     abi.Code
	result   *abi.Result
	fault    *outcome.Fault
	broke    *Fault // in fault, if the guest is to blame
	usage    Usage
	decision outcome.Decision
	// uncounted says that the run is repeated as if it had not been.
	uncounted bool

	failures []abi.EffectFailure
	writes   []Write
	own      map[string]bool
}

// begin goes from the key to the object and what is remembered of it. It
// returns nil for a key that needs no run, which is settled then, and for one
// whose generation was replaced meanwhile, which goes back into the queue.
func (c *Controller) begin(ctx context.Context, due Due, g *Generation) *run {
	primary, err := c.current(ctx, due.Key)
	switch {
	case err != nil:
		c.Logger.Warn("read object", "object", due.Key.String(), "error", err)
		c.Queue.Settle(due.Key, outcome.Next{Kind: outcome.Backoff, After: outcome.MinDelay, Reason: abi.ReasonRetry})
		return nil
	case primary == nil:
		c.forget(due.Key)
		c.Queue.Settle(due.Key, outcome.Next{})
		return nil
	case !primary.Deleting() && primary.Annotations[Suspend] == "true":
		c.Queue.Settle(due.Key, outcome.Next{}) // taking the annotation away is a change
		return nil
	case primary.Deleting() && !g.Effects.HasFinalizer(primary, &g.Controller):
		c.Queue.Settle(due.Key, outcome.Next{})
		return nil
	}
	if pause := c.held(due, primary); pause > 0 {
		c.Queue.Settle(due.Key, outcome.Next{Kind: outcome.After, After: pause, Reason: abi.ReasonRequeue})
		return nil
	}
	state, due := c.state(due, primary.UID, g)
	if state == nil {
		c.Queue.Return(due)
		return nil
	}
	r := &run{
		c: c, generation: g, due: due, state: state, start: time.Now(), given: primary, primary: primary,
		reads: c.Cache.Begin(due.Key), own: map[string]bool{},
	}
	rand.Read(r.seed[:]) // never fails
	r.id = hex.EncodeToString(r.seed[:4])
	r.logger = c.Logger.With("object", due.Key.String(), "generation", g.Number, "reconcileID", r.id)
	return r
}

// call hands the request to the guest. What comes of it is in code and
// result, or in fault.
func (r *run) call(ctx context.Context) {
	call := Call{
		Request: abi.EncodeRequest(r.request()),
		Now:     r.start,
		Seed:    r.seed,
		Timeout: time.Duration(r.generation.Controller.Timeout) * time.Millisecond,
		Host:    r,
		Then:    r.read,
	}
	returned, err := r.generation.Guest.Reconcile(ctx, call)
	r.usage = returned.Usage
	switch {
	case err != nil:
		r.failed(err)
	case r.result == nil && r.fault == nil:
		r.read(returned)
	}
}

// read takes in what the guest returned.
func (r *run) read(returned Return) {
	r.code = returned.Code
	if len(returned.Output) == 0 && r.code != abi.CodeOK {
		r.result = &abi.Result{} // the code says it all
		return
	}
	var err error
	if r.result, err = abi.DecodeResult(returned.Output); err != nil {
		r.fault = &outcome.Fault{Class: abi.ClassABI, Reason: "InvalidResult", Message: "the plugin's result is not understood: " + err.Error() + "; correct the plugin, or build it with the SDK of this host's version"}
	}
	r.boundIntents(err)
}

// boundIntents refuses a result with more intents than the plugin may have.
func (r *run) boundIntents(decoded error) {
	most := r.generation.Intents
	over := decoded == nil && most > 0 && r.result.Intents() > most
	if over {
		r.fault = &outcome.Fault{Class: abi.ClassABI, Reason: "TooManyIntents", Message: fmt.Sprintf("the plugin's result has %d entries of apply, delete and events, its limit is %d: want less in one run, or raise limits.intents of the plugin's policy or the host's configuration", r.result.Intents(), most)}
	}
	if over || abi.TooManyIntents(decoded) {
		r.c.Metrics.Limited("intents")
	}
}

// request is what the guest is given.
func (r *run) request() *abi.Request {
	return &abi.Request{
		Controller: r.c.Name,
		Object:     r.given.Raw,
		Deleting:   r.given.Deleting(),
		Reasons:    r.due.Reasons,
		Attempt:    r.state.tries.Attempt,
		Previous:   r.state.previous,
		Memo:       r.state.memo,
		Now:        r.start,
		Seed:       r.seed,
		Config:     r.generation.Config,
	}
}

// decide turns what happened into a decision, again when an effect failed.
func (r *run) decide(failure *Failure) {
	in := outcome.Input{
		Code:       r.code,
		Result:     r.result,
		Fault:      r.fault,
		Tries:      r.state.tries,
		Controller: &r.generation.Controller,
		Object: outcome.Object{
			Generation: r.given.Generation,
			Conditions: readConditions(r.given.Raw),
			Deleting:   r.given.Deleting(),
		},
		Jitter: mathrand.Float64(),
		Now:    r.start,
	}
	if failure != nil {
		in.Effect, in.Uncounted = &failure.EffectFailure, failure.Conflict
	}
	if failure == nil && r.unsynced {
		in.Fault = &outcome.Fault{Message: "a read could not be answered yet"}
		in.Uncounted = true
	}
	in.Uncounted = in.Uncounted || r.replaced
	r.uncounted = in.Uncounted
	r.decision = outcome.Decide(in)
}

// perform carries the decision out: finalizer, patch, apply, delete, events,
// status, and the end of the finalizer. A failure leads to another decision, of
// which only the host's part of the status is written.
func (r *run) perform(ctx context.Context) {
	if r.decision.Intents {
		if failure := r.intents(ctx); failure != nil {
			r.fail(failure)
		}
	}
	r.tell(ctx)
	if r.decision.RemoveFinalizer {
		if failure := r.release(ctx); failure != nil {
			r.fail(failure)
			r.tell(ctx)
		}
	}
}

// tell writes the status.
func (r *run) tell(ctx context.Context) {
	if failure := r.status(ctx); failure != nil {
		r.failStatus(ctx, failure)
	}
}

// failStatus tells on the object that the API server refuses the status that
// the guest wants there: then the host's part is written alone.
func (r *run) failStatus(ctx context.Context, failure *Failure) {
	guests := r.decision.GuestStatus && r.result != nil && len(r.result.Status) > 0
	r.fail(failure)
	if !guests || failure.Conflict || !slices.Contains(refusals, failure.Reason) {
		return
	}
	if second := r.status(ctx); second != nil {
		r.failures = append(r.failures, second.EffectFailure) // the first one counts
	}
}

// refusals are the reasons of the API server for what no later attempt with
// the same content can change.
var refusals = []string{string(metav1.StatusReasonInvalid), string(metav1.StatusReasonBadRequest), string(metav1.StatusReasonRequestEntityTooLarge)}

func (r *run) fail(failure *Failure) {
	r.failures = append(r.failures, failure.EffectFailure)
	r.decide(failure)
}

// end remembers what the next run needs and settles the key.
func (r *run) end() {
	if r.fault != nil || r.unsynced {
		r.reads.Abandon()
	} else {
		r.reads.Commit()
	}
	s := r.state
	s.tries = r.decision.Tries
	s.await(r.writes)
	if r.decision.KeepMemo {
		s.memo = r.result.Memo
	}
	s.previous = nil
	if r.decision.Class != abi.ClassNone {
		s.previous = &abi.Previous{Class: r.decision.Class, Failures: r.failures}
	}
	g := s.guard
	if g.ran(time.Now(), len(r.writes) > 0) {
		r.c.Metrics.Looped()
		r.logger.Warn("writes in every run, slowed to one run in 10 s", "writes", len(r.writes))
		if r.decision.Event == nil {
			r.decision.Event = loopEvent()
		}
	}
	r.report()
	r.c.finish(r.due.Key, s, g, r.own)
	r.c.Queue.Settle(r.due.Key, r.decision.Next)
}

// report tells the log, and the object's events, how the run ended.
func (r *run) report() {
	d := r.decision
	fields := []any{"result", string(d.Metric), "duration", time.Since(r.start).Round(time.Microsecond).String(), "writes", len(r.writes), "attempt", d.Tries.Attempt, "fuel", r.usage.Fuel, "memoryBytes", r.usage.MemoryBytes}
	if r.broke != nil {
		fields = append(fields, "stack", r.broke.Stack)
	}
	if d.Next.Kind != outcome.AwaitChange {
		fields = append(fields, "next", d.Next.After.String())
	}
	switch d.Class {
	case abi.ClassNone:
		r.logger.Debug("reconciled", fields...)
	case abi.ClassWaiting: // as often as the guest likes
		if r.mayLog() {
			r.logger.Info("reconcile waits", append(fields, "reason", d.Reason, "message", d.Message)...)
		}
	case abi.ClassRetry, abi.ClassStalled:
		r.logger.Warn("reconcile failed", append(fields, "class", d.Class, "reason", d.Reason, "message", d.Message)...)
	default:
		r.logger.Error("reconcile failed", append(fields, "class", d.Class, "reason", d.Reason, "message", d.Message)...)
	}
	r.generation.Effects.Event(r.primary, &r.generation.Controller, d.Event)
}
