package sdk

import (
	"errors"
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi"
)

// Action is when to run again after a run that succeeded. The zero Action is
// [AwaitChange].
type Action struct {
	outcome abi.Outcome
	after   time.Duration
}

// AwaitChange ends a run that has reached the desired state. The next run
// happens when the object changes, or one that it owns, or anything that this
// run has read; otherwise after the controller's Interval, if it has one.
func AwaitChange() Action { return Action{} }

// RequeueAfter is [AwaitChange] with a next run after d at the latest. The
// desired state is reached: to wait for it, return [Waiting]. A d of zero or less
// means at once, which is after 100 ms: the host runs no object sooner again. More
// than 100 years counts as that.
func RequeueAfter(d time.Duration) Action { return Action{after: max(d, time.Millisecond)} }

// Requeue ends a run that succeeded but has not reached the desired state yet.
// It is repeated with backoff.
func Requeue() Action { return Action{outcome: abi.OutcomeRequeue} }

// Empty ends a run that has no result: the object's readiness stays as it is,
// and the next run happens when something changes.
func Empty() Action { return Action{outcome: abi.OutcomeEmpty} }

// write sets the outcome of a result.
func (a Action) write(out *abi.Result) {
	out.Result = a.Outcome()
	out.RequeueAfter = milliseconds(a.after)
}

// longest is the longest duration of a message (SPEC.md, "Messages"). A user may write a
// longer one into a spec, and that is no mistake of the plugin.
const longest = 100 * 365 * 24 * time.Hour

// milliseconds rounds up, so that a positive duration does not become 0.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((min(d, longest)-1)/time.Millisecond) + 1
}

// Error is an error that determines how its run is handled. It is created by
// [Retry], [RetryAfter], [Stalled], [Waiting] or [Denied], and may be wrapped.
type Error struct {
	Reason string        // CamelCase, the reason of the conditions; "" for that of the wrapped error, or a general one
	After  time.Duration // when to run again, of Waiting and RetryAfter; 0 leaves it to the host

	code   abi.Code
	denied bool // by [Denied]
	err    error
}

// Retry returns an error that ends the run as failed. It is repeated with
// backoff. Any other error means the same, without a reason.
func Retry(reason string, err error) error {
	return &Error{Reason: reason, code: abi.CodeRetry, err: err}
}

// RetryAfter returns an error that ends the run as failed, as err alone would. It
// is repeated after the given time instead of the backoff; with 0 as soon as the
// host allows, which is after 100 ms. Attempts of the controller's [RetryPolicy]
// that are used up take precedence. It has an effect in plugins only that set
// Retry or ErrorPolicy of a controller, and so ask the host for it.
func RetryAfter(after time.Duration, err error) error {
	return &Error{After: max(after, time.Millisecond), code: abi.CodeRetry, err: err}
}

// Stalled returns an error that only a change can resolve: the run is not
// repeated until the object, or something that the run has read, changes.
func Stalled(reason string, err error) error {
	return &Error{Reason: reason, code: abi.CodeStalled, err: err}
}

// Waiting returns an error that is not a failure: something else must happen
// first. The run is repeated when something that it has read changes, and after
// the given time at the latest; 0 leaves the time to the host.
func Waiting(reason string, after time.Duration, err error) error {
	return &Error{Reason: reason, After: after, code: abi.CodeWaiting, err: err}
}

// Error returns the message of the wrapped error, or the reason if there is
// none.
func (e *Error) Error() string {
	if e.err == nil {
		return e.Reason
	}
	return e.err.Error()
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.err }

// The errors of Get and List, for [errors.Is].
var (
	// ErrNotFound means that the object does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDenied means that the kind is not declared in For, Owns, Reads or Watches, that
	// the namespace is out of reach, that the controller's Select does not follow what is
	// read, or that the plugin lacks the right. The host's log has the reason.
	ErrDenied = errors.New("denied: declare the kind in Owns or Reads, ask for no more than Select follows, and check the rights of the plugin")
	// ErrConflict means that the object changed while it was used.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable means that there is no reply yet. Return it: the host repeats the
	// run as soon as there is one.
	ErrUnavailable = errors.New("not available yet")
	// ErrInvalid means that the call is malformed, for example that a selector
	// does not parse.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge means that the reply exceeds what the plugin may read at once: package read
	// has Pages and Fields.
	ErrTooLarge = errors.New("too large: a reply has at most " + strconv.Itoa(abi.MaxReply>>20) +
		" MiB: read the objects a page at a time, by read.Pages, or only some of their fields, by read.Fields")
)

// sentinels are the errors of the negative codes of a capability call, with the
// reason of the conditions if the run ends with that error.
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

// codeError returns the error of a negative code. A newer host may have others,
// which count as unavailable (SPEC.md, "Imports"). It returns nil for the length of a
// reply.
func codeError(code int64) error {
	if code >= 0 {
		return nil
	}
	for _, s := range sentinels {
		if s.code == code {
			return s.err
		}
	}
	return ErrUnavailable
}

// failureOf returns the code and the failure of a run that ended with err.
func failureOf(err error) (abi.Code, *abi.Failure) {
	f := &abi.Failure{Reason: reasonOf(err), Message: err.Error()}
	// The host repeats the run as soon as there is a reply, in whatever error the author
	// has wrapped this one.
	if errors.Is(err, ErrUnavailable) {
		f.Reason = "Unavailable"
		return abi.CodeRetry, f
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return abi.CodeRetry, f
	}
	f.After = milliseconds(e.After)
	if e.code == abi.CodeOK { // a composite literal of the author
		return abi.CodeRetry, f
	}
	return e.code, f
}

// reasonOf returns the reason of an error, or of one that it wraps; "" if there is
// none.
func reasonOf(err error) string {
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.err) {
		if e.Reason != "" {
			return e.Reason
		}
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.reason
		}
	}
	return ""
}
