package handlers

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// ErrorMode is what follows an error of a handler.
type ErrorMode int

// The values of [ErrorMode].
const (
	ErrorsRetry     ErrorMode = iota // the handler is called again
	ErrorsIgnore                     // it is logged, and counts as success
	ErrorsPermanent                  // the handler has failed for this change
)

// Permanent returns an error after which the handler has failed for this change, whatever its
// [ErrorMode] is. So does [sdk.Stalled].
func Permanent(err error) error { return sdk.Stalled("", err) }

// Temporary returns an error after which the handler is called again after a time, whatever
// its [ErrorMode] is. So does [sdk.RetryAfter].
func Temporary(err error, after time.Duration) error { return sdk.RetryAfter(after, err) }

// policy is what follows the errors of a handler.
type policy struct {
	retries          int           // calls at most; 0: no limit
	timeout, backoff time.Duration // 0: none, and the default
	errors           ErrorMode
}

// verdict is what follows a call of a handler.
type verdict int

const (
	succeeded verdict = iota
	ignored           // an error, which counts as success
	failed            // for good
	waits             // something else must happen first
	tries             // again
)

// judge returns what follows the call number n, which is 1 for the first, at a time after the
// first call, and when the handler is called again.
func (p *policy) judge(err error, n int, elapsed time.Duration, jitter byte) (verdict, time.Duration) {
	if err == nil {
		return succeeded, 0
	}
	after := p.delay(n, jitter)
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.After > 0 {
		after = e.After
	} else if !sdk.IsStalled(err) && !sdk.IsWaiting(err) && p.errors != ErrorsRetry {
		return p.decided(), 0
	}
	late := p.timeout > 0 && elapsed+after > p.timeout
	switch {
	case sdk.IsStalled(err) || late:
		return failed, 0
	case sdk.IsWaiting(err):
		return waits, after
	case p.retries > 0 && n >= p.retries:
		return failed, 0
	}
	return tries, after
}

func (p *policy) decided() verdict {
	if p.errors == ErrorsIgnore {
		return ignored
	}
	return failed
}

// The default backoff of a handler.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 15 * time.Minute
)

// delay returns the backoff after the call number n. Up to a fifth of the default is taken
// off by jitter, so that many objects are not retried at the same time.
func (p *policy) delay(n int, jitter byte) time.Duration {
	if p.backoff > 0 {
		return p.backoff
	}
	d := maxBackoff
	if n < 12 {
		d = min(minBackoff<<(n-1), maxBackoff)
	}
	return d - d/5*time.Duration(jitter)/256
}
