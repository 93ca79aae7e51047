// Package deadline ends contexts like [context.WithTimeoutCause], with a clock
// that can be paused: the time that a call waits for an execution slot is not
// the guest's and does not count.
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

// deadline is a context with its deadline.
type deadline struct {
	context.Context //nolint:containedctx // it is one
	cancel          context.CancelCauseFunc
	outer           context.Context //nolint:containedctx // the context around it, which paused waits use

	mu     sync.Mutex
	at     time.Time
	timer  *time.Timer
	paused bool
	missed bool // whether the timer fired while the deadline was paused
}

type key struct{}

// With returns a context that ends with [ErrPassed] after a time, or with
// [context.Canceled] when the returned function is called. [Pause] moves the
// deadline.
func With(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	d := &deadline{outer: ctx, at: time.Now().Add(after)}
	d.Context, d.cancel = context.WithCancelCause(ctx)
	d.timer = time.AfterFunc(after, d.fire)
	return d, d.end
}

// Deadline returns when the context ends, unless a pause moves that.
func (d *deadline) Deadline() (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if outer, ok := d.outer.Deadline(); ok && outer.Before(d.at) {
		return outer, true
	}
	return d.at, true
}

// Value returns the deadline itself for key.
func (d *deadline) Value(of any) any {
	if of == (key{}) {
		return d
	}
	return d.Context.Value(of)
}

func (d *deadline) end() {
	d.timer.Stop()
	d.cancel(context.Canceled)
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

// resume moves the deadline by the time waited. The timer is set again only if
// that is needed: most waits are none.
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

// Pause calls wait while the deadline of ctx, if it has one, is paused, and then
// moves the deadline by the time that wait returns as waited. wait receives a
// context that does not end by that deadline. The error is wait's, or the cause
// of ctx's end.
func Pause(ctx context.Context, wait func(context.Context) (waited time.Duration, err error)) error {
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

// End ends ctx, which must be of [With] or derived from one, with a cause. A wait in
// [Pause] is not ended.
func End(ctx context.Context, cause error) {
	if d, ok := ctx.Value(key{}).(*deadline); ok {
		d.cancel(cause)
	}
}
