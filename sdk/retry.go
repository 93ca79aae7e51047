package sdk

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/abi"
)

// RetryPolicy is when runs of a controller that failed or returned [Requeue] are
// repeated. The zero value of each field stands for its default, which together
// are 0.5 s doubling to 15 minutes without end.
type RetryPolicy struct {
	Initial time.Duration // the first delay; default 0.5 s, at least 100 ms
	Factor  float64       // each delay is so many times the one before, 1 to 100; default 2
	Cap     time.Duration // the longest delay; default 15 minutes
	Jitter  float64       // the share of a delay that chance takes off at most, up to 1; default 0.2
	// Attempts is how many runs in a row may fail; 0 for no limit. Failures of the
	// host and of the API server do not count.
	Attempts int
	// Then is what follows after Attempts; default [ThenStalled].
	Then Then
}

// Then is what follows when the attempts of a [RetryPolicy] are used up.
type Then = abi.Then

// The values of [RetryPolicy.Then].
const (
	ThenStalled Then = abi.ThenStalled // only a change leads to another run, as after [Stalled]
	ThenCap     Then = abi.ThenCap     // the run is repeated after Cap each time
)

func (p RetryPolicy) manifest() abi.Retry {
	return abi.Retry{
		Initial: milliseconds(p.Initial), Factor: percent(p.Factor), Cap: milliseconds(p.Cap),
		Jitter: percent(p.Jitter), Attempts: p.Attempts, Then: p.Then,
	}
}

// percent keeps a small share from becoming 0, which stands for the default. The
// host refuses what is out of range.
func percent(share float64) int {
	if share <= 0 {
		return 0
	}
	return max(int(share*100+0.5), 1)
}

type (
	// EffectFailure is one effect of the last run that the host could not perform: see [Previous].
	//
	//	type EffectFailure struct {
	//		Verb    string // finalizer, patch, release, apply, delete, event or status; or what a capability reports
	//		Ref     Ref
	//		Class   Class
	//		Reason  string // the reason in the API server's response, such as Forbidden
	//		Message string
	//		Group   string // of the intent that failed, "" for none
	//	}
	EffectFailure = abi.EffectFailure
	// Class is the error class of a run or of an effect that failed.
	//
	//	type Class string
	//
	//	""               // the run did not fail
	//	"retry"          // the guest asked for a retry, or the host or the API server failed
	//	"stalled"        // the guest ended the run as stalled
	//	"waiting"        // the guest waits for something, or an object is being replaced
	//	"panic"          // the guest trapped or exited
	//	"timeout"        // the deadline of the call passed
	//	"out-of-memory"  // the guest needed more memory than its limit
	//	"stack-overflow" // the guest's calls nested too deeply
	//	"abi"            // the guest violated the specification
	//	"denied"         // an intent is outside the manifest, the policy or the plugin's rights
	Class = abi.Class
)

// decideError returns the error that decides how a run ends: that of ErrorPolicy, if
// there is one, for an error that leaves it open. attempt is the number of the
// failed run.
func (c *Controller[Spec, Status]) decideError(r *Request[Spec, Status], err error, attempt int) error {
	if c.ErrorPolicy == nil || decided(err) {
		return err
	}
	if decision := c.ErrorPolicy(r, err, attempt); decision != nil {
		return decision
	}
	return err
}

// decided reports whether an error determines itself when the run is repeated.
func decided(err error) bool {
	if errors.Is(err, ErrUnavailable) {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	return ok && (e.After > 0 || e.code == abi.CodeStalled || e.code == abi.CodeWaiting)
}
