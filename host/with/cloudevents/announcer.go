package cloudevents

import (
	"context"
	"sync"

	"github.com/thole-dev/thole/host/dispatch"
)

// This file announces what is there: when this replica begins to lead, and when something has come that was
// not told.

// announcer announces the objects of a controller.
type announcer struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	renew  chan bool // whether to announce everything again, or to new sinks only; capacity 1
}

// swapped makes the controller announce what is there as long as its revision publishes events. before is
// the revision until now, nil if there was none; added is set if there are new sinks.
func (c *controller) swapped(before, next *dispatch.Revision, added bool) {
	switch {
	case !publishes(&next.Controller):
		c.stop()
	case c.announcer == nil:
		ctx, cancel := context.WithCancel(context.Background())
		a := &announcer{cancel: cancel, renew: make(chan bool, 1)}
		c.announcer = a
		a.ended.Go(func() { c.announceTerms(ctx, a.renew) })
	case before.Scopes.For.String() != next.Scopes.For.String():
		c.announcer.again(true)
	case added:
		c.announcer.again(false)
	}
}

// again makes the announcer begin again, with everything or for new sinks only.
func (a *announcer) again(everything bool) {
	select {
	case before := <-a.renew:
		everything = everything || before
	default:
	}
	a.renew <- everything
}

// stop ends the announcer, if there is one.
func (c *controller) stop() {
	if c.announcer == nil {
		return
	}
	c.announcer.cancel()
	c.announcer.ended.Wait()
	c.announcer = nil
}

// announceTerms announces all objects whenever the replica begins to lead: receivers may not know what
// has happened before. With an empty cache, a watcher that polls does the same.
func (c *controller) announceTerms(ctx context.Context, renew <-chan bool) {
	for everything := true; ctx.Err() == nil; {
		leading, ended := c.handle.Term()
		select {
		case <-leading:
		case <-ctx.Done():
			return
		}
		round, cancel := context.WithCancel(ctx)
		var announcing sync.WaitGroup
		announcing.Go(func() { c.announce(round, c.handle.Keys(), everything) })
		next := true
		select {
		case <-ended:
		case next = <-renew:
		case <-ctx.Done():
		}
		cancel()
		announcing.Wait()
		everything = next
	}
}
