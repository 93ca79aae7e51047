package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// call calls the guest. Its outcome is in returned and result, or in fault.
func (r *run) call(ctx context.Context) {
	if r.fault != nil || r.incomplete != nil {
		return // the run could not begin
	}
	returned, err := r.revision.Guest.Reconcile(ctx, sandbox.Call{
		Request:       abi.EncodeRequestParts(r.request()),
		Namespace:     r.given.Namespace,
		Now:           r.start,
		Seed:          r.seed,
		Deadline:      time.Duration(r.revision.Controller.Timeout) * time.Millisecond,
		Host:          r,
		BeforeRelease: r.decode,
	})
	r.returned = returned
	switch {
	case err != nil:
		r.failed(err)
	case r.result == nil && r.fault == nil:
		r.decode(returned)
	}
}

// decode decodes what the guest returned. The sandbox calls it while the guest
// still holds its execution slot, so that the time that a large result takes is
// the plugin's own.
func (r *run) decode(returned sandbox.Return) {
	r.returned = returned
	if len(returned.Output) == 0 && returned.Code != abi.CodeOK {
		r.result = &abi.Result{} // the code alone is a complete result
		return
	}
	var err error
	if r.result, err = abi.DecodeResult(returned.Output); err != nil {
		r.fault = &outcome.Fault{Class: abi.ClassABI, Reason: "InvalidResult", Message: "the result of the plugin cannot be decoded: " + err.Error() + "; correct the plugin, or build it with the SDK of the host's version"}
	}
	r.boundIntents(err)
	r.refuseWritesToGone()
}

// boundIntents refuses a result with more intents than the plugin may return.
func (r *run) boundIntents(decodeError error) {
	limit := r.revision.MaxIntents
	exceeded := decodeError == nil && limit > 0 && r.result.Intents() > limit
	if exceeded {
		r.fault = &outcome.Fault{Class: abi.ClassABI, Reason: "TooManyIntents", Message: fmt.Sprintf("the result of the plugin has %d entries in apply, delete and events, and the limit is %d: return fewer in one run, or raise limits.intents in the plugin's policy or in the host's configuration", r.result.Intents(), limit)}
	}
	if exceeded || abi.TooManyIntents(decodeError) {
		r.c.Metrics.Limited("intents")
	}
}

// request is the request of the guest.
func (r *run) request() *abi.Request {
	return &abi.Request{
		Controller: r.c.Name,
		Object:     r.revision.given(r.given),
		Deleting:   r.given.Deleting(),
		Gone:       r.gone != nil,
		Change:     r.change(),
		Reasons:    r.reasons(),
		Timers:     r.due,
		Signals:    r.takeSignals(),
		Attempt:    r.state.tries.Attempt,
		Previous:   r.state.previous,
		Memo:       r.state.memo,
		Now:        r.start,
		Seed:       r.seed,
		Config:     r.revision.Config,
	}
}
