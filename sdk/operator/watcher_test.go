package operator_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk"
)

func TestWatcherHasAFunctionForEachEvent(t *testing.T) {
	x := &test{t: t}
	x.begin(x.watch())
	x.run("add A").ExpectReady()
	x.title("B")
	if r := x.run("update A B").ExpectReady(); len(r.Logs) > 0 {
		t.Errorf("logs %v", r.Logs)
	}
	x.change(`{"status":{"url":"http://b"}}`)
	x.run("update B B")
	x.run("update B B")
	x.Restart()
	x.run("add B")
	x.Delete(shop)
	x.runGone("delete B").ExpectSuccess()
}

func TestUpdateHasThePreviousStatus(t *testing.T) {
	x := &test{t: t}
	x.begin(watcher{Update: func(o *old, r *object) error {
		x.calls = append(x.calls, o.Status.URL+">"+r.Status.URL)
		return nil
	}})
	x.run()
	x.change(`{"status":{"url":"a"}}`)
	x.run(">a")
	x.change(`{"status":{"url":"b"}}`)
	x.run("a>b")
}

func TestErrorOfAWatcherDeliversTheEventAgain(t *testing.T) {
	x := &test{t: t}
	x.begin(x.watch(), controller{Retry: sdk.RetryPolicy{Initial: time.Minute, Factor: 1, Jitter: 0.001}})
	twice := func(run func(...string), event string) {
		t.Helper()
		x.fail = errBroken
		run(event)
		x.fail = nil
		run(event)
	}
	run := func(want ...string) { t.Helper(); x.run(want...) }
	twice(run, "add A")
	x.title("B")
	twice(run, "update A B")
	x.Delete(shop)
	twice(func(want ...string) { t.Helper(); x.runGone(want...) }, "delete B")
}

func TestFunctionsOfAWatcherMayBeMissing(t *testing.T) {
	for name, opinionated := range map[string]bool{"plain": false, "opinionated": true} {
		t.Run(name, func(t *testing.T) {
			x := &test{t: t}
			x.begin(watcher{Opinionated: opinionated})
			x.run().ExpectReady()
			x.title("B")
			x.run().ExpectReady()
			x.Restart()
			if r := x.run(); opinionated {
				r.ExpectEmpty() // no Sync
			} else {
				r.ExpectReady()
			}
			x.Delete(shop)
			if opinionated {
				x.run().ExpectSuccess()
				x.ExpectGone(shop)
			} else {
				x.runGone().ExpectSuccess()
			}
		})
	}
}

func TestOldObjectThatCannotBeReadIsIgnored(t *testing.T) {
	x := &test{t: t}
	x.begin(x.watch())
	x.run("add A")
	x.title("B")
	x.edit = withChange(func(c *sdk.Change) { c.Old = []byte(`{"spec":{"title":1}}`) })
	x.run("update ? B").ExpectReady().ExpectLog("the old object is ignored")
}

// A run that fails for no reason of its own leaves the object not Ready, and the next one must
// repair that.
func TestObjectIsReadyAgainAfterARunThatDidNotReturn(t *testing.T) {
	x := &test{t: t}
	x.begin(watcher{Opinionated: true})
	x.run().ExpectReady()
	x.traps = true
	x.run().ExpectCondition("Ready", sdk.False, "")
	x.traps = false
	x.run().ExpectReady()
}
