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
	config  Config
}

func (l loader) Load(ctx context.Context, m *catalog.Module) (catalog.Guest, error) {
	policy, err := l.config.readPolicy(m.Name, m.Policy)
	if err != nil {
		return nil, err
	}
	guest, err := l.sandbox.Load(ctx, sandbox.Plugin{Name: m.Name, Digest: m.Digest, Source: m.Read, Limits: policy.Limits.Sandbox()})
	if err != nil {
		return nil, loadError(err)
	}
	return guest, nil
}

func (l loader) Reload(ctx context.Context, guest catalog.Guest, m *catalog.Module) (catalog.Guest, error) {
	policy, err := l.config.readPolicy(m.Name, m.Policy)
	if err != nil {
		return nil, err
	}
	again, err := l.sandbox.Relimit(ctx, guest.(*sandbox.Guest), policy.Limits.Sandbox())
	if err != nil {
		return nil, loadError(err)
	}
	return again, nil
}

// loadError tells the catalog whether to try again.
func loadError(err error) error {
	if errors.Is(err, sandbox.ErrHostMemory) {
		return &catalog.WaitError{Reason: err.Error()}
	}
	return loadFailure{err}
}

// loadFailure tells the catalog at which step a load failed, and people what
// to do.
type loadFailure struct{ error }

func (f loadFailure) Error() string {
	text := f.error.Error()
	if fault, ok := errors.AsType[*sandbox.Fault](f.error); ok {
		text += dispatch.Where(fault.Stack)
	}
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
		Then:     func(out sandbox.Return) { call.Then(returned(out)) },
	})
	if errors.Is(err, sandbox.ErrClosed) {
		return dispatch.Return{}, dispatch.ErrClosed
	}
	return returned(out), dispatchFault(err)
}

func returned(out sandbox.Return) dispatch.Return {
	return dispatch.Return{
		Code: out.Code, Output: out.Output,
		Usage: dispatch.Usage{Time: out.Duration, Fuel: out.Fuel, MemoryBytes: out.MemoryBytes},
	}
}

// dispatchFault tells dispatch of a failure for which the guest is to blame. A
// guest that lacked memory because others have it is not.
func dispatchFault(err error) error {
	f, ok := errors.AsType[*sandbox.Fault](err)
	if !ok || f.Innocent() {
		return err
	}
	return &dispatch.Fault{Class: f.Class, Message: err.Error(), Stack: f.Stack}
}
