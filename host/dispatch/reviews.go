package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file calls the guest for reviews and conversions. They are no runs: they come from the API
// server at any time, in any number, whether this replica leads or not, and have no key in the
// queue. What they read is not remembered, and they count neither for the breaker nor for the
// probation of a revision.

// ReviewConfig is what the reviews of a revision of a controller need.
type ReviewConfig struct {
	Guest   Reviewer
	Timeout time.Duration // of one call, without waits for an execution slot
}

// Reviewer reviews and converts objects; [sandbox.Guest] implements it.
type Reviewer interface {
	Call(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error)
}

// Review is one call of such an export.
type Review struct {
	Export string       // of the guest
	Object abi.Ref      // that is reviewed; it need not exist, and may have no name yet
	Begin  ReviewBegins // returns the text of the request
	// Decode is called with what the guest has returned while the call still holds its execution
	// slot. It may be nil.
	Decode func(sandbox.Return)
}

// ReviewBegins returns the text of a request to a revision, in parts.
type ReviewBegins func(rev *Revision, now time.Time, seed [32]byte) [][]byte

// ErrNoReviews is returned for a review while a revision runs that reviews nothing.
var ErrNoReviews = errors.New("the running revision reviews and converts nothing")

// Review calls the guest of the revision that now runs. A call that has begun ends on the
// revision that it began with. The error is [ErrNoReviews], that of the call, or the reason why
// the guest could not read what it needed.
func (c *Controller) Review(ctx context.Context, v Review) (sandbox.Return, error) {
	for {
		rev := c.revision.Load()
		if rev.Reviews == nil {
			return sandbox.Return{}, ErrNoReviews
		}
		returned, err := c.review(ctx, rev, v)
		if errors.Is(err, sandbox.ErrClosed) && c.revision.Load() != rev { // it was replaced before the call began
			continue
		}
		return returned, err
	}
}

func (c *Controller) review(ctx context.Context, rev *Revision, v Review) (sandbox.Return, error) {
	key := object.Key{Namespace: v.Object.Namespace, Name: v.Object.Name}
	given := &object.Object{Kind: rev.Controller.For.Kind}
	given.Namespace, given.Name = key.Namespace, key.Name
	g := c.newCall(rev, key, given)
	g.reads = c.Cache.BeginUnrecorded(key, rev.Scopes.Reads)
	defer g.reads.Close()
	call := g.sandboxCall(v.Begin(rev, g.start, g.seed), key.Namespace, rev.Reviews.Timeout)
	call.BeforeRelease = v.Decode
	returned, err := rev.Reviews.Guest.Call(ctx, v.Export, call)
	switch {
	case err != nil:
		g.logReview(v.Export, err)
	case g.incomplete != nil:
		err = fmt.Errorf("the plugin cannot read what it needs: %w", g.incomplete)
	}
	return returned, err
}

// logReview logs why a guest has failed, with its stack: the answer of the review has the message
// alone.
func (g *guestCall) logReview(export string, err error) {
	if errors.Is(err, sandbox.ErrClosed) {
		return
	}
	if g.failed(err); g.guestFault == nil || !g.mayLog(sanitize.LogBytes(g.fault.Message)+sanitize.LogBytes(g.printed())) {
		return
	}
	g.logger().Warn(export+" failed", "error", g.fault.Message, "stack", g.guestFault.Stack, "printed", g.printed())
}

// Given returns an object as guests are given it.
func (rev *Revision) Given(o *object.Object) []byte { return rev.given(o) }
