package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// errDeadline is the cause of a context that ended by the call's own deadline.
var errDeadline = errors.New("deadline passed")

// engineConfig leaves out WithCloseOnContextDone: the fuel that is compiled
// into each module stops it (fuel.go).
func engineConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false).
		WithCompilationCache(cache)
}

// deadline ends a context, like that of [context.WithTimeoutCause], but can be
// paused: the time that a call waits for an execution slot is not the guest's.
// It is used by the goroutine of the call.
type deadline struct {
	at     time.Time
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

type deadlineKey struct{}

// withDeadline is for one entry into a guest, or for one load.
func withDeadline(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &deadline{at: time.Now().Add(after), cancel: cancel}
	d.timer = time.AfterFunc(after, func() { cancel(errDeadline) })
	return context.WithValue(ctx, deadlineKey{}, d), func() {
		d.timer.Stop()
		cancel(context.Canceled)
	}
}

// unhurried runs something that waits for the host's own sake: what it answers
// as waited moves ctx's deadline.
func unhurried(ctx context.Context, wait func(context.Context) (waited time.Duration, err error)) error {
	d, ok := ctx.Value(deadlineKey{}).(*deadline)
	if !ok {
		_, err := wait(ctx)
		return err
	}
	d.timer.Stop()
	waited, err := wait(ctx)
	d.at = d.at.Add(waited)
	if left := time.Until(d.at); left > 0 {
		d.timer.Reset(left)
	} else {
		d.cancel(errDeadline)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}
