package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// This file runs the plugin for objects that are gone, for controllers that ask for it
// (abi/spec/deletion.md, "Objects that are gone"), and for those that have vanished (vanished.go).

// goneObject is an object that is gone and for which a run has not ended yet. Controller.mu guards
// state, held, lost and inTerm. The others belong to the worker that has taken the key.
type goneObject struct {
	*object.Object // as it was last known
	state          *keyState
	held           bool                // it was held by the finalizer, and is cleaned up if it does not exist
	lost           outcome.LateCleanup // with held: why it is not cleaned up any more; "": it is
	inTerm         bool                // it went in the present term of the replica
	confirmed      bool                // with held: the API server does not have it
	pause          time.Duration       // until that was read again
}

// goneList has those of a controller, by their keys and in the order in which they went.
// Controller.mu guards it.
type goneList struct {
	byKey map[object.Key][]*goneObject
	bytes int // of JSON
}

// maxGoneBytes is from how many bytes on nothing but metadata is kept of objects that are gone.
const maxGoneBytes = 32 << 20

// observeGone handles the event that an object is gone. lost is set if nothing shows that it was
// deleted. The key must be made due after that.
func (c *Controller) observeGone(o *object.Object, lost bool) {
	if c.revision.Load().keepsGone() {
		o = c.Cache.LastKnown(o)
	}
	uid := o.Identity()
	rev, met := c.stateOfGone(o, uid)
	if met.cleanedUp {
		return
	}
	leads := c.leads()
	if met.held {
		if loss := met.loss(leads, lost); loss != "" {
			c.loseCleanup(rev, o, loss)
			met.held = false
		}
	}
	if !leads || !met.held && !rev.Controller.Gone {
		return
	}
	if met.full || rev.Controller.For.MetadataOnly {
		o = o.Metadata() // without the lock: it reads the whole object
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &goneObject{Object: o, state: c.takeState(o.Key(), uid), held: met.held, inTerm: leads}
	c.goneObjects.byKey[o.Key()] = append(c.goneObjects.byKey[o.Key()], g)
	c.goneObjects.bytes += len(o.Raw)
}

// goneState is the state of an object when it is gone.
type goneState struct {
	cleanedUp bool // its cleanup has succeeded
	held      bool // see [goneObject]
	full      bool // there is no room for more than its metadata
}

// loss returns why the cleanup of an object that was held does not run, "" if it does. With the
// metadata alone it could do harm.
func (m goneState) loss(leads, lost bool) outcome.LateCleanup {
	switch {
	case !leads:
		return outcome.LateCleanupStopped
	case lost:
		return outcome.LateCleanupRestored
	case m.full:
		return outcome.LateCleanupTooLarge
	}
	return ""
}

// stateOfGone returns the state of an object that is gone. That its cleanup has succeeded is then
// forgotten.
func (c *Controller) stateOfGone(o *object.Object, uid object.Hash) (rev *Revision, met goneState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rev = c.revision.Load()
	all := c.cleanedUp[o.Key()]
	at := slices.Index(all, uid)
	if met.cleanedUp = at >= 0; at == len(all)-1 {
		delete(c.cleanedUp, o.Key())
	} else if met.cleanedUp { // no event of an earlier one will come
		c.cleanedUp[o.Key()] = all[at+1:]
	}
	s := c.keys[o.Key()]
	met.held, met.full = rev.held(o, s), c.goneObjects.bytes+len(o.Raw) > maxGoneBytes
	if s != nil && s.uid == uid {
		s.last.inTerm = false
	}
	return rev, met
}

// isCleanedUp reports whether the cleanup of an object has succeeded whose deletion the informer
// has not shown yet. Controller.mu is held.
func (c *Controller) isCleanedUp(key object.Key, uid object.Hash) bool {
	return slices.Contains(c.cleanedUp[key], uid)
}

// takeState returns the state of a key, which belongs to the object that is gone, or a new
// one. Controller.mu is held.
func (c *Controller) takeState(key object.Key, uid object.Hash) *keyState {
	s := c.keys[key]
	if s == nil || s.uid != uid || s.running { // a run in progress ends before that of the object that is gone
		return &keyState{uid: uid}
	}
	delete(c.keys, key)
	c.unpark(s) // its effects are for an object that exists
	return s
}

// nextGone returns the first object of a key that is gone and has a run to come, nil if there is
// none.
func (c *Controller) nextGone(key object.Key) *goneObject {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.goneObjects.byKey[key]
	for len(all) > 0 && c.adaptGone(key, all[0], c.revisionFor(key)) {
		all = c.goneObjects.byKey[key]
	}
	if len(all) == 0 {
		return nil
	}
	if s := c.keys[key]; s != nil && s.uid == all[0].state.uid { // of a run that was in progress as it went
		all[0].state = s
		delete(c.keys, key)
		c.unpark(s)
	}
	return all[0]
}

// ResyncGone makes the keys of all objects due that are gone: they are not in the queue any
// more if the replica has ceased to lead meanwhile.
func (c *Controller) ResyncGone() {
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.goneObjects.byKey))
	c.mu.Unlock()
	c.Resync(keys)
}

// goneReplaced prepares the objects that are gone for another revision, and returns their
// keys. What that does not ask for is dropped. Controller.mu is held.
func (c *Controller) goneReplaced(healthy bool, before, next *Revision) (keys []object.Key) {
	for key, all := range c.goneObjects.byKey {
		keys = append(keys, key)
		for _, g := range slices.Clone(all) {
			g.state.revisionReplaced(healthy, before, next)
			c.adaptGone(key, g, next)
		}
	}
	return keys
}

// goneOutageEnded is the part of OutageEnded for objects that are gone. Controller.mu is held.
func (c *Controller) goneOutageEnded() {
	for _, all := range c.goneObjects.byKey {
		for _, g := range all {
			g.state.outageEnded = true
		}
	}
}

// dropGone removes an object that is gone, if that was not done. Controller.mu is held.
func (c *Controller) dropGone(key object.Key, g *goneObject) {
	if !slices.Contains(c.goneObjects.byKey[key], g) {
		return
	}
	left := slices.DeleteFunc(c.goneObjects.byKey[key], func(other *goneObject) bool { return other == g })
	if c.goneObjects.bytes -= len(g.Raw); len(left) > 0 {
		c.goneObjects.byKey[key] = left
	} else {
		delete(c.goneObjects.byKey, key)
	}
	c.unpark(g.state)
	c.dropAllSignals(g.state)
}

// refuseWritesToGone refuses a result that would write to an object that is gone. A cleanup need
// not know that it is.
func (r *run) refuseWritesToGone() {
	if r.cleanup && r.result != nil {
		r.result.Status, r.result.Conditions, r.result.Patch = nil, nil, nil
	}
	if r.gone == nil || r.result == nil || len(r.result.Status)+len(r.result.Conditions)+len(r.result.Patch) == 0 {
		return
	}
	r.result, r.fault = nil, &outcome.Fault{
		Class: abi.ClassABI, Reason: "InvalidResult",
		Message: "the result has status, conditions or patch, and the object is gone: return none of them if the request has gone",
	}
}

// endsGone reports whether the run is the last one for an object that is gone.
func (r *run) endsGone() bool {
	return r.gone != nil && (r.endedWell() || r.decision.Class == abi.ClassStalled)
}

// endGone ends the handling of an object that is gone, after the run was reported. What is left
// of its key is then done: that includes an object that was created again.
func (r *run) endGone() {
	r.c.mu.Lock()
	r.endCleanup()
	r.c.dropGone(r.item.Key, r.gone)
	if r.gone.inTerm && r.c.keys[r.item.Key] == nil { // the next object of the name is new: see newState
		r.c.keys[r.item.Key] = &keyState{uid: r.gone.state.uid, last: lastRun{seen: begun}}
	}
	r.c.mu.Unlock()
	r.revision.Effects.Forget(r.gone.state.uid)
	r.c.due(primaryGone, r.item.Key)
}

// cleansUp records that the cleanup of an object has succeeded: it is about to go, or has gone
// during the run, and has no run for that.
func (r *run) cleansUp() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, g := range r.c.goneObjects.byKey[r.item.Key] {
		if g.state.uid == r.state.uid {
			r.c.dropGone(r.item.Key, g)
			return
		}
	}
	if !r.c.isCleanedUp(r.item.Key, r.state.uid) { // else it is tried again
		r.c.cleanedUp[r.item.Key] = append(r.c.cleanedUp[r.item.Key], r.state.uid)
	}
}

// releaseRetry is the time until the fields of a primary that does not exist any
// more are released again, if that has failed.
const releaseRetry = time.Minute

// gone ends the handling of a key whose object no longer exists, and returns when that is tried again if it failed.
func (c *Controller) gone(ctx context.Context, item workItem) outcome.Next {
	report, failure := item.revision.Effects.ReleaseGone(ctx, &item.revision.Controller, item.Key)
	for _, w := range report.Writes {
		c.Metrics.Wrote(w.Verb)
		c.Cache.Wrote(item.Key, w)
	}
	if failure != nil {
		c.Logger.Warn("release the fields of an object that does not exist any more", "object", item.Key.String(), "error", failure, "again", releaseRetry)
		return outcome.Retry(releaseRetry, false)
	}
	c.forget(item.Key)
	return outcome.Next{}
}

// forget drops everything about a key whose object no longer exists.
func (c *Controller) forget(key object.Key) {
	c.mu.Lock()
	s := c.keys[key]
	delete(c.keys, key)
	again, exists := c.Cache.Get(key)
	if !exists { // else it is of an object that was created meanwhile
		delete(c.created, key)
	}
	if s != nil {
		c.unpark(s)
		c.keepSignalsOf(key, s, again)
	}
	c.mu.Unlock()
	c.Cache.Forget(key)
	c.queue.Forget(key)
	if s != nil {
		c.revision.Load().Effects.Forget(s.uid)
	}
}
