package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errDeadline is the cause of a context that ended by the call's own deadline.
var errDeadline = errors.New("deadline passed")

// deadline ends a context, like that of [context.WithTimeoutCause], but can be
// paused: the time that a call waits for an execution slot is not the guest's.
type deadline struct {
	outer  context.Context //nolint:containedctx // the one around it, to wait with
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	at     time.Time
	timer  *time.Timer
	paused bool
	missed bool // the timer fired meanwhile
}

type deadlineKey struct{}

// withDeadline is for one entry into a guest, or for one load.
func withDeadline(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	d := &deadline{outer: ctx, at: time.Now().Add(after)}
	ctx, d.cancel = context.WithCancelCause(context.WithValue(ctx, deadlineKey{}, d))
	d.timer = time.AfterFunc(after, d.fire)
	return ctx, func() {
		d.timer.Stop()
		d.cancel(context.Canceled)
	}
}

func (d *deadline) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.missed = d.paused; !d.paused {
		d.cancel(errDeadline)
	}
}

func (d *deadline) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = true
}

// resume goes on, that much later.
func (d *deadline) resume(waited time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = false
	d.at = d.at.Add(waited)
	switch {
	case waited == 0 && !d.missed:
	case time.Now().Before(d.at):
		d.timer.Reset(time.Until(d.at))
	default:
		d.cancel(errDeadline)
	}
	d.missed = false
}

// unhurried runs something that waits for the host's own sake: what it answers
// as waited moves ctx's deadline. The error is of the wait, or ctx's cause.
func unhurried(ctx context.Context, wait func(context.Context) (waited time.Duration, err error)) error {
	d, ok := ctx.Value(deadlineKey{}).(*deadline)
	if !ok {
		_, err := wait(ctx)
		return err
	}
	d.pause()
	waited, err := wait(d.outer)
	d.resume(waited)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}
