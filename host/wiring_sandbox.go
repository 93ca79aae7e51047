package host

import (
	"context"
	"errors"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/sandbox"
)

// loader loads modules for the catalog.
type loader struct {
	sandbox *sandbox.Sandbox
	limits  sandbox.Limits
}

func (l loader) Load(ctx context.Context, name string, wasm []byte) (catalog.Guest, error) {
	guest, err := l.sandbox.Load(ctx, sandbox.Plugin{Name: name, Wasm: wasm, Limits: l.limits})
	if err != nil {
		return nil, loadFailure{err}
	}
	return guest, nil
}

// loadFailure tells the catalog at which step a load failed, and people what
// to do.
type loadFailure struct{ error }

func (f loadFailure) Error() string {
	text := f.error.Error()
	if e, ok := errors.AsType[*sandbox.LoadError](f.error); ok && e.Advice() != "" {
		text += "; " + e.Advice()
	}
	return text
}

func (f loadFailure) Unwrap() error { return f.error }

func (f loadFailure) LoadStep() string {
	if e, ok := errors.AsType[*sandbox.LoadError](f.error); ok {
		return e.Step
	}
	return "load"
}

// dispatchGuest is a guest as dispatch wants it.
type dispatchGuest struct{ *sandbox.Guest }

func (g dispatchGuest) Reconcile(ctx context.Context, call dispatch.Call) (dispatch.Return, error) {
	out, err := g.Guest.Reconcile(ctx, sandbox.Call{
		Request:  call.Request,
		Now:      call.Now,
		Seed:     call.Seed,
		Deadline: call.Timeout,
		Host:     call.Host,
	})
	if errors.Is(err, sandbox.ErrClosed) {
		return dispatch.Return{}, dispatch.ErrClosed
	}
	return dispatch.Return{Code: out.Code, Output: out.Output}, err
}
