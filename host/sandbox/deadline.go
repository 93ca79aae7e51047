package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// This file is all that knows how a running guest is stopped: the engine
// checks the context at loop headers and function entries, and closes the
// module when it is done.

// errDeadline is the cause of a context that ended by the call's own deadline.
var errDeadline = errors.New("deadline passed")

func engineConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false).
		WithCloseOnContextDone(true).
		WithCompilationCache(cache)
}

func withDeadline(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errDeadline)
}

// stopped tells whether an entry ended because its context did.
func stopped(err error) bool {
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		return exit.ExitCode() == sys.ExitCodeDeadlineExceeded || exit.ExitCode() == sys.ExitCodeContextCanceled
	}
	_, late := errors.AsType[*overrun](err)
	return late
}
