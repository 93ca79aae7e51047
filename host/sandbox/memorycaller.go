package sandbox

import (
	"context"
	"time"

	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
)

// memoryCaller is a call as package memory has it wait for memory, or ends it for the
// memory of others.
type memoryCaller struct {
	ctx context.Context //nolint:containedctx // of the call, which the value does not outlive
	c   *call
}

var _ memory.Caller = memoryCaller{}

// memoryPoll is how long a call waits until it looks again which calls have memory.
const memoryPoll = 5 * time.Millisecond

// Wait implements [memory.Caller]. Meanwhile others have the call's execution slot, and
// its deadline is paused: they have the memory.
func (m memoryCaller) Wait(released <-chan struct{}) error {
	m.c.task.Block()
	return deadline.Pause(m.ctx, func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		poll := time.NewTimer(memoryPoll)
		defer poll.Stop()
		select {
		case <-released:
		case <-poll.C:
		case <-ctx.Done():
		}
		waited := time.Since(began)
		more, err := m.c.task.Unblock(ctx)
		return waited + more, err
	})
}

// End implements [memory.Caller].
func (m memoryCaller) End(reason error) { deadline.End(m.ctx, reason) }
