package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestOnlyChangesByOthersMakeAKeyDue(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	f.run()
	f.log = nil
	after := f.store[widget][testKey]
	f.c.Observe(before, after, false)
	f.expect() // its own status
	foreign := patched(t, after, `{"metadata":{"resourceVersion":"200"},"status":{"other":1}}`)
	f.c.Observe(after, foreign, false)
	f.expect("add ns/w status")
	edited := patched(t, foreign, `{"metadata":{"resourceVersion":"201","generation":2}}`)
	f.c.Observe(foreign, edited, false)
	f.expect("add ns/w primary")
	asked := patched(t, edited, `{"metadata":{"resourceVersion":"202","annotations":{"reconcile.thole.dev/requestedAt":"now"}}}`)
	f.c.Observe(edited, asked, false)
	f.expect("add ns/w request")
	f.c.Observe(asked, nil, false)
	f.expect("add ns/w primary")
}

func TestAChangeByOthersBehindAnOwnWriteMakesAKeyDue(t *testing.T) {
	// Somebody edits the object between the read and the status write: the
	// reply holds both, and may be the only event of the two.
	for foreign, reason := range map[string]string{
		`{"metadata":{"generation":2},"spec":{"x":2}}`: "primary",
		`{"status":{"other":1}}`:                       "status",
	} {
		f := newFixture(t)
		before := f.put(aWidget)
		f.foreign = foreign
		f.run()
		f.log = nil
		f.c.Observe(before, f.store[widget][testKey], false)
		f.expect("add ns/w " + reason)
	}
}

// The status is written after the finalizer, whose reply has the change already.
func TestAChangeByOthersBehindTwoOwnWritesMakesAKeyDue(t *testing.T) {
	f := newFixture(t)
	before := f.put(strings.Replace(aWidget, `["f"]`, `[]`, 1))
	f.foreign = `{"metadata":{"generation":2},"spec":{"x":2}}`
	f.reconcile = appliesGadget
	f.run()
	f.log = nil
	f.c.Observe(before, f.store[widget][testKey], false)
	f.expect("add ns/w primary")
}

// An informer may be late by more than a run.
func TestAnOwnStatusEventThatComesLateIsOwn(t *testing.T) {
	f := newFixture(t)
	versions := []*object.Object{f.put(aWidget)}
	for range 3 {
		f.run()
		versions = append(versions, f.store[widget][testKey])
	}
	f.log = nil
	for i, o := range versions[1:] {
		f.c.Observe(versions[i], o, false)
	}
	f.expect()
	f.c.Observe(versions[2], patched(t, versions[3], `{"metadata":{"resourceVersion":"900"},"status":{"other":1}}`), false)
	f.expect("add ns/w status")
}

// The versions of changes that were lost by a restore come again.
func TestAfterARestoreAChangeWithAVersionOfALostWriteMakesTheKeyDue(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	f.run()
	lost := f.store[widget][testKey]
	f.log = nil
	f.c.Restored([]object.Key{testKey})
	f.expect("add ns/w resync")
	foreign := patched(t, before, `{"metadata":{"resourceVersion":"`+lost.ResourceVersion+`","labels":{"a":"b"}}}`)
	f.c.Observe(before, foreign, false)
	f.expect("add ns/w primary")
	f.wrote = nil
	if f.run(); len(f.wrote) != 1 {
		t.Errorf("a run after the restore made %d writes visible", len(f.wrote))
	}
}

// The write has been made visible when the restore is noticed.
func TestAWriteDuringWhichARestoreIsNoticedIsReadBeforeTheNextRun(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	f.c.Cache = restoringCache{testCache{f}}
	f.run()
	lost := f.store[widget][testKey]
	f.log = nil
	f.c.Observe(before, patched(t, before, `{"metadata":{"resourceVersion":"`+lost.ResourceVersion+`"},"status":{"a":"b"}}`), false)
	f.expect("add ns/w status")
	if uncertain := f.c.keys[testKey].left().uncertain; len(uncertain) != 1 || uncertain[0].Name != "w" {
		t.Errorf("to be read: %v", uncertain)
	}
}

// restoringCache notices a restore with each write.
type restoringCache struct{ testCache }

func (c restoringCache) Wrote(key object.Key, w effect.Write) {
	c.testCache.Wrote(key, w)
	c.c.Restored(nil)
}

// A run does not know which of its writes came before the restore.
func TestWhatARunWroteAroundARestoreIsReadBeforeTheNextRun(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.c.Restored(nil)
		return appliesGadget(t.Context(), sandbox.Call{})
	}
	f.run()
	f.expect("apply", "status Ready=True/Succeeded patch=", "commit reads", "metric success ")
	if len(f.wrote) > 0 {
		t.Errorf("made visible: %+v", f.wrote)
	}
	f.c.ObserveOwned(nil, f.child(f.version-1))
	f.expect("add ns/w owned")
	f.reconcile = succeed
	f.run()
	f.expect("refresh Gadget", "refresh Widget", "status Ready=True/Succeeded patch=", "commit reads", "metric success ")
}

func TestOthersThatLetACleanupGoOnMakeItDue(t *testing.T) {
	const owner = `{"apiVersion":"v1","kind":"Gadget","name":"g","uid":"g1"}`
	f := newFixture(t)
	live := f.put(strings.Replace(aWidget, `["f"]`, `["f","other.dev/x"],"ownerReferences":[`+owner+`]`, 1))
	deleting := patched(t, live, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
	for change, reasons := range map[string][2]string{
		`{"metadata":{"resourceVersion":"7","finalizers":["f"]}}`:     {"status", "primary"},
		`{"metadata":{"resourceVersion":"7","ownerReferences":null}}`: {"status", "primary"},
		`{"metadata":{"resourceVersion":"7"},"status":{"a":1}}`:       {"status", "status"},
	} {
		for i, before := range []*object.Object{live, deleting} {
			f.c.Observe(before, patched(t, before, change), false)
			f.expect("add ns/w " + reasons[i])
		}
	}
}

// What a run wrote is known to be its own only at the end of the run.
func TestAChildThatChangesDuringTheRunThatWroteItIsOwn(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.c.ObserveOwned(nil, f.child(f.version+1))
		f.c.ObserveRead(testKey, nil, f.child(f.version+1), false)
		f.c.ObserveOwned(nil, f.child(50))
		return appliesGadget(t.Context(), sandbox.Call{})
	}
	f.run()
	f.expect("apply", "status Ready=True/Succeeded patch=", "commit reads",
		"add own ns/w owned after 0s", "add own ns/w read after 0s", "add ns/w owned", "metric success ")
}

// After an interruption a watch continues with the present state of the object.
func TestAnOwnPatchWhoseEventIsLeftOutMakesTheKeyDue(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Patch: []byte(`{"metadata":{"labels":{"x":"2"}}}`)})
	}
	f.run()
	after := f.store[widget][testKey] // with the status that was written after the patch
	f.log = nil
	f.c.Observe(before, after, false)
	f.expect("add own ns/w primary after 0s")

	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Patch: []byte(`{"metadata":{"labels":{"x":"3"}}}`)})
	}
	f.run()
	f.log = nil
	f.c.Observe(after, f.patches[1], false)
	f.expect("add own ns/w primary after 0s")
	f.c.Observe(f.patches[1], f.store[widget][testKey], false)
	f.expect() // its own status
}

func TestADeletionByTheKeyIsItsOwn(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.run()
	f.log = nil
	f.c.keys[testKey].own.add(effect.Write{Verb: abi.VerbDelete, Kind: gadget, UID: "child", ResourceVersion: "7"}, false)
	f.c.ObserveOwned(f.child(9), nil)
	f.expect("add own ns/w owned after 0s")
	other := patched(t, f.child(9), `{"metadata":{"uid":"other"}}`)
	f.c.ObserveOwned(other, nil)
	f.expect("add ns/w owned")
}

// Changes that wait for the end of a run are bounded.
func TestTooManyChangesDuringARunCountAsThoseOfOthers(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		for n := range maxDeferred + 1 {
			f.c.ObserveRead(testKey, nil, f.child(n), false)
		}
		f.note("call ends")
		return returns(&abi.Result{})
	}
	f.run()
	if f.log[0] != "add ns/w read" || f.log[1] != "call ends" || len(f.log) < maxDeferred {
		t.Errorf("what happened: %q", f.log[:2])
	}
}

func TestWhatIsRememberedOfOwnChangesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var own ownChanges
		for n := range 2 * maxOwnChanges {
			own.add(effect.Write{UID: "u", ResourceVersion: fmt.Sprint(n), Object: &object.Object{}}, true)
		}
		if len(own) != maxOwnChanges {
			t.Errorf("%d are remembered", len(own))
		}
		if found, _ := own.find("u", fmt.Sprint(2*maxOwnChanges-1)); !found || len(own) != 1 || cap(own) != 1 {
			t.Errorf("after the event of the last one %d are remembered, with room for %d", len(own), cap(own))
		}
		time.Sleep(time.Duration(keepOwnChanges+1) * time.Second) // fake time
		if own.add(effect.Write{UID: "v"}, false); len(own) != 1 || own[0].id != changeID("v", "") {
			t.Errorf("after five minutes: %+v", own)
		}
	})
}

func TestEventsDuringARunAreHandledAtItsEnd(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.c.Observe(before, patched(t, before, `{"metadata":{"resourceVersion":"50","generation":2}}`), false)
		f.note("call ends")
		return returns(&abi.Result{})
	}
	f.run()
	f.expect("call ends", "status Ready=True/Succeeded patch=", "commit reads", "add ns/w primary", "metric success ")
}

// There may be many such changes, of objects that nobody else keeps any more. A change needs
// no copies, because [object.Parse] makes them.
func TestAChangeThatWaitsForARunKeepsNoObjectInMemory(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		made := f.child(50)
		uid := strings.Clone(string(made.UID))
		f.c.ObserveRead(testKey, nil, made, false)
		clear(made.Raw)
		if waits := f.c.keys[testKey].deferred; len(waits) != 1 || string(waits[0].uid) != uid || waits[0].version != "50" {
			t.Errorf("%+v", waits)
		}
		return returns(&abi.Result{})
	}
	f.run()
}

// doneQueue notes when a key is done.
type doneQueue struct{ testQueue }

func (q doneQueue) Done(key object.Key, next outcome.Next) {
	q.note("done")
	q.testQueue.Done(key, next)
}

// A key that changes all the time must not delay others (package queue, "Order").
func TestChangesDuringARunAreAddedToARunningKey(t *testing.T) {
	f := newFixture(t)
	f.c.queue = doneQueue{testQueue{f}}
	before := f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.c.Observe(before, patched(t, before, `{"metadata":{"resourceVersion":"50","generation":2}}`), false)
		return returns(&abi.Result{})
	}
	f.run()
	f.expect("status Ready=True/Succeeded patch=", "commit reads", "add ns/w primary", "done", "metric success ")
}

func TestAChangedChildMakesItsControllerDue(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	gadgetOf := func(owner string) *object.Object {
		return f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","uid":"g1","ownerReferences":[` + owner + `]}}`)
	}
	mine := gadgetOf(`{"apiVersion":"example.dev/v1beta1","kind":"Widget","name":"w","uid":"u1","controller":true}`)
	others := gadgetOf(`{"apiVersion":"other.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}`)
	uncontrolled := gadgetOf(`{"apiVersion":"example.dev/v1","kind":"Widget","name":"w","uid":"u1"}`)
	f.c.ObserveOwned(nil, mine)
	f.expect("add ns/w owned")
	f.c.ObserveOwned(mine, mine)
	f.expect("add ns/w owned")
	f.c.ObserveOwned(mine, uncontrolled) // released: it was ours before
	f.expect("add ns/w owned")
	f.c.ObserveOwned(others, uncontrolled)
	f.expect()
}

// A change that very many keys have read makes them due in the background, unless it
// was their own.
func TestAChangeForVeryManyKeysIsForTheBackground(t *testing.T) {
	f := newFixture(t)
	f.c.ObserveRead(testKey, nil, f.child(f.version+1), true)
	f.c.ObserveRead(testKey, nil, nil, true) // for several changes
	background := "add in the background " + testKey.String() + " read"
	if !slices.Equal(f.log, []string{background, background}) {
		t.Errorf("%q", f.log)
	}
}

func TestOnlyEarlierChangesOfTheSameObjectAreForgotten(t *testing.T) {
	var own ownChanges
	add := func(uid types.UID, version string, ignored bool) {
		own.add(effect.Write{UID: uid, ResourceVersion: version, Object: &object.Object{}}, ignored)
	}
	add("other", "1", false)
	add("mine", "1", true)
	add("mine", "2", true)
	if found, ignored := own.find("mine", "2"); !found || !ignored {
		t.Errorf("found %v, ignored %v: the change of the other object counts", found, ignored)
	}
	if found, _ := own.find("mine", "1"); found {
		t.Error("the earlier change is still there")
	}
	if found, _ := own.find("other", "1"); !found {
		t.Error("the change of the other object was forgotten")
	}
	if found, _ := own.find("other", "2"); found {
		t.Error("a version that the key did not write was found")
	}
}
