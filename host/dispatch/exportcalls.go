package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/sanitize"
)

// ExportCall is a call of an export of the guest that a capability makes beside the queue: at any time, in any number,
// whether this replica leads the plugin or not. What the guest reads meanwhile is not remembered, and how the call ends
// counts neither for the breaker nor for the probation of a revision.
type ExportCall struct {
	Export  string
	Object  object.Key    // that the call is for, and in whose namespace it reads; it need not exist, and may have no name yet
	Timeout time.Duration // of the call, without waits for an execution slot
	// Begin returns the text of the request to a revision, in parts. It is called again if the revision was replaced
	// before the call began. With its error the guest is not called.
	Begin func(rev *Revision, now time.Time, seed [32]byte) (request [][]byte, err error)
	// Decode is called with what the guest has returned while the call still holds its execution slot, so that the
	// time is the plugin's. It may be nil.
	Decode func(sandbox.Return)
}

// Call calls the guest of the revision that now runs, and blocks until that has returned, or ctx is done. A call that
// has begun ends on the revision that it began with. The error is that of Begin or of the call, or the reason why the
// guest could not read what it needed.
func (c *Controller) Call(ctx context.Context, call ExportCall) (sandbox.Return, error) {
	for {
		rev := c.revision.Load()
		returned, err := c.callOnce(ctx, rev, &call)
		if errors.Is(err, sandbox.ErrClosed) && c.revision.Load() != rev { // it was replaced before the call began
			continue
		}
		return returned, err
	}
}

func (c *Controller) callOnce(ctx context.Context, rev *Revision, of *ExportCall) (sandbox.Return, error) {
	given := &object.Object{Kind: rev.Controller.For.Kind}
	given.Namespace, given.Name = of.Object.Namespace, of.Object.Name
	g := c.newCall(rev, of.Object, given)
	request, err := of.Begin(rev, g.start, g.seed)
	if err != nil {
		return sandbox.Return{}, err
	}
	g.reads = c.Cache.BeginUnrecorded(of.Object, rev.Scopes.Reads)
	defer g.reads.Close()
	call := g.sandboxCall(request, of.Object.Namespace, of.Timeout)
	call.BeforeRelease = of.Decode
	returned, err := rev.Guest.Call(ctx, of.Export, call)
	switch {
	case err != nil:
		g.logFailed(of.Export, err)
	case g.incomplete != nil:
		err = fmt.Errorf("the plugin cannot read what it needs: %w", g.incomplete)
	}
	return returned, err
}

// logFailed logs why a guest has failed, with its stack: who has made the call gets the message alone.
func (g *guestCall) logFailed(export string, err error) {
	if errors.Is(err, sandbox.ErrClosed) {
		return
	}
	if g.failed(err); g.guestFault == nil || !g.mayLog(sanitize.LogBytes(g.fault.Message)+sanitize.LogBytes(g.printed())) {
		return
	}
	g.logger().Warn(export+" failed", "error", g.fault.Message, "stack", g.guestFault.Stack, "printed", g.printed())
}
