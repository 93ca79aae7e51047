package operator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/operator"
)

// keep is a Dequeue that drops nothing.
func keep(*request, pending) bool { return false }

// keeping returns a test of a site that was handled, and whose pending events are dropped by a
// Dequeue. Errors are retried after a minute.
func keeping(t *testing.T, dequeue func(*request, pending) bool) *test {
	t.Helper()
	x := &test{t: t, edit: withoutChance}
	r := x.record()
	r.Opinionated, r.Dequeue = true, dequeue
	x.begin(r, controller{Retry: sdk.RetryPolicy{Initial: time.Minute, Factor: 1}})
	x.run("created A").ExpectReady()
	return x
}

func TestNewerChangeDropsAPendingEvent(t *testing.T) {
	x := keeping(t, nil)
	x.fail = errBroken
	x.title("B")
	x.run("updated B")
	x.fail = nil
	x.title("C")
	x.run("updated C").ExpectReady().ExpectNext(0)
}

func TestEventThatIsKeptIsDeliveredAtItsOwnTime(t *testing.T) {
	x := keeping(t, keep)
	x.fail, x.State = errBroken, "half"
	x.title("B")
	x.run("updated B").ExpectRetry("").ExpectNext(time.Minute)
	x.Advance(10 * time.Second)
	x.fail, x.State = nil, nil
	x.title("C")
	r := x.run("updated C").ExpectWaiting("RetryPending").ExpectNext(50 * time.Second)
	if r.Message != "updated is delivered again: broken" {
		t.Errorf("the message is %q", r.Message)
	}
	x.Advance(49 * time.Second)
	x.edit = func(q *abi.Request) { q.Reasons = []abi.Reason{abi.ReasonOwned} }
	x.run().ExpectWaiting("RetryPending").ExpectNext(time.Second)
	x.edit = nil
	x.Advance(time.Second)
	x.run("updated C 1 half").ExpectReady().ExpectNext(0)
	x.run()
}

func TestEventThatIsKeptIsRetriedByThePolicy(t *testing.T) {
	x := keeping(t, keep)
	x.fail = errBroken
	x.title("B")
	x.run("updated B")
	x.fail = nil
	x.title("C")
	x.run("updated C")
	x.Advance(time.Minute)
	x.fail = errBroken
	x.run("updated C 1").ExpectRetry("").ExpectNext(time.Minute)
	x.run().ExpectWaiting("RetryPending") // it is not delivered early
	x.Advance(time.Minute)
	x.fail = sdk.Stalled("Wrong", errBroken)
	x.run("updated C 2").ExpectStalled("Wrong").ExpectNext(0)
}

func TestTwoPendingEventsHaveOneDeadline(t *testing.T) {
	x := keeping(t, keep)
	x.fail = errBroken
	x.title("B")
	x.run("updated B").ExpectNext(time.Minute)
	x.Advance(20 * time.Second)
	x.title("C")
	x.run("updated C").ExpectRetry("").ExpectNext(40 * time.Second)
	x.Advance(40 * time.Second)
	x.fail = nil
	x.run("updated C 1").ExpectWaiting("RetryPending").ExpectNext(20 * time.Second)
	x.Advance(20 * time.Second)
	x.run("updated C 1").ExpectReady()
}

func TestOlderOfTwoEventsThatAreDueComesFirst(t *testing.T) {
	x := keeping(t, keep)
	x.fail = errBroken
	for _, title := range []string{"B", "C"} {
		x.State = title
		x.title(title)
		x.run("updated " + title)
	}
	x.Advance(time.Minute)
	x.fail, x.State = nil, nil
	x.run("updated C 1 B")
	x.run("updated C 1 C").ExpectReady()
}

func TestEventThatIsGivenUpDoesNotEndTheOthers(t *testing.T) {
	x := keeping(t, keep)
	x.fail = errBroken
	x.title("B")
	x.run("updated B")
	x.fail = sdk.Stalled("Wrong", errors.New("no such title"))
	x.title("C")
	r := x.run("updated C").ExpectWaiting("Wrong").ExpectNext(time.Minute)
	if r.Message != "no such title" {
		t.Errorf("the message is %q", r.Message)
	}
	x.Advance(time.Minute)
	x.fail = nil
	x.run("updated C 1").ExpectReady()
}

// Two older events wait at most, and each of them has the state of 1 KiB.
func TestOldestOfTooManyEventsGivesWay(t *testing.T) {
	for _, c := range []string{"\x01", "\xff", "\""} {
		oldestGivesWay(t, errors.New(strings.Repeat(c, 101)))
	}
}

func oldestGivesWay(t *testing.T, err error) {
	t.Helper()
	x := keeping(t, func(_ *request, failed pending) bool {
		if n := len(failed.Message); n > 100 || n < 100 && failed.Message[0] < 0x80 { // no part of a character
			t.Errorf("the message has %d bytes", len(failed.Message))
		}
		return false
	})
	x.fail = err
	for _, title := range []string{"B", "C", "D", "E"} {
		x.State = title + strings.Repeat("x", 1021)
		x.title(title)
		x.run("updated " + title).ExpectRetry("")
		x.Advance(time.Second)
	}
	x.Advance(time.Hour)
	x.fail = nil
	for _, state := range []string{"C", "D", "E"} {
		x.State = nil
		x.run("updated E 1 " + state + strings.Repeat("x", 1021))
	}
	x.run()
}

func TestEffectThatFailsIsRepeatedBeforeTheKeptEvents(t *testing.T) {
	x := &test{t: t, edit: withoutChance}
	r := x.record()
	record := r.Reconcile
	r.Reconcile = func(r *request) (result, error) {
		if r.Action != operator.Deleted {
			r.Apply(sdk.Raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m-` + strings.ToLower(r.Spec.Title) + `"}}`))
		}
		return record(r)
	}
	r.Opinionated, r.Dequeue = true, keep
	x.begin(r)
	x.run("created A")
	x.fail = sdk.RetryAfter(time.Hour, errBroken)
	x.title("B")
	x.run("updated B").ExpectRetry("").ExpectNext(time.Hour)
	x.fail = nil
	x.title("C")
	x.FailWrites(configMap, "Forbidden")
	x.run("updated C").ExpectRetry("Forbidden")
	x.FailWrites(configMap, "")
	x.traps = true
	x.run().ExpectRetry("") // did not return
	x.traps = false
	x.run("updated C 1").ExpectWaiting("RetryPending").ExpectNext(time.Hour)
	x.Advance(time.Hour)
	x.run("updated C 1").ExpectReady()
}

// The event whose effects have failed is one that can be kept, too.
func TestNewerChangeAfterAFailedEffectKeepsTheEvent(t *testing.T) {
	x := &test{t: t, edit: withoutChance}
	r := x.record()
	record := r.Reconcile
	r.Reconcile = func(r *request) (result, error) {
		r.Apply(sdk.Raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`))
		return record(r)
	}
	r.Dequeue = keep
	x.begin(r)
	x.FailWrites(configMap, "Forbidden")
	x.run("created A").ExpectRetry("Forbidden")
	x.FailWrites(configMap, "")
	x.title("B")
	x.run("created B").ExpectWaiting("RetryPending")
	x.run("created B 1").ExpectReady()
}

func TestDequeueIsAskedAboutTheActionsTheObjectAndTheError(t *testing.T) {
	var asked []operator.Pending
	x := keeping(t, func(r *request, failed pending) bool {
		if r.Action != operator.Updated || r.Spec.Title != "C" || r.Retry != 0 {
			t.Errorf("the newer event is %s of %s", r.Action, r.Spec.Title)
		}
		asked = append(asked, failed)
		return true
	})
	x.Restart()
	x.fail = errBroken
	x.run("resynced A")
	x.later("resynced A 1")
	x.title("C")
	x.run("updated C")
	want := operator.Pending{Action: operator.Resynced, Generation: 1, Calls: 2, Message: "broken"}
	if !slices.Equal(asked, []operator.Pending{want}) {
		t.Errorf("asked about %+v, expected %+v", asked, want)
	}
}

func TestDequeueOlderDropsTheSameActionOfAnotherGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		action     operator.Action
		generation int64
		dropped    bool
	}{
		"another generation": {operator.Updated, 1, true},
		"same generation":    {operator.Updated, 2, false},
		"another action":     {operator.Created, 1, false},
	} {
		r := &request{Request: &object{ObjectMeta: sdk.ObjectMeta{Generation: 2}}, Action: operator.Updated}
		if got := operator.DequeueOlder(r, operator.Pending{Action: c.action, Generation: c.generation}); got != c.dropped {
			t.Errorf("%s: %t", name, got)
		}
	}
	x := keeping(t, operator.DequeueOlder)
	x.fail = errBroken
	x.title("B")
	x.run("updated B")
	x.fail = nil
	x.title("C")
	x.run("updated C").ExpectReady()
}
