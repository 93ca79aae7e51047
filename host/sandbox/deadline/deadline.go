// Package deadline ends contexts like [context.WithTimeoutCause], but lets what
// is waited for in between take no part of the time: what a call waits for an
// execution slot is not the guest's.
package deadline

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrPassed is the cause of a context that ended by its own deadline, and not by
// that of a context around it.
var ErrPassed = errors.New("deadline passed")

// deadline is of one context. It can be paused.
type deadline struct {
	outer  context.Context //nolint:containedctx // the one around it, to wait with
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	at     time.Time
	timer  *time.Timer
	paused bool
	missed bool // the timer fired meanwhile
}

type key struct{}

// With ends a context with [ErrPassed] after a time, or with
// [context.Canceled] when the function is called that it answers. What waits
// [Unhurried] meanwhile makes it later.
func With(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	d := &deadline{outer: ctx, at: time.Now().Add(after)}
	ctx, d.cancel = context.WithCancelCause(context.WithValue(ctx, key{}, d))
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
		d.cancel(ErrPassed)
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
		d.cancel(ErrPassed)
	}
	d.missed = false
}

// Unhurried runs something that waits for the host's own sake: what it answers
// as waited moves the deadline of ctx, if that has one. The wait is given a
// context that does not end by that deadline. The error is of the wait, or
// ctx's cause.
func Unhurried(ctx context.Context, wait func(context.Context) (waited time.Duration, err error)) error {
	d, ok := ctx.Value(key{}).(*deadline)
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
