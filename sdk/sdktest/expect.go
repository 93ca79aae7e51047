package sdktest

import (
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
)

// Condition returns a condition of the object after the run; it is zero if
// there is none.
func (r *Run) Condition(conditionType string) sdk.Condition {
	o := r.current()
	if o == nil {
		return sdk.Condition{}
	}
	if c := find(readConditions(o.raw), conditionType); c != nil {
		return *c
	}
	return sdk.Condition{}
}

// ExpectReady expects the run to have succeeded, and the object to be Ready.
func (r *Run) ExpectReady() *Run {
	r.tb.Helper()
	if r.ending() != success {
		return r.expectEnding(success, "")
	}
	return r.ExpectCondition(r.world.target(), sdk.True, "")
}

// ExpectSuccess expects the run to have succeeded, whatever the conditions:
// the host writes none on kinds of Kubernetes itself.
func (r *Run) ExpectSuccess() *Run {
	r.tb.Helper()
	return r.expectEnding(success, "")
}

// ExpectRetry expects the run to have failed with a reason.
func (r *Run) ExpectRetry(reason string) *Run {
	r.tb.Helper()
	return r.expectEnding(retry, reason)
}

// ExpectStalled expects the run to have stalled with a reason.
func (r *Run) ExpectStalled(reason string) *Run {
	r.tb.Helper()
	return r.expectEnding(stalled, reason)
}

// ExpectWaiting expects the run to wait with a reason.
func (r *Run) ExpectWaiting(reason string) *Run {
	r.tb.Helper()
	return r.expectEnding(waiting, reason)
}

// ExpectRequeue expects [sdk.Requeue].
func (r *Run) ExpectRequeue() *Run {
	r.tb.Helper()
	return r.expectEnding(requeue, "")
}

// ExpectEmpty expects [sdk.Empty].
func (r *Run) ExpectEmpty() *Run {
	r.tb.Helper()
	return r.expectEnding(empty, "")
}

func (r *Run) expectEnding(want ending, reason string) *Run {
	r.tb.Helper()
	if got := r.ending(); got != want || reason != "" && reason != r.Reason {
		r.tb.Errorf("the run ended in %s %s (%s), expected %s %s", got, r.Reason, r.Message, want, reason)
	}
	return r
}

// ExpectNext expects the next timed run after d; 0 expects none, so that only
// a change leads to another run.
func (r *Run) ExpectNext(d time.Duration) *Run {
	r.tb.Helper()
	switch next := r.decision.Next; {
	case next.Kind == outcome.Backoff:
		r.tb.Errorf("the next run comes by backoff, expected it after %s", d)
	case next.After != d:
		r.tb.Errorf("the next run comes after %s, expected %s", next.After, d)
	}
	return r
}

// ExpectCondition expects a condition on the object after the run; an empty
// reason stands for any, an empty status for no such condition.
func (r *Run) ExpectCondition(conditionType, status, reason string) *Run {
	r.tb.Helper()
	if c := r.Condition(conditionType); c.Status != status || reason != "" && c.Reason != reason {
		r.tb.Errorf("condition %s is %q with reason %q (%s), expected %q with reason %q",
			conditionType, c.Status, c.Reason, c.Message, status, reason)
	}
	return r
}

// ExpectWrites expects exactly these effects to have changed something, in
// this order; see [Run.Writes].
func (r *Run) ExpectWrites(writes ...string) *Run {
	r.tb.Helper()
	if !slices.Equal(r.Writes, writes) {
		r.tb.Errorf("the run wrote %q, expected %q", r.Writes, writes)
	}
	return r
}

// ExpectNoWrites expects the run to have changed nothing.
func (r *Run) ExpectNoWrites() *Run {
	r.tb.Helper()
	return r.ExpectWrites()
}

// ExpectEvents expects the run to have emitted events of exactly these
// reasons, in this order.
func (r *Run) ExpectEvents(reasons ...string) *Run {
	r.tb.Helper()
	var got []string
	if r.Result != nil {
		for _, e := range r.Result.Events {
			got = append(got, e.Reason)
		}
	}
	if !slices.Equal(got, reasons) {
		r.tb.Errorf("the run emitted events %q, expected %q", got, reasons)
	}
	return r
}

// ExpectLog expects a line whose text contains the given one.
func (r *Run) ExpectLog(text string) *Run {
	r.tb.Helper()
	if !slices.ContainsFunc(r.Logs, func(l Line) bool { return strings.Contains(l.Text, text) }) {
		r.tb.Errorf("the run logged %v, expected a line with %q", r.Logs, text)
	}
	return r
}

// ExpectClass expects the run to have failed with a class, such as
// [abi.ClassDenied].
func (r *Run) ExpectClass(class abi.Class) *Run {
	r.tb.Helper()
	if r.Class != class {
		r.tb.Errorf("the run ended with class %q (%s: %s), expected %q", r.Class, r.Reason, r.Message, class)
	}
	return r
}
