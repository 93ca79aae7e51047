package operator

import (
	"errors"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// Pending is an event that is delivered again later: its call returned an error, or
// RequeueAfter. Of the object in that call only the generation is known.
type Pending struct {
	Action     Action
	Generation int64  // 0 of a kind that has none
	Calls      int    // for this event so far
	Message    string // the first 100 bytes of that of the error
}

// DequeueOlder is a value of Dequeue. It drops an event for one of the same action and another
// generation, and keeps it otherwise.
func DequeueOlder[Spec, Status sdk.Value](r *Request[Spec, Status], pending Pending) bool {
	return r.Action == pending.Action && r.Generation != pending.Generation
}

var errRequeued = errors.New("the reconciler is called again")

// decide returns how an event ends after so many calls: nil if it is done, an error that is
// stalled if it is given up, and otherwise one that is for a time.
func (p *pass[Spec, Status]) decide(result Result, err error, calls int) error {
	switch {
	case result.RequeueAfter > 0 && err == nil:
		return sdk.Waiting("Requeued", result.RequeueAfter, errRequeued)
	case result.RequeueAfter > 0:
		return sdk.RetryAfter(result.RequeueAfter, err)
	case err == nil:
		return nil
	}
	if p.errorPolicy != nil && !decided(err) {
		if decision := p.errorPolicy(p.r, err, calls); decision != nil {
			err = decision
		}
	}
	if decided(err) {
		return err
	}
	policy := p.retry
	if p.RetryOf != nil {
		policy = p.RetryOf(err)
	}
	used := policy.Attempts > 0 && calls >= policy.Attempts
	if used && policy.Then != sdk.ThenCap {
		return sdk.Stalled("", err)
	}
	return sdk.RetryAfter(delay(policy, calls, used, p.r.Seed[0]), err)
}

// decided reports whether an error determines itself what follows.
func decided(err error) bool {
	e, ok := errors.AsType[*sdk.Error](err)
	return ok && e.After > 0 || errors.Is(err, sdk.ErrUnavailable) || sdk.IsStalled(err) || sdk.IsWaiting(err)
}

// defaultWait is the time of an error of [sdk.Waiting] that has none.
const defaultWait = 30 * time.Second

// afterOf returns when an event with a decided error is delivered again.
func afterOf(err error) time.Duration {
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.After > 0 {
		return e.After
	}
	return defaultWait
}

// The defaults of a policy: abi/spec/retries.md, "Retry".
const (
	defaultInitial = 500 * time.Millisecond
	defaultFactor  = 2
	defaultCap     = 15 * time.Minute
	defaultJitter  = 0.2
)

// delay returns the time after so many calls: the longest one if the attempts are used up.
// chance takes off a part of it.
func delay(p sdk.RetryPolicy, calls int, used bool, chance byte) time.Duration {
	first := orDefault(p.Initial, defaultInitial)
	limit := orDefault(p.Cap, max(first, defaultCap))
	factor := max(orDefault(p.Factor, defaultFactor), 1)
	d := float64(first)
	for n := 1; n < calls && d < float64(limit); n++ {
		d *= factor
	}
	if d = min(d, float64(limit)); used {
		d = float64(limit)
	}
	return time.Duration(d * (1 - orDefault(p.Jitter, defaultJitter)*float64(chance)/256))
}

func orDefault[T time.Duration | float64](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// maxMessage is the length in bytes to which messages are cut in the record.
const maxMessage = 100

// short returns the start of a message, in which no byte takes more than three in JSON.
func short(message string) string {
	message = strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, message)
	return strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
}
