package sdktest

import (
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
)

// Condition returns a condition of the object after the run. It is zero if there is
// none.
func (r *Run) Condition(conditionType string) sdk.Condition {
	if o := r.current(); o != nil {
		list := outcome.ReadConditions(o.raw)
		if i := indexOf(list, conditionType); i >= 0 {
			return list[i]
		}
	}
	return sdk.Condition{}
}

// ending returns the function of package sdk that the run ended with, in lower case.
func (r *Run) ending() string {
	switch r.Class {
	case abi.ClassNone:
		return string(r.Result.Result)
	case abi.ClassStalled, abi.ClassWaiting:
		return string(r.Class)
	default:
		return string(abi.ClassRetry)
	}
}

const success = string(abi.OutcomeSuccess)

// ExpectReady expects that the run succeeded and the object is Ready.
func (r *Run) ExpectReady() *Run {
	r.tb.Helper()
	if r.ending() != success {
		return r.ExpectSuccess()
	}
	return r.ExpectCondition(r.world.controller.Conditions.TargetOrReady(), sdk.True, "")
}

// ExpectSuccess expects that the run succeeded, whatever the conditions are: the host
// writes none on the kinds of Kubernetes itself.
func (r *Run) ExpectSuccess() *Run {
	r.tb.Helper()
	return r.expectEnding(success, "")
}

// ExpectRetry expects that the run failed with a reason; "" is any reason.
func (r *Run) ExpectRetry(reason string) *Run {
	r.tb.Helper()
	return r.expectEnding(string(abi.ClassRetry), reason)
}

// ExpectStalled expects that the run stalled with a reason; "" is any reason.
func (r *Run) ExpectStalled(reason string) *Run {
	r.tb.Helper()
	return r.expectEnding(string(abi.ClassStalled), reason)
}

// ExpectWaiting expects that the run waits with a reason; "" is any reason.
func (r *Run) ExpectWaiting(reason string) *Run {
	r.tb.Helper()
	return r.expectEnding(string(abi.ClassWaiting), reason)
}

// ExpectRequeue expects that the run returned [sdk.Requeue].
func (r *Run) ExpectRequeue() *Run {
	r.tb.Helper()
	return r.expectEnding(string(abi.OutcomeRequeue), "")
}

// ExpectEmpty expects that the run returned [sdk.Empty].
func (r *Run) ExpectEmpty() *Run {
	r.tb.Helper()
	return r.expectEnding(string(abi.OutcomeEmpty), "")
}

// expectEnding expects the ending and, unless it is empty, the reason.
func (r *Run) expectEnding(want, reason string) *Run {
	r.tb.Helper()
	got := r.ending()
	return r.expect(got == want && (reason == "" || reason == r.Reason),
		"the run ended in %s %s (%s), expected %s %s", got, r.Reason, r.Message, want, reason)
}

// expect fails the test with a message unless ok.
func (r *Run) expect(ok bool, format string, args ...any) *Run {
	r.tb.Helper()
	if !ok {
		r.tb.Errorf(format, args...)
	}
	return r
}

// ExpectNext expects that the next timed run is due after d. If d is 0 it expects
// none, so that only a change leads to another run. The run must not end in the
// backoff of the controller; see [Run.ExpectBackoff].
func (r *Run) ExpectNext(d time.Duration) *Run {
	r.tb.Helper()
	next := r.decision.Next
	if r.backsOff() {
		return r.expect(false, "the next run is due after the backoff (%s), expected it after %s", next.After, d)
	}
	return r.expect(next.After == d, "the next run is due after %s, expected %s", next.After, d)
}

// ExpectBackoff expects that the next run is due after the backoff of the
// controller, which is d without jitter.
func (r *Run) ExpectBackoff(d time.Duration) *Run {
	r.tb.Helper()
	next := r.decision.Next
	return r.expect(r.backsOff() && next.After == d,
		"the next run is due after %s, in backoff: %t; expected a backoff of %s", next.After, r.backsOff(), d)
}

// backsOff reports whether the backoff decides when the next run is due, and not
// the guest.
func (r *Run) backsOff() bool {
	named := r.Class == abi.ClassRetry && len(r.failures()) == 0 && r.Result != nil && r.Result.Error != nil && r.Result.Error.After > 0 ||
		len(r.groups) > 0 && r.decision.Next.Reason == abi.ReasonRequeue
	return r.decision.Next.Kind == outcome.Backoff && !named
}

// ExpectCondition expects a condition of the object after the run. An empty reason
// matches any, and an empty status expects that there is no such condition.
func (r *Run) ExpectCondition(conditionType, status, reason string) *Run {
	r.tb.Helper()
	c := r.Condition(conditionType)
	return r.expect(c.Status == status && (reason == "" || c.Reason == reason),
		"condition %s is %q with reason %q (%s), expected %q with reason %q",
		conditionType, c.Status, c.Reason, c.Message, status, reason)
}

// ExpectWrites expects that exactly these effects changed something, in this order;
// see [Run.Writes].
func (r *Run) ExpectWrites(writes ...string) *Run {
	r.tb.Helper()
	return r.expect(slices.Equal(r.Writes, writes), "the run wrote %q, expected %q", r.Writes, writes)
}

// ExpectNoWrites expects that the run changed nothing.
func (r *Run) ExpectNoWrites() *Run {
	r.tb.Helper()
	return r.ExpectWrites()
}

// ExpectEvents expects that the run emitted events with exactly these reasons, in
// this order.
func (r *Run) ExpectEvents(reasons ...string) *Run {
	r.tb.Helper()
	var got []string
	if r.Result != nil {
		for _, e := range r.Result.Events {
			got = append(got, e.Reason)
		}
	}
	return r.expect(slices.Equal(got, reasons), "the run emitted events %q, expected %q", got, reasons)
}

// ExpectLog expects a line whose message contains text.
func (r *Run) ExpectLog(text string) *Run {
	r.tb.Helper()
	return r.expect(hasLine(r.Logs, text), "the run logged %v, expected a line with %q", r.Logs, text)
}

// hasLine reports whether the message of a line contains text.
func hasLine(lines []Line, text string) bool {
	return slices.ContainsFunc(lines, func(l Line) bool { return strings.Contains(l.Text, text) })
}

// ExpectClass expects that the run failed with a class, such as [abi.ClassDenied].
func (r *Run) ExpectClass(class abi.Class) *Run {
	r.tb.Helper()
	return r.expect(r.Class == class,
		"the run ended with class %q (%s: %s), expected %q", r.Class, r.Reason, r.Message, class)
}
