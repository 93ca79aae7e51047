package sdk

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/abi"
)

// What get and list can answer instead of an object, for [errors.Is].
var (
	// ErrNotFound: the object does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDenied: the kind is not declared in For, Owns or Reads, the
	// namespace is out of reach, or the plugin lacks the right.
	ErrDenied = errors.New("denied: declare the kind in Owns or Reads, and check the rights of the plugin")
	// ErrConflict: the object changed while it was used.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: there is no answer yet. Return the error: the run is
	// repeated as soon as there is one.
	ErrUnavailable = errors.New("not available yet")
	// ErrInvalid: the question makes no sense, such as a selector that does
	// not parse.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: the answer exceeds what the plugin may read at once.
	ErrTooLarge = errors.New("too large: read fewer objects at once")
)

// sentinels are the errors of the negative codes of a capability call, with
// the reason that a condition gets when the run ends with one.
var sentinels = []struct {
	code   int64
	err    error
	reason string
}{
	{abi.CodeNotFound, ErrNotFound, "NotFound"},
	{abi.CodeDenied, ErrDenied, "Denied"},
	{abi.CodeConflict, ErrConflict, "Conflict"},
	{abi.CodeUnavailable, ErrUnavailable, "Unavailable"},
	{abi.CodeInvalid, ErrInvalid, "InvalidCall"},
	{abi.CodeTooLarge, ErrTooLarge, "TooLarge"},
}

// codeError returns the error of a negative code. One of a newer host says
// that there is no answer (SPEC.md, "Imports").
func codeError(code int64) error {
	for _, s := range sentinels {
		if s.code == code {
			return s.err
		}
	}
	return ErrUnavailable
}

// Error is an error that says how it wants to be handled. Make one with
// [Retry], [Stalled] or [Waiting]; wrapping it keeps what it says.
type Error struct {
	Reason string        // CamelCase, the reason of the conditions; "" for a general one
	After  time.Duration // when to come again, of Waiting; 0 leaves it to the host

	code abi.Code
	err  error
}

// Retry returns an error that ends the run as failed: it is tried again, each
// time later. A plain error means the same, without a reason.
func Retry(reason string, err error) error {
	return &Error{Reason: reason, code: abi.CodeRetry, err: err}
}

// Stalled returns an error that only a change can help: the run is not
// repeated before the object, or something that the run read, has changed.
func Stalled(reason string, err error) error {
	return &Error{Reason: reason, code: abi.CodeStalled, err: err}
}

// Waiting returns an error that is none: something else must happen first.
// The run is repeated when something changes that it read, and after the
// given time at the latest; 0 leaves the time to the host.
func Waiting(reason string, after time.Duration, err error) error {
	return &Error{Reason: reason, After: after, code: abi.CodeWaiting, err: err}
}

// Error returns the message of the error inside, the reason if there is none.
func (e *Error) Error() string {
	if e.err == nil {
		return e.Reason
	}
	return e.err.Error()
}

// Unwrap returns the error inside.
func (e *Error) Unwrap() error { return e.err }

// failureOf classifies the error that ended a run.
func failureOf(err error) (abi.Code, *abi.Failure) {
	f := &abi.Failure{Message: err.Error()}
	if errors.Is(err, ErrUnavailable) { // whatever was made of it, the host knows better
		f.Reason = "Unavailable"
		return abi.CodeRetry, f
	}
	if e, ok := errors.AsType[*Error](err); ok {
		f.Reason, f.After = e.Reason, milliseconds(e.After)
		if e.code == abi.CodeOK { // not made by one of the three
			return abi.CodeRetry, f
		}
		return e.code, f
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			f.Reason = s.reason
		}
	}
	return abi.CodeRetry, f
}
