package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file makes the turns of capabilities, which are calls of the guest beside the runs of objects: here for no
// object, in objectturns.go for one. A turn has a key in the queue beside those of the objects, and takes the place
// of a run: so that the Lease, the circuit breaker, the workers and the shutdown are those of runs, and the queue
// keeps it from running beside itself.

// Turn is a call of the guest that a capability has made at an interval, once for all objects and all
// replicas, and that makes objects due. A capability returns the turns of a revision from [Hooks.Turns].
type Turn struct {
	// Key is the name of its key in the queue, in logs and reports: of the capability, a slash, and a name of
	// its own. No object has such a name, because none has a slash; but an owner reference may have it, which
	// the API server does not check.
	Key string
	// What is the turn in messages, such as "scan", and Event the name of the report that it has ended.
	What, Event string
	// Interval is the time from the end of a turn to the next one, to which jitter is added.
	Interval time.Duration

	// Export is called with Request, and Decode is given what it has written, while the guest still holds
	// its execution slot: the objects to run, and of a call that has failed why, nil for no reason. An
	// error is a violation of the contract.
	Export  string
	Request func(now time.Time, seed [32]byte) [][]byte
	Decode  func(output []byte) (found []Signalled, failure *abi.Failure, err error)

	// Started is called when it begins, and the function that it returns when that has ended.
	Started func() (ended func())
	// Ended is called when it has ended, and its objects are due. It is not called for one that could not be
	// made or not read what it needs, or that is another replica's or revision's: it is made again.
	Ended func(events.TurnEnded)
	// Idle is called when the replica does not lead the plugin any more.
	Idle func()
}

// Signalled is an object that a turn makes due.
type Signalled struct {
	Key    object.Key
	Signal []byte // of the next request of the object; nil for none
}

// pendingTurn is a turn, and when it is due; the zero time is now.
type pendingTurn struct {
	Turn
	due time.Time
}

const (
	// turnJitter is the share of the interval that is added at most.
	turnJitter = 0.05
	// turnRetry is the time until a turn is made again that could not be made, or not read.
	turnRetry = time.Second
)

// isTurn reports whether a key is that of a turn, for no object or for one: no object has such a name.
func isTurn(key object.Key) bool { return strings.Contains(key.Name, "/") }

// turnsOf returns the turns of a revision, all due now. It calls hooks.
func (c *Controller) turnsOf(revision *Revision) map[string]pendingTurn {
	all := map[string]pendingTurn{}
	for i := range c.Hooks {
		if f := c.Hooks[i].Turns; f != nil {
			for _, t := range f(revision) {
				all[t.Key] = pendingTurn{Turn: t}
			}
		}
	}
	return all
}

// BeginTurns makes every turn of the running revision due now. It must be called when the replica begins
// to lead the plugin.
func (c *Controller) BeginTurns() {
	c.mu.Lock()
	turns := c.setTurns(c.turns)
	c.mu.Unlock()
	c.addTurns(nil, turns)
}

// setTurns makes turns the ones that there are, all of them due now, and returns them. Controller.mu is held.
func (c *Controller) setTurns(turns map[string]pendingTurn) map[string]pendingTurn {
	c.turnRound++
	c.turns = make(map[string]pendingTurn, len(turns))
	for key, t := range turns {
		c.turns[key] = pendingTurn{Turn: t.Turn}
	}
	return turns
}

// addTurns adds the keys of turns to the queue, before what runs without a change, in the place of those
// before.
func (c *Controller) addTurns(before, turns map[string]pendingTurn) {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		c.queue.Forget(object.Key{Name: key})
	}
	for _, key := range slices.Sorted(maps.Keys(turns)) {
		c.due(turnBegun, object.Key{Name: key})
	}
}

// idleTurns is called when the replica does not lead the plugin any more.
func (c *Controller) idleTurns() {
	c.mu.Lock()
	turns := slices.Collect(maps.Values(c.turns))
	c.mu.Unlock()
	for _, t := range turns {
		t.Idle()
	}
}

// processTurn is [Controller.process] for the key of a turn.
func (c *Controller) processTurn(ctx context.Context, item workItem) {
	if t := c.objectTurn(item.Key); t != nil {
		c.queue.Done(item.Key, outcome.Turn(c.makeObjectTurn(ctx, item, t)))
		return
	}
	wait, t, exists := c.untilTurn(item)
	switch {
	case t.round == 0:
		c.queue.PutBack(item.Item)
		return
	case !exists:
		c.queue.Done(item.Key, outcome.Next{})
		return
	case wait > 0: // who has made the key due is not the queue
		c.queue.Done(item.Key, outcome.Turn(wait))
		return
	}
	t.reads = c.Cache.BeginUnrecorded(item.Key, item.revision.Scopes.Reads)
	ended := t.Started()
	t.call(ctx, t.Export, t.sandboxCall(t.Request(t.start, t.seed), "", t.timeout()))
	t.reads.Close()
	if t.decide(ctx, t.outdated()); t.decision.Uncounted {
		t.found = nil
	}
	t.reportToBreaker(item.permit, &t.decision) // a turn has no standing: how it has ended counts for no other one
	t.deliver()
	ended()
	t.report()
	c.queue.Done(item.Key, t.next())
}

// untilTurn returns the time until a turn for no object is due. Its round is 0 if the revision was replaced,
// which the next one that takes the key finds.
func (c *Controller) untilTurn(item workItem) (wait time.Duration, t roundTurn, exists bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if item.revision != c.revisionFor(item.Key) {
		return 0, roundTurn{}, false
	}
	pending, exists := c.turns[item.Key.Name]
	given := &object.Object{Kind: item.revision.Controller.For.Kind}
	call := turn{guestCall: c.newCall(item.revision, item.Key, given), what: pending.What, decode: pending.Decode}
	return time.Until(pending.due), roundTurn{turn: call, Turn: pending.Turn, round: c.turnRound}, exists && item.Key.Namespace == ""
}

// turn is a turn in progress, for no object or for one.
type turn struct {
	guestCall
	what     string
	decode   func(output []byte) (found []Signalled, failure *abi.Failure, err error)
	decision outcome.Decision

	found      []Signalled // what it has returned
	failure    events.Failure
	duration   time.Duration
	hostFailed bool // the guest is not to blame for fault
}

// call calls the guest. Its outcome is in found or failure, or in fault or incomplete.
func (t *turn) call(ctx context.Context, export string, call sandbox.Call) {
	call.BeforeRelease = t.decoded
	returned, err := t.revision.Guest.Call(ctx, export, call)
	t.returned, t.duration = returned, time.Since(t.start)
	if err != nil {
		t.failed(err)
		t.hostFailed = t.guestFault == nil
	}
}

func (t *turn) decoded(returned sandbox.Return) {
	found, failure, err := t.decode(returned.Output)
	refused, isRefused := errors.AsType[*ResultError](err)
	switch {
	case isRefused:
		t.fault = &outcome.Fault{Class: abi.ClassABI, Reason: refused.Reason, Message: refused.Message}
	case err != nil:
		t.fault = &outcome.Fault{Class: abi.ClassABI, Reason: "InvalidResult", Message: "what the " + t.what + " has written cannot be decoded: " + err.Error() + "; correct the plugin, or build it with the SDK of the host's version"}
	case returned.Code == abi.CodeOK:
		t.found = found
	default:
		t.failure = events.Failure{Class: outcome.ClassOf(returned.Code), Message: fmt.Sprintf("the %s returned %d without a message", t.what, returned.Code)}
		if failure != nil {
			t.failure.Reason, t.failure.Message = rawjson.Truncate(failure.Reason, abi.MaxConditionReason), failure.Message
		}
	}
}

// decide turns what has happened into a decision. A turn that could not be made, or could not read what
// it needs, is no failure; nor is one that is outdated, or that another replica may make or have made.
func (t *turn) decide(ctx context.Context, outdated bool) {
	if t.decision.Uncounted = t.incomplete != nil || t.replaced || ctx.Err() != nil || !t.c.leads() || outdated; t.decision.Uncounted {
		return
	}
	if t.fault != nil {
		t.failure = events.Failure{Class: t.fault.Class, Reason: t.fault.Reason, Message: t.fault.Message}
	}
	if t.guestFault != nil {
		t.failure.Stack, t.failure.Printed, t.failure.PrintedStack = t.guestFault.Stack, t.printed(), t.guestFault.PrintedStack
	}
	t.decision.Class, t.decision.Reason = t.failure.Class, t.failure.Reason
}

// ResultError is why a result is refused that can be decoded, such as for a limit.
type ResultError struct{ Reason, Message string }

func (e *ResultError) Error() string { return e.Message }

// logUncounted logs that the turn is made again.
func (t *turn) logUncounted() {
	t.logger().Debug("the "+t.what+" could not be made, it is made again", "cause", t.cause())
}

// cause returns why the turn could not be made, nil if the replica has ceased to lead, or stops, or the
// turns have begun anew.
func (t *turn) cause() any {
	switch {
	case t.incomplete != nil:
		return t.incomplete
	case t.replaced && t.fault != nil:
		return t.fault.Message
	}
	return nil
}

// roundTurn is a turn in progress that is for no object.
type roundTurn struct {
	turn
	Turn
	round   int // [Controller.turnRound] when it began
	due     int // how many objects it has made due
	ignored int // and how many it has named that the controller does not follow
}

// outdated reports whether the turns have begun anew since this one began: with another revision, or in
// another term, before which another replica may have made it.
func (t *roundTurn) outdated() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.round != t.c.turnRound
}

// deliver keeps the signals for the objects that the turn has found, and makes them due. It keeps no more when the
// turns have begun anew.
func (t *roundTurn) deliver() {
	var keys []object.Key
	for _, o := range t.found {
		if t.outdated() {
			break
		}
		var given [][]byte
		if o.Signal != nil {
			given = [][]byte{o.Signal}
		}
		if !t.c.keepSignals(o.Key, given) {
			t.ignored++
			continue
		}
		keys = append(keys, o.Key)
	}
	t.due = len(keys)
	t.c.due(foundByTurn, keys...)
}

// report reports the turn to the capability and the observers.
func (t *roundTurn) report() {
	if t.decision.Uncounted {
		t.logUncounted()
		return
	}
	ended := events.TurnEnded{
		Run: t.identity(), What: t.What, Event: t.Event, Failure: t.failure, Since: t.start, Duration: t.duration, Objects: t.due, Ignored: t.ignored,
		Fuel: t.returned.Usage.Fuel, MemoryBytes: t.returned.Usage.MemoryBytes, Muted: t.mute(t.failure),
	}
	t.Ended(ended)
	t.c.Events.Observe(ended)
}

// next sets when the turn is due again, and returns that for the queue. With a new revision, or in a new
// term, it is due already.
func (t *roundTurn) next() outcome.Next {
	wait := t.Interval
	if t.decision.Uncounted {
		wait = turnRetry
	}
	wait = outcome.AddJitter(wait, turnJitter, mathrand.Float64())
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.round == t.c.turnRound {
		t.c.turns[t.Key] = pendingTurn{Turn: t.Turn, due: time.Now().Add(wait)}
	}
	return outcome.Turn(wait)
}
