package operator_test

import (
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/sdk"
)

// withChange edits the change of a request.
func withChange(edit func(*sdk.Change)) func(*abi.Request) {
	return func(q *abi.Request) {
		for i, s := range q.Sections {
			if s.Name == changes.Name {
				c, _ := changes.DecodeChange(s.Value)
				edit(c)
				q.Sections[i].Value = c.Encode()
			}
		}
	}
}

// opinionatedSite returns a test of an opinionated watcher whose site was added.
func opinionatedSite(t *testing.T, base ...controller) *test {
	t.Helper()
	x := &test{t: t}
	x.begin(x.opinionated(), base...)
	x.run("add A").ExpectReady()
	return x
}

func TestOpinionatedReconcilerIsCalledForEveryEvent(t *testing.T) {
	x := &test{t: t}
	r := x.record()
	r.Opinionated = true
	x.begin(r)
	x.run("created A").ExpectReady().ExpectWrites("finalizer", "patch", "status")
	x.run().ExpectNoWrites()
	x.title("B")
	x.run("updated B").ExpectReady()
	x.Restart()
	x.run("resynced B").ExpectNoWrites()
	x.Delete(shop)
	x.run("deleted").ExpectWrites("release")
	x.ExpectGone(shop)
}

func TestObjectIsHeldByAFinalizerWhateverBecomesOfItsAddition(t *testing.T) {
	x := &test{t: t, fail: errBroken}
	x.begin(x.opinionated())
	x.run("add A").ExpectRetry("")
	x.Delete(shop)
	x.Restart() // it is being deleted while no host runs
	x.run("delete A").ExpectRetry("")
	x.Restart()
	x.fail = nil
	x.run("delete A").ExpectSuccess()
	x.ExpectGone(shop)
}

func TestDeletionDropsPendingEvents(t *testing.T) {
	x := &test{t: t, fail: errBroken}
	w := x.opinionated()
	w.Dequeue = func(*request, pending) bool { t.Error("asked about a deletion"); return false }
	x.begin(w)
	x.run("add A")
	x.Delete(shop)
	x.run("delete A").ExpectRetry("")
	x.fail = sdk.Waiting("Later", time.Minute, errBroken)
	x.later("delete A").ExpectWaiting("Later").ExpectNext(time.Minute)
	x.fail = nil
	x.title("B") // so that it can be deleted
	x.run("delete B").ExpectSuccess()
	x.ExpectGone(shop)
}

func TestUpdatesThatDoNotCountDoNotHastenADeletion(t *testing.T) {
	x := opinionatedSite(t, controller{Retry: sdk.RetryPolicy{Initial: time.Minute, Attempts: 2}})
	x.fail = errBroken
	x.Delete(shop)
	x.run("delete A").ExpectRetry("")
	for range 3 { // each would be an attempt
		x.change(`{"metadata":{"labels":{"tier":"web"}}}`)
		x.run().ExpectWaiting("RetryPending")
		x.change(`{"metadata":{"labels":null}}`)
		x.run().ExpectWaiting("RetryPending")
	}
	x.fail = nil
	x.later("delete A").ExpectSuccess()
	x.ExpectGone(shop)
}

func TestDeletionThatIsGivenUpKeepsTheObject(t *testing.T) {
	x := opinionatedSite(t, controller{Retry: sdk.RetryPolicy{Attempts: 2}})
	x.fail = errBroken
	x.Delete(shop)
	x.run("delete A").ExpectRetry("")
	x.later("delete A").ExpectStalled("")
	if !x.Exists(shop) {
		t.Error("the object is gone")
	}
	x.fail = nil
	x.Restart()
	x.run("delete A").ExpectSuccess()
	x.ExpectGone(shop)
}

func TestDeletionOfAnObjectThatLostItsFinalizerIsDelivered(t *testing.T) {
	x := opinionatedSite(t)
	x.Delete(shop)
	x.change(`{"metadata":{"finalizers":null}}`)
	x.runGone("delete A").ExpectSuccess()
}

func TestDeletionOfAnObjectThatNeverRanIsDelivered(t *testing.T) {
	x := &test{t: t}
	x.begin(x.opinionated())
	x.Delete(shop)
	x.runGone("delete A").ExpectSuccess()
}

func TestUpdatesThatDoNotCountAreFilteredOut(t *testing.T) {
	for name, patch := range map[string]string{
		"none":          `{}`,
		"a label":       `{"metadata":{"labels":{"tier":"web"}}}`,
		"an annotation": `{"metadata":{"annotations":{"note":"x"}}}`,
		"the status":    `{"status":{"url":"http://b"}}`,
		"finalizers":    `{"metadata":{"finalizers":["other.example.com/x"]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			x := opinionatedSite(t)
			x.change(patch)
			x.run().ExpectEmpty()
			x.title("B")
			x.run("update A B")
		})
	}
}

// An update of a label, which the call may have made itself, is none of the causes for which
// an event is delivered before its time.
func TestUpdatesThatDoNotCountDoNotHastenAnEvent(t *testing.T) {
	x := opinionatedSite(t, controller{Retry: sdk.RetryPolicy{Initial: time.Minute, Factor: 1}})
	x.edit = withoutChance
	x.fail = errBroken
	x.title("B")
	x.run("update A B").ExpectNext(time.Minute)
	x.change(`{"metadata":{"labels":{"tier":"web"}}}`)
	x.Advance(time.Second)
	x.run().ExpectWaiting("RetryPending").ExpectNext(59 * time.Second)
	x.edit = func(q *abi.Request) { q.Reasons = []abi.Reason{abi.ReasonOwned} }
	x.run("update A B").ExpectRetry("")
}

func TestFinalizerThatWasRemovedIsAddedAgain(t *testing.T) {
	x := opinionatedSite(t)
	x.change(`{"metadata":{"finalizers":null}}`)
	x.run().ExpectWrites("finalizer")
	x.Delete(shop)
	x.run("delete A")
}

func TestOwnUpdateIsFilteredOut(t *testing.T) {
	x := &test{t: t}
	w := x.opinionated()
	add := w.Add
	w.Add = func(r *object) error {
		r.Status.URL = "http://own"
		r.Patch(map[string]any{"spec": map[string]string{"title": "own"}})
		return add(r)
	}
	x.begin(w)
	x.run("add A").ExpectWrites("finalizer", "patch", "status", "handled")
	x.edit = func(q *abi.Request) { q.Reasons = []abi.Reason{abi.ReasonPrimary, abi.ReasonRead} }
	x.run("sync own").ExpectReady()
	x.edit = nil
	x.run().ExpectEmpty()
	x.title("B")
	x.run("update own B")
	x.run()
}

// A change back is one, though it makes the object what it was before the own update.
func TestUndoingAnOwnUpdateIsAnUpdate(t *testing.T) {
	x := &test{t: t}
	w := x.opinionated()
	add := w.Add
	w.Add = func(r *object) error {
		r.Patch(map[string]any{"spec": map[string]string{"title": "own"}})
		return add(r)
	}
	x.begin(w)
	x.run("add A")
	x.title("A")
	x.run("update A A")
	x.run()
}

func TestTakingBackAChangeThatFailedIsAnUpdate(t *testing.T) {
	x := opinionatedSite(t)
	x.fail = errBroken
	x.title("B")
	x.run("update A B")
	x.fail = nil
	x.title("A")
	x.run("update A A").ExpectReady()
	x.run()
}

func TestTakingBackAChangeIsRepeatedAfterAFailedEffect(t *testing.T) {
	x := &test{t: t}
	w := x.opinionated()
	w.Sync = nil
	update := w.Update
	w.Update = func(o *old, r *object) error {
		r.Apply(sdk.Raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`))
		return update(o, r)
	}
	x.begin(w)
	x.run("add A")
	x.title("B")
	x.FailWrites(configMap, "Forbidden")
	x.run("update A B").ExpectRetry("Forbidden")
	x.title("A")
	x.run("update A A").ExpectRetry("Forbidden")
	x.FailWrites(configMap, "")
	x.run("update A A").ExpectReady()
	x.run()
}

func TestChangeWhileAnEventIsRetriedIsDelivered(t *testing.T) {
	x := opinionatedSite(t)
	x.fail = errBroken
	x.title("B")
	x.run("update A B").ExpectRetry("")
	x.title("C")
	x.run("update A C").ExpectRetry("")
	x.fail = nil
	x.later("update A C").ExpectReady()
	x.run()
}

func TestObjectThatIsThereAtTheStartIsSynced(t *testing.T) {
	x := opinionatedSite(t)
	x.Restart()
	x.fail = errBroken
	x.run("sync A").ExpectRetry("")
	x.fail = nil
	x.later("sync A").ExpectReady()
	x.run()
}

func TestObjectWhoseAdditionNeverSucceededIsAddedAtTheStart(t *testing.T) {
	x := &test{t: t, fail: errBroken}
	x.begin(x.opinionated())
	x.run("add A")
	x.Restart()
	x.run("add A")
}

func TestChangeWhileNoHostRunsIsDelivered(t *testing.T) {
	x := opinionatedSite(t)
	x.title("B")
	x.Restart()
	x.fail = errBroken
	x.run("sync B")
	x.fail = nil
	x.later("sync B", "update A B").ExpectReady()
	x.run()
}

func TestChangeWhileNoHostRunsIsDeliveredWithoutSync(t *testing.T) {
	x := &test{t: t}
	w := x.opinionated()
	w.Sync = nil
	x.begin(w)
	x.run("add A")
	x.Restart()
	x.run().ExpectEmpty()
	x.title("B")
	x.Restart()
	x.run("update A B")
}

func TestReconcilerIsCalledForAChangeWhileNoHostRan(t *testing.T) {
	x := &test{t: t}
	r := x.record()
	r.Opinionated = true
	x.begin(r)
	x.run("created A")
	x.title("B")
	x.Restart()
	x.run("updated B")
}

// The host does not have the old object, so that it may have changed.
func TestObjectWhoseOldStateIsNotKnownIsUpdatedAtTheStart(t *testing.T) {
	x := opinionatedSite(t)
	x.Restart()
	x.edit = withChange(func(c *sdk.Change) { c.Old = nil })
	x.run("sync A", "update ? A")
}

func TestRevisionThatKeepsTheMemosIsAStart(t *testing.T) {
	x := opinionatedSite(t)
	x.edit = withChange(func(c *sdk.Change) { c.Type = sdk.Resumed })
	x.run("sync A")
}

func TestLabelsCountForAKindWithoutGenerations(t *testing.T) {
	x := &test{t: t}
	x.edit = func(q *abi.Request) { q.Object = without(t, q.Object, `{"metadata":{"generation":null}}`) }
	x.begin(x.opinionated())
	x.run("add A")
	x.run()
	x.change(`{"metadata":{"labels":{"tier":"web"}}}`)
	x.run("update A A")
	x.change(`{"status":{"url":"http://b"}}`)
	x.run()
	x.change(`{"metadata":{"labels":{"tier":"db"}}}`)
	x.Restart()
	x.run("sync A", "update A A")
}

func TestOtherCausesThanTheObjectAreDelivered(t *testing.T) {
	x := opinionatedSite(t)
	for _, c := range []struct {
		reasons []abi.Reason
		synced  bool
	}{
		{[]abi.Reason{abi.ReasonPrimary}, false},
		{[]abi.Reason{abi.ReasonPrimary, abi.ReasonStatus}, false},
		{[]abi.Reason{abi.ReasonPrimary, abi.ReasonRead}, true},
		{[]abi.Reason{abi.ReasonOwned, abi.ReasonStatus}, true},
		{[]abi.Reason{abi.ReasonResync}, true},
		{[]abi.Reason{abi.ReasonTimer}, true},
		{[]abi.Reason{"another"}, true},
		{nil, true},
	} {
		x.edit = func(q *abi.Request) { q.Reasons = c.reasons }
		if c.synced {
			x.run("sync A").ExpectReady()
		} else {
			x.run().ExpectEmpty()
		}
	}
	x.change(`{"metadata":{"labels":{"tier":"web"}}}`)
	x.run("sync A")
}

func TestTimerIsDelivered(t *testing.T) {
	x := opinionatedSite(t, controller{Timers: []sdk.Timer{{Name: "probe", Interval: time.Minute}}})
	x.run()
	x.Advance(time.Minute)
	r := x.run("sync A")
	if !slices.Equal(r.Timers, []string{"probe"}) {
		t.Errorf("the timers are %q", r.Timers)
	}
}

func TestOldObjectOfAnOpinionatedWatcherHasNoStatus(t *testing.T) {
	x := &test{t: t}
	x.begin(watcher{Opinionated: true, Update: func(o *old, r *object) error {
		x.calls = append(x.calls, o.Spec.Title+o.Status.URL)
		return nil
	}})
	x.change(`{"status":{"url":"http://a"}}`)
	x.run()
	x.title("B")
	x.run("A")
}
