package dispatch

import (
	"context"
	mathrand "math/rand/v2"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file makes the turns of objects: calls of the guest beside their runs. Such a turn has a key in the queue
// beside that of its object, so that its calls have the Lease, the workers and the shutdown of runs. What they
// read makes that key due and not the object, which is due for what they return.

// ObjectTurns are the turns that a capability has for objects. An object has its turn from the end of the run after
// which it has the finalizer of the controller. The turn is stopped when the object is being deleted, before its
// cleanup, or is gone, when it is to have none any more, when another revision replaces that of the turn, and
// when the controller ends; and without a last call when the term ends.
type ObjectTurns struct {
	// Key is the name of the capability: that of the key of a turn in the queue has a slash and the name of the
	// object behind it. No object has such a name.
	Key string
	// What is a turn in messages, such as "step of the daemon", and Export the function that its calls call.
	What, Export string
	// Grace returns how long the last call may take, together with the wait for the one in progress. All turns
	// that a revision ends with together have that time.
	Grace func(rev *Revision) time.Duration
	// Wanted reports whether an object is to have a turn that exists and is not being deleted. It must be quick,
	// and is called by the worker, without a lock.
	Wanted func(rev *Revision, o *object.Object) bool
	// New returns the turn of an object, with the lock of the controller held.
	New func(rev *Revision) ObjectTurn
}

// ObjectTurn is the turn of an object. Its methods but Decode are called with the lock of the controller held: they
// must not block, and must not call the controller. There is one call at a time.
type ObjectTurn interface {
	// Begin is called when the turn may be due: for a time or for what it has read, and when a run of the object
	// has ended. It returns the call that is to be made now, or nil and what becomes of the turn without one.
	Begin(b *BeginningTurn) (*TurnCall, TurnNext)
	// Decode is given what a call has written, with any code, while the guest holds its execution slot: it
	// returns the signals for the object and, for a call that has failed, why, nil for no reason. An error is
	// a violation of the contract. It is called by the worker without a lock.
	Decode(output []byte) (signals [][]byte, failure *abi.Failure, err error)
	// End is called when a call has ended, and its signals are kept.
	End(e *EndedTurn) TurnNext
	// Stop is called once, when the turn is stopped, and returns the last call if there is to be one; its end is
	// not told but by LastEnded. b is nil if none can be made.
	Stop(b *BeginningTurn) *TurnCall
	// LastEnded is called when the last call has ended.
	LastEnded(failed bool)
}

// BeginningTurn is what a turn needs to know to make a call.
type BeginningTurn struct {
	Object *object.Object // nil in the last call if it is gone
	Given  []byte         // JSON: the object as the guest is given it, or the name of one that is gone
	Now    time.Time
	Seed   [32]byte // as in [abi.Request]
	Woken  Woken    // since the last call that was made
}

// Woken is what a turn has read that has changed since.
type Woken struct{ Reads, Index bool }

func (w Woken) and(other Woken) Woken {
	return Woken{w.Reads || other.Reads, w.Index || other.Index}
}

// TurnCall is a call that is to be made.
type TurnCall struct {
	Request  [][]byte
	Deadline time.Duration // 0: as long as the plugin may take
	Fuel     int64         // 0: as much as the plugin may use
	// ByReads means that nothing else has led to the call than what the turn has read: if that is the work of runs
	// of the object, what the call leads to counts as their work, too.
	ByReads bool
}

// EndedTurn is a call that has ended.
type EndedTurn struct {
	// Uncounted means that the call could not be made, or not read what it needs: it is made again, with the
	// same that has woken it.
	Uncounted bool
	Failure   events.Failure
	Fuel      int64
	Now       time.Time
}

// TurnNext is what becomes of a turn.
type TurnNext struct {
	After time.Duration // until Begin is called without an event; 0: never
	// Failure is what a run of the object ends with that would have ended without a failure; nil: none. The
	// object is due when that changes. Its Ref is set by the core.
	Failure *abi.EffectFailure
}

// objectTurn is what is kept of the turn of an object. Who has put something into calling makes a call. Controller.mu
// guards the others that change.
type objectTurn struct {
	ObjectTurn
	kind     *ObjectTurns
	key      object.Key // in the queue
	object   object.Key
	uid      object.Hash
	revision *Revision
	calling  chan struct{} // capacity 1

	woken    Woken
	byOthers bool // something of woken was not changed by runs of the object
	failure  *abi.EffectFailure
	fault    *sandbox.Fault // the cause of failure, if the guest is to blame
}

// keyFor returns the key in the queue of the turn of an object.
func (k *ObjectTurns) keyFor(o object.Key) object.Key {
	return object.Key{Namespace: o.Namespace, Name: k.Key + "/" + o.Name}
}

// objectTurn returns the turn with a key, nil if there is none.
func (c *Controller) objectTurn(key object.Key) *objectTurn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objectTurns[key]
}

// turnOf returns the turn of an object, nil if there is none. Most controllers have no turns: for them it costs
// no more than the lock.
func (c *Controller) turnOf(kind *ObjectTurns, o object.Key) *objectTurn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.objectTurns) == 0 {
		return nil
	}
	return c.objectTurns[kind.keyFor(o)]
}

// eachTurn calls f for each hook that has turns for objects, with the turn of an object, nil if there is none.
func (c *Controller) eachTurn(o object.Key, f func(*ObjectTurns, *objectTurn)) {
	for i := range c.Hooks {
		if kind := c.Hooks[i].ObjectTurns; kind != nil {
			f(kind, c.turnOf(kind, o))
		}
	}
}

// endTurns stops the turns of a key that are not those of its object under a revision, or that this is to have no
// more: before a run of the key, which has the signals of the last calls.
func (c *Controller) endTurns(ctx context.Context, key object.Key, rev *Revision) {
	c.eachTurn(key, func(kind *ObjectTurns, t *objectTurn) {
		if t == nil {
			return
		}
		o, exists := c.Cache.Get(key)
		if exists && o.Identity() == t.uid && !o.Deleting() && t.revision == rev && kind.Wanted(rev, o) {
			return
		}
		c.stopTurn(ctx, t)
	})
}

// wantsTurn reports whether the object of a run is to have a turn.
func (r *run) wantsTurn() (wants bool) {
	for i := range r.c.Hooks {
		kind := r.c.Hooks[i].ObjectTurns
		wants = wants || kind != nil && kind.Wanted(r.revision, r.given)
	}
	return wants
}

// lookAtTurns makes the turns of the object due when its run has ended, which has shown what may have changed. It
// begins those that the object is to have.
func (r *run) lookAtTurns() {
	if r.gone != nil || r.decision.RemoveFinalizer || r.primary.Deleting() {
		return
	}
	r.c.eachTurn(r.item.Key, func(kind *ObjectTurns, t *objectTurn) {
		if t != nil || kind.Wanted(r.revision, r.primary) && r.revision.Effects.HasFinalizer(r.target()) && r.beginTurn(kind) {
			r.c.due(turnBegun, kind.keyFor(r.item.Key))
		}
	})
}

// beginTurn makes a turn for the object. It returns false if the revision was replaced meanwhile: a run of the next
// one makes it.
func (r *run) beginTurn(kind *ObjectTurns) bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.revision != r.c.revisionFor(r.item.Key) {
		return false
	}
	t := &objectTurn{
		ObjectTurn: kind.New(r.revision), kind: kind, key: kind.keyFor(r.item.Key), object: r.item.Key, uid: r.state.uid,
		revision: r.revision, calling: make(chan struct{}, 1),
	}
	if r.c.objectTurns == nil {
		r.c.objectTurns = map[object.Key]*objectTurn{}
	}
	r.c.objectTurns[t.key] = t
	return true
}

// failureOfTurn returns the failure of a turn of the object, nil if there is none, and its cause.
func (r *run) failureOfTurn() (failure *effect.Failure, fault *sandbox.Fault) {
	if r.gone != nil {
		return nil, nil
	}
	r.c.eachTurn(r.item.Key, func(_ *ObjectTurns, t *objectTurn) {
		if t == nil || failure != nil {
			return
		}
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		if t.failure != nil {
			failure, fault = &effect.Failure{EffectFailure: *t.failure}, t.fault
		}
	})
	return failure, fault
}

// makeObjectTurn makes the call of a turn that is due, and returns the time until it is due again. A turn whose
// object is about to run for what has happened to it is due again when that run has ended.
func (c *Controller) makeObjectTurn(ctx context.Context, item workItem, t *objectTurn) (after time.Duration) {
	o, exists := c.Cache.Get(t.object)
	if !exists || o.Identity() != t.uid || o.Deleting() || o.Annotations[Suspend] == "true" || item.revision != t.revision {
		return 0
	}
	switch err := c.allowed(ctx, t.revision.Access, question{toGet, o.Kind, t.object}); {
	case err == nil:
	case access.Denied(err): // its runs tell that
		return 0
	default:
		return turnRetry
	}
	select {
	case t.calling <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	defer func() { <-t.calling }()
	made, call, next := c.beginObjectTurn(t, o)
	if call == nil {
		c.turnEnded(t, made.own, next, nil)
		return next.After
	}
	request := made.sandboxCall(call.Request, t.object.Namespace, call.Deadline)
	request.Fuel = call.Fuel
	made.call(ctx, t.kind.Export, request)
	return made.end(ctx)
}

// objectTurnCall is a call of a turn in progress.
type objectTurnCall struct {
	turn
	of    *objectTurn
	woken Woken // for which it is made
	own   bool  // nothing has led to it but what runs of the object have changed
}

// beginObjectTurn asks a turn for its call. next counts if there is none.
func (c *Controller) beginObjectTurn(t *objectTurn, o *object.Object) (made objectTurnCall, call *TurnCall, next TurnNext) {
	made.turn = turn{guestCall: c.newCall(t.revision, t.object, o), what: t.kind.What, decode: t.decodeSignals}
	begun := &BeginningTurn{Object: o, Given: o.Given(), Now: made.start, Seed: made.seed}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objectTurns[t.key] != t {
		return made, nil, TurnNext{Failure: t.failure}
	}
	made.of, begun.Woken = t, t.woken
	if call, next = t.Begin(begun); call == nil {
		return made, nil, next
	}
	made.reads = c.Cache.Begin(t.key, t.revision.Scopes.Reads)
	made.woken, made.own = t.woken, call.ByReads && !t.byOthers
	t.woken, t.byOthers = Woken{}, false // what comes from now on may be missing in what the call reads
	return made, call, next
}

// decodeSignals is Decode with the signals as those of the object.
func (t *objectTurn) decodeSignals(output []byte) (found []Signalled, failure *abi.Failure, err error) {
	signals, failure, err := t.Decode(output)
	for _, s := range signals {
		found = append(found, Signalled{t.object, s})
	}
	return found, failure, err
}

// signals returns what the call has found.
func (t *turn) signals() (all [][]byte) {
	for _, o := range t.found {
		all = append(all, o.Signal)
	}
	return all
}

// end ends a call, and returns the time until the turn is due again.
func (made *objectTurnCall) end(ctx context.Context) time.Duration {
	c, t := made.c, made.of
	made.reads.Close()
	made.decide(ctx, made.hostFailed)
	failed := made.failure.Class != abi.ClassNone
	if made.decision.Uncounted || failed {
		made.reads.Abandon()
	} else {
		made.reads.Commit()
	}
	c.mu.Lock()
	if c.objectTurns[t.key] != t { // it was stopped meanwhile
		c.Cache.Forget(t.key)
		c.mu.Unlock()
		return 0
	}
	signalled := false
	switch {
	case made.decision.Uncounted:
		t.woken, t.byOthers = t.woken.and(made.woken), t.byOthers || !made.own
	case failed:
		c.Cache.Forget(t.key)
	default:
		signalled = c.keepSignalsOfTurn(t, made.signals())
	}
	next := t.End(&EndedTurn{
		Uncounted: made.decision.Uncounted, Failure: made.failure, Fuel: made.returned.Usage.Fuel, Now: time.Now(),
	})
	c.mu.Unlock()
	if made.decision.Uncounted {
		made.logUncounted()
		return outcome.AddJitter(turnRetry, turnJitter, mathrand.Float64())
	}
	c.Events.Observe(events.TurnEnded{
		Run: made.identity(), What: made.what, Failure: made.failure, Since: made.start, Duration: made.duration,
		Fuel: made.returned.Usage.Fuel, MemoryBytes: made.returned.Usage.MemoryBytes, Muted: true,
	})
	c.turnEnded(t, made.own, next, made.guestFault)
	if signalled {
		c.dueForTurn(t, made.own)
	}
	return next.After
}

// turnEnded keeps the failure of a turn, and makes its object due if that is another one than before.
func (c *Controller) turnEnded(t *objectTurn, own bool, next TurnNext, fault *sandbox.Fault) {
	c.mu.Lock()
	before := t.failure
	if t.failure = next.Failure; t.failure != before {
		t.fault = fault
	}
	if t.failure != nil {
		t.failure.Ref = t.revision.Controller.For.Kind.Ref(t.object.Namespace, t.object.Name)
	}
	same := before == t.failure || before != nil && t.failure != nil && *before == *t.failure
	c.mu.Unlock()
	if !same {
		c.dueForTurn(t, own)
	}
}

// dueForTurn makes the object of a turn due for what a call has led to. own means that runs of the object have led
// to the call.
func (c *Controller) dueForTurn(t *objectTurn, own bool) {
	if own {
		c.dueAgain(t.object, abi.ReasonSignal, 0) // the turn has waited
		return
	}
	c.due(signalled, t.object)
}

// keepSignalsOfTurn keeps signals for the object of a turn, which may be gone, and reports whether there are any.
// Signals may tell what the account has read that the turn acted as. Controller.mu is held.
func (c *Controller) keepSignalsOfTurn(t *objectTurn, given [][]byte) bool {
	if c.revision.Load().Account != t.revision.Account {
		return false
	}
	if s := c.keys[t.object]; s != nil && s.uid == t.uid {
		return c.addSignals(s, given)
	}
	for _, g := range c.goneObjects.byKey[t.object] { // its state may have been taken out of keys
		if g.state.uid == t.uid {
			return c.addSignals(g.state, given)
		}
	}
	return false
}

// missedReads makes every turn take what it has read for changed.
func (c *Controller) missedReads() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.objectTurns {
		t.woken.Reads, t.byOthers = true, true
	}
}
