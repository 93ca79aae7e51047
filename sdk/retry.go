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
	ThenStalled = abi.ThenStalled // only a change leads to another run, as after [Stalled]
	ThenCap     = abi.ThenCap     // the run is repeated after Cap each time
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
