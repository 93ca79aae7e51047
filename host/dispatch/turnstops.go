package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file stops the turns of objects, with a last call.

// stopTurn stops a turn, with a last call if it asks for one. A call in progress is waited for as long as the last
// one may take.
func (c *Controller) stopTurn(ctx context.Context, t *objectTurn) {
	ctx, cancel := context.WithTimeout(ctx, t.kind.Grace(t.revision))
	defer cancel()
	select {
	case t.calling <- struct{}{}:
		defer func() { <-t.calling }()
	case <-ctx.Done():
	}
	made, call := c.takeTurn(t)
	if call == nil {
		return
	}
	request := sandbox.Call{
		Request: call.Request, Namespace: t.object.Namespace, Now: made.start, Seed: made.seed, Deadline: call.Deadline, Fuel: call.Fuel,
	}
	made.call(ctx, t.kind.Export, request)
	if made.fault != nil {
		made.failure = events.Failure{Class: made.fault.Class, Message: made.fault.Message}
	}
	failed := made.failure.Class != abi.ClassNone
	if failed {
		c.Logger.Warn("the last "+t.kind.What+" has failed, which is stopped all the same", "object", t.object.String(),
			"class", string(made.failure.Class), "error", made.failure.Message)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.LastEnded(failed)
	if !failed {
		c.keepSignalsOfTurn(t, made.signals())
	}
}

// takeTurn takes a turn out of those that there are, and returns its last call, nil if there is none.
func (c *Controller) takeTurn(t *objectTurn) (made turn, call *TurnCall) {
	o, exists := c.Cache.Get(t.object)
	if !exists || o.Identity() != t.uid {
		o = nil
	}
	made = turn{guestCall: c.newCall(t.revision, t.object, o), what: t.kind.What, decode: t.decodeSignals}
	last := &BeginningTurn{Object: o, Given: t.lastGiven(o), Now: made.start, Seed: made.seed}
	if !c.leads() { // another replica may have its own turn of the object
		last = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objectTurns[t.key] != t {
		return made, nil
	}
	c.Cache.Forget(t.key) // with mu held, as below: the next turn of the key must not have begun yet
	c.queue.Forget(t.key)
	delete(c.objectTurns, t.key)
	return made, t.Stop(last)
}

// lastGiven returns the object for the last call, or what is known of one that is gone.
func (t *objectTurn) lastGiven(o *object.Object) []byte {
	if o != nil {
		return o.Given()
	}
	kind := t.revision.Controller.For.Kind
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(kind.APIVersion)
		w.Name("kind").String(kind.Kind)
		w.Name("metadata").Object(func() {
			w.Name("name").String(t.object.Name)
			if t.object.Namespace != "" {
				w.Name("namespace").String(t.object.Namespace)
			}
		})
	})
	return w.Bytes()
}

// stopTurns stops all turns of a revision, as many at once as there are workers, and all of them within the time
// of the last call of one.
func (c *Controller) stopTurns(ctx context.Context, rev *Revision) {
	c.mu.Lock()
	var all []*objectTurn
	for _, t := range c.objectTurns {
		if t.revision == rev {
			all = append(all, t)
		}
	}
	workers := max(c.workers, 1)
	c.mu.Unlock()
	if all == nil {
		return
	}
	next := make(chan *objectTurn, len(all))
	var grace time.Duration
	for _, t := range all {
		next <- t
		grace = max(grace, t.kind.Grace(rev))
	}
	close(next)
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	var stopping sync.WaitGroup
	for range workers {
		stopping.Go(func() {
			for t := range next {
				c.stopTurn(ctx, t)
			}
		})
	}
	stopping.Wait()
}

// dropObjectTurns stops all turns of objects without a last call: another replica leads the plugin, or has led it,
// and has its own. mu is held.
func (c *Controller) dropObjectTurns() {
	for key, t := range c.objectTurns {
		c.Cache.Forget(key)
		t.Stop(nil)
	}
	c.objectTurns = nil
}
