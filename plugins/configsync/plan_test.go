package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
)

// TestAnAlteredCopyIsReplaced: applying takes nothing away that others have
// put into an object, and is refused where they have changed a value.
func TestAnAlteredCopyIsReplaced(t *testing.T) {
	w := synced(t)
	a1 := configMaps.Ref("a1", "shared")
	for range 3 {
		w.Advance(time.Hour)
		w.Change(a1, `{"data": {"a": "changed", "mine": "too"}}`)
		w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a1/shared")
		w.Reconcile(shared).ExpectSuccess().ExpectWrites("apply v1 ConfigMap a1/shared")
		w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectEvents()
	}
	if o := copyOf(t, w, "a1"); fmt.Sprint(o.Data) != "map[a:1]" {
		t.Errorf("the copy has %v", o.Data)
	}
}

// TestACopyThatIsAlwaysAlteredIsLetBe: a webhook that writes into every
// ConfigMap must not make it delete and create for ever.
func TestACopyThatIsAlwaysAlteredIsLetBe(t *testing.T) {
	w := synced(t)
	a1 := configMaps.Ref("a1", "shared")
	alter := func() { w.Change(a1, `{"data": {"injected": "x"}}`) }
	replaced := func() {
		t.Helper()
		alter()
		w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a1/shared")
		w.Reconcile(shared).ExpectSuccess().ExpectWrites("apply v1 ConfigMap a1/shared")
		alter()
	}
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		replaced()
		w.Advance(pause - time.Second)
		run := w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectEvents("CopyAltered").ExpectNext(time.Second)
		if message := run.Result.Events[0].Message; !strings.Contains(message, "the copy in a1 was replaced") {
			t.Errorf("the event says %q", message)
		}
		w.Advance(time.Second)
	}
	for pause := 80 * time.Second; pause < maxPause*time.Second; pause *= 2 {
		replaced()
		w.Advance(pause)
	}
	replaced()
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectNext(maxPause * time.Second)

	// What the source changes still gets there, and peace is noticed.
	w.Change(source, `{"data": {"a": "2"}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("apply v1 ConfigMap a1/shared", "apply v1 ConfigMap a2/shared")
	w.Change(a1, `{"data": {"injected": null}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectEvents().ExpectNext(0)
	w.Advance(calm * (maxPause + 1) * time.Second)
	replaced()
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectNext(minPause * time.Second)
}

// TestManyAlteredCopiesFitIntoTheMemo: it has 4 KiB.
func TestManyAlteredCopiesFitIntoTheMemo(t *testing.T) {
	w := newSource(t, "team=c")
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("%s%02d", strings.Repeat("c", 61), i))
		addNamespace(w, names[i], "c")
	}
	w.Settle(shared)
	for _, name := range names {
		w.Change(configMaps.Ref(name, "shared"), `{"data": {"b": "c"}}`)
	}
	run := w.Reconcile(shared).ExpectSuccess()
	if len(run.Writes) != mostNotes {
		t.Errorf("%d copies were replaced", len(run.Writes))
	}
	for _, name := range names {
		w.FailWrite("apply v1 ConfigMap "+name+"/shared", "Forbidden")
	}
	for range 2 * mostNotes {
		w.Reconcile(shared).ExpectRetry("Forbidden")
	}
	w.Change(source, `{"data": {"b": "c"}}`) // now all have to be written
	for range 2 * len(names) {
		w.Reconcile(shared).ExpectRetry("Forbidden")
	}
	w.Change(source, `{"data": {"b": null}}`)
	for _, name := range names {
		w.FailWrite("apply v1 ConfigMap "+name+"/shared", "")
	}
	w.Settle(shared).ExpectSuccess().ExpectNext(calm * minPause * time.Second)
	for range len(names)/mostNotes - 1 {
		w.Advance(calm * minPause * time.Second)
		if run := w.Reconcile(shared).ExpectSuccess(); len(run.Writes) != mostNotes {
			t.Errorf("%d copies were replaced", len(run.Writes))
		}
		w.Settle(shared)
	}
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectEvents().ExpectNext(0)
}

func TestACopyThatOthersHoldIsReplaced(t *testing.T) {
	w := synced(t)
	w.Change(source, `{"data": {"a": "2"}}`)
	for _, namespace := range []string{"a1", "a2"} {
		w.FailWrite("apply v1 ConfigMap "+namespace+"/shared", "FieldConflict")
	}
	for _, namespace := range []string{"a1", "a2"} {
		w.Reconcile(shared).ExpectRetry("FieldConflict")
		w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap " + namespace + "/shared")
		w.FailWrite("apply v1 ConfigMap "+namespace+"/shared", "")
	}
	w.Settle(shared).ExpectSuccess()
	if copyOf(t, w, "a1").Data["a"] != "2" || copyOf(t, w, "a2").Data["a"] != "2" {
		t.Error("the copies are not those of the source")
	}
}

func TestWhatCannotChangeIsReplaced(t *testing.T) {
	w := newWorld(t, "secret")
	create := func(kind, value string) {
		w.Create(`{"apiVersion": "v1", "kind": "Secret", "type": "` + kind + `", "immutable": true,
			"metadata": {"namespace": "team", "name": "shared", "annotations": {"configsync.thole.dev/namespaces": "team=b"}},
			"data": {"a": "` + value + `"}}`)
	}
	again := func() {
		w.Change(secrets.Ref("team", "shared"), `{"metadata": {"finalizers": null}}`)
		w.Delete(secrets.Ref("team", "shared"))
	}
	create("Opaque", "MQ==")
	w.Settle(shared).ExpectSuccess()
	again()
	create("Opaque", "Mg==")
	w.Reconcile(shared).ExpectWrites("finalizer", "delete v1 Secret b/shared")
	w.Settle(shared).ExpectSuccess()
	again()
	create("example.com/t", "Mg==")
	w.Reconcile(shared).ExpectWrites("finalizer", "delete v1 Secret b/shared")
	w.Settle(shared).ExpectSuccess()
	again()
	create("example.com/t", "Mg==") // the same content: only the uid is another one
	w.Reconcile(shared).ExpectWrites("finalizer", "apply v1 Secret b/shared")
}

func TestOneBadNamespaceHoldsUpNoOther(t *testing.T) {
	w := newSource(t, "team=a")
	for i := 3; i < 8; i++ {
		addNamespace(w, fmt.Sprintf("a%d", i), "a")
	}
	bad := []string{"a1", "a4"}
	for _, namespace := range bad {
		w.FailWrite("apply v1 ConfigMap "+namespace+"/shared", "Forbidden")
	}
	w.Reconcile(shared).ExpectRetry("Forbidden").ExpectWrites("finalizer")
	w.Reconcile(shared).ExpectRetry("Forbidden").ExpectWrites("apply v1 ConfigMap a2/shared", "apply v1 ConfigMap a3/shared")
	w.Reconcile(shared).ExpectRetry("Forbidden").
		ExpectWrites("apply v1 ConfigMap a5/shared", "apply v1 ConfigMap a6/shared", "apply v1 ConfigMap a7/shared")

	// From now on the good ones come first, and the bad ones in turn.
	w.Change(source, `{"data": {"a": "2"}}`)
	if run := w.Reconcile(shared).ExpectRetry("Forbidden"); len(run.Writes) != 5 {
		t.Errorf("wrote %q", run.Writes)
	}
	w.FailWrite("apply v1 ConfigMap a1/shared", "")
	w.Reconcile(shared)
	w.Reconcile(shared)
	copyOf(t, w, "a1")

	// Nor does one hold up that a copy is taken away elsewhere.
	w.Change(namespaceKind.Ref("", "a7"), `{"metadata": {"labels": {"team": "b"}}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a7/shared")

	// What is over is forgotten: the order is that of the names again.
	w.Change(source, `{"data": {"a": "3"}}`)
	w.FailWrite("apply v1 ConfigMap a4/shared", "")
	w.Reconcile(shared).ExpectSuccess()
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
	w.Change(source, `{"data": {"a": "4"}}`)
	if run := w.Reconcile(shared).ExpectSuccess(); len(run.Writes) != 6 || run.Writes[3] != "apply v1 ConfigMap a4/shared" {
		t.Errorf("wrote %q", run.Writes)
	}

	// A deletion that failed does not go with what is applied.
	w.FailWrite("delete v1 ConfigMap a6/shared", "Forbidden")
	w.Change(namespaceKind.Ref("", "a6"), `{"metadata": {"labels": {"team": "b"}}}`)
	w.Reconcile(shared).ExpectRetry("Forbidden")
	w.Change(source, `{"data": {"a": "5"}}`)
	if run := w.Reconcile(shared).ExpectSuccess(); len(run.Writes) != 5 || len(run.Result.Delete) > 0 {
		t.Errorf("wrote %q", run.Writes)
	}
	w.Reconcile(shared).ExpectRetry("Forbidden")
	w.FailWrite("delete v1 ConfigMap a6/shared", "")
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a6/shared")

	w.FailWrite("delete v1 ConfigMap a2/shared", "Forbidden")
	w.Delete(source)
	w.Reconcile(shared).ExpectRetry("Forbidden")
	w.Reconcile(shared).ExpectRetry("Forbidden")
	w.ExpectGone(configMaps.Ref("a5", "shared"))
	w.FailWrite("delete v1 ConfigMap a2/shared", "")
	w.Reconcile(shared)
	w.ExpectGone(source)
}

// TestMoreNamespacesThanOneResultHolds: each run does a part, no copy twice,
// and a run at the end nothing.
func TestMoreNamespacesThanOneResultHolds(t *testing.T) {
	const many = 600
	w := newSource(t, "team=c")
	for i := range many {
		addNamespace(w, fmt.Sprintf("c%03d", i), "c")
	}
	expect := func(counts ...int) {
		t.Helper()
		for i, n := range counts {
			run := w.Reconcile(shared)
			if len(run.Writes) != n {
				t.Errorf("run %d wrote %d times, expected %d", i, len(run.Writes), n)
			}
			if i+1 < len(counts)-1 && run.Class == abi.ClassNone {
				run.ExpectSuccess().ExpectNext(time.Second)
			}
		}
	}
	expect(251, 250, 100, 0) // the finalizer is one
	w.Change(source, `{"data": {"a": "2"}}`)
	expect(250, 250, 100, 0)
	annotate(w, "team=a")
	expect(250, 250, 100, 2, 0)
	annotate(w, "team=c")
	expect(2, 250, 250, 100, 0)

	w.Delete(source)
	w.Reconcile(shared).ExpectWaiting("RemovingCopies").ExpectNext(time.Second)
	w.Reconcile(shared).ExpectWaiting("RemovingCopies")
	if run := w.Reconcile(shared); len(run.Writes) != 101 {
		t.Errorf("the last run wrote %d times", len(run.Writes))
	}
	w.ExpectGone(source)
}

// TestLargeObjectsGoInSeveralResults: a result has 1.5 MiB.
func TestLargeObjectsGoInSeveralResults(t *testing.T) {
	w := newSource(t, "*")
	w.Change(source, map[string]any{"data": map[string]string{"a": strings.Repeat("x", 400<<10)}})
	w.Reconcile(shared).ExpectSuccess().ExpectNext(time.Second).
		ExpectWrites("finalizer", "apply v1 ConfigMap a1/shared", "apply v1 ConfigMap a2/shared")
	w.Reconcile(shared).ExpectSuccess().ExpectNext(0).ExpectWrites("apply v1 ConfigMap b/shared")

	w.Change(source, map[string]any{"data": map[string]string{"a": strings.Repeat("x", 1<<20-100)}})
	for range 3 {
		if run := w.Reconcile(shared).ExpectSuccess(); len(run.Writes) != 1 {
			t.Errorf("wrote %q", run.Writes)
		}
	}
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()

	w.Change(source, map[string]any{"data": map[string]string{"a": strings.Repeat("\x01", 1<<19)}})
	w.Reconcile(shared).ExpectStalled("TooLarge").ExpectNoWrites()
}
