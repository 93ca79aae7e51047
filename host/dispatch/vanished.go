package dispatch

import (
	"context"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// This file cleans up objects that the API server has deleted in spite of the finalizer of the
// controller (abi/spec/deletion.md, "Objects that vanish"). They are kept and run as objects that are gone,
// see gone.go.

// keepsGone reports whether runs may come for objects that are gone.
func (rev *Revision) keepsGone() bool { return rev.Controller.Gone || rev.Controller.Finalizer }

// held reports whether an object that is gone was held by the finalizer and not being deleted when
// it was last known, and had a run in this term, whose state s is.
func (rev *Revision) held(o *object.Object, s *keyState) bool {
	return rev.Controller.Finalizer && s != nil && s.last.inTerm && s.uid == o.Identity() && !o.Deleting() &&
		rev.Effects.HasFinalizer(effect.Target{Controller: &rev.Controller, Object: o})
}

// adaptGone prepares an object that is gone for a revision, and reports whether it was dropped,
// because no run is to come for it. It does nothing during a run. Controller.mu is held.
func (c *Controller) adaptGone(key object.Key, g *goneObject, rev *Revision) (dropped bool) {
	if g.held && !rev.Controller.Finalizer {
		g.lost = outcome.LateCleanupReplaced
	}
	if g.state.running {
		return false
	}
	if g.held && g.lost != "" {
		c.loseCleanup(rev, g.Object, g.lost)
		g.held = false
	}
	if g.held || rev.Controller.Gone {
		return false
	}
	c.dropGone(key, g)
	rev.Effects.Forget(g.state.uid)
	return true
}

// loseHeld gives up the cleanups of all objects that have vanished. Controller.mu is held.
func (c *Controller) loseHeld() {
	rev := c.revision.Load()
	for key, all := range c.goneObjects.byKey {
		for _, g := range append([]*goneObject(nil), all...) {
			if g.held {
				g.lost = outcome.LateCleanupStopped
				c.adaptGone(key, g, rev)
			}
		}
	}
}

// forgetRuns makes the state of each key one that has had no run. Controller.mu is held.
func (c *Controller) forgetRuns() {
	for _, s := range c.keys {
		s.last.inTerm = false
	}
}

// loseCleanup reports that the cleanup of an object that has vanished does not run.
func (c *Controller) loseCleanup(rev *Revision, o *object.Object, end outcome.LateCleanup) {
	const advice = "undo by hand what the plugin has done for it"
	c.Metrics.Vanished(end)
	c.Logger.Warn("the object was deleted in spite of its finalizer, and its cleanup is lost: "+advice,
		"object", o.Key().String(), "uid", string(o.UID), "reason", end.Loss())
	rev.Effects.EmitEvent(effect.Target{Controller: &rev.Controller, Object: o, Gone: true}, &abi.Event{
		Type: "Warning", Reason: reasonCleanupLost,
		Message: "the object was deleted in spite of its finalizer, and its cleanup is lost because " + end.Loss() + ": " + advice,
	})
}

const reasonCleanupLost = "CleanupLost"

// confirm reports whether the run for an object that is gone may begin: one that was held must not
// exist any more.
func (c *Controller) confirm(ctx context.Context, item workItem, g *goneObject) (confirmed bool, why instead) {
	if !g.held || g.confirmed {
		return true, instead{}
	}
	exists, err := c.exists(ctx, item.Key, g.state.uid)
	switch {
	case err != nil:
		return false, instead{next: c.readAgain(item, g, err)}
	case !exists:
		g.confirmed = true
		return true, instead{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g.held = false // it is not followed any more
	dropped := c.adaptGone(item.Key, g, c.revisionFor(item.Key))
	return !dropped, instead{putBack: dropped}
}

// exists reports whether the API server has an object. It is not asked if there is another one of
// the name.
func (c *Controller) exists(ctx context.Context, key object.Key, uid object.Hash) (bool, error) {
	if now, ok := c.Cache.Get(key); ok && now.Identity() != uid {
		return false, nil
	}
	bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	return c.Cache.Exists(bounded, key, uid)
}

// Bounds of the time until it is read again whether an object exists.
const (
	minReadAgain = 500 * time.Millisecond
	maxReadAgain = time.Minute
)

// readAgain returns when a key is due again for which it could not be read whether its object exists.
func (c *Controller) readAgain(item workItem, g *goneObject, err error) outcome.Next {
	g.pause = min(max(2*g.pause, minReadAgain), maxReadAgain)
	c.Logger.Warn("cannot read whether an object exists that has its cleanup to come, trying again",
		"object", item.Key.String(), "error", err, "again", g.pause.String())
	return outcome.Retry(g.pause, true)
}

// endCleanup reports the end of the cleanup of an object that has vanished. Controller.mu is held.
func (r *run) endCleanup() {
	if !r.cleanup {
		return
	}
	if r.decision.Class == abi.ClassStalled {
		r.c.loseCleanup(r.revision, r.gone.Object, outcome.LateCleanupStalled)
		return
	}
	r.c.Metrics.Vanished(outcome.LateCleanupSucceeded)
	r.logger().Info("the object was deleted in spite of its finalizer, and is cleaned up")
}

const (
	// maxAwaited is how often a key waits for the event that its object is gone: about four
	// minutes, with pauses that grow from minEventPause to maxEventPause.
	maxAwaited    = 32
	minEventPause = 10 * time.Millisecond
	maxEventPause = 10 * time.Second
)

// awaitsDeletion returns how long a key waits for the event that the object of its last run is
// gone, which the informer has not delivered yet: that may have vanished, its state is needed then,
// and another one of the name runs after it. now is the object that the cache shows, nil if there is
// none. 0 means that there is nothing to wait for.
func (c *Controller) awaitsDeletion(key object.Key, now *object.Object, rev *Revision) time.Duration {
	if !rev.Controller.Finalizer {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[key]
	if s == nil || !s.last.inTerm || now != nil && s.uid == now.Identity() || c.isCleanedUp(key, s.uid) {
		return 0
	}
	if s.carried == nil {
		s.carried = &carried{}
	}
	if s.awaited++; s.awaited > maxAwaited {
		return 0
	}
	return min(minEventPause<<s.awaited, maxEventPause)
}
