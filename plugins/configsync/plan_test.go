package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
)

// TestAlteredCopyIsReplaced: apply does not remove what others have added, and is refused
// where they have changed a value.
func TestAlteredCopyIsReplaced(t *testing.T) {
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

// TestRepeatedlyAlteredCopyIsReplacedWithBackoff: a webhook that changes every ConfigMap
// must not lead to an endless loop.
func TestRepeatedlyAlteredCopyIsReplacedWithBackoff(t *testing.T) {
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
		if message := run.Result.Events[0].Message; !strings.Contains(message, "the copy in a1 was altered again") {
			t.Errorf("the message of the event is %q", message)
		}
		w.Advance(time.Second)
	}
	for pause := 80 * time.Second; pause < maxPause*time.Second; pause *= 2 {
		replaced()
		w.Advance(pause)
	}
	replaced()
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectNext(maxPause * time.Second)

	// Changes of the source are still copied, and the pauses start again when the copy is
	// no longer altered.
	w.Change(source, `{"data": {"a": "2"}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("apply v1 ConfigMap a1/shared", "apply v1 ConfigMap a2/shared")
	w.Change(a1, `{"data": {"injected": null}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectEvents().ExpectNext(0)
	w.Advance(expiryPauses * (maxPause + 1) * time.Second)
	replaced()
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectNext(minPause * time.Second)
}

// TestNotesOfManyCopiesFitIntoMemo: the limit is 4 KiB.
func TestNotesOfManyCopiesFitIntoMemo(t *testing.T) {
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
	if len(run.Writes) != maxNotes {
		t.Errorf("%d copies were replaced", len(run.Writes))
	}
	for _, name := range names {
		w.FailWrite("apply v1 ConfigMap "+name+"/shared", "Forbidden")
	}
	for range 2 * maxNotes {
		w.Reconcile(shared).ExpectRetry("Forbidden")
	}
	w.Change(source, `{"data": {"b": "c"}}`) // all copies must be written
	for range 2 * len(names) {
		w.Reconcile(shared).ExpectRetry("Forbidden")
	}
	w.Change(source, `{"data": {"b": null}}`)
	for _, name := range names {
		w.FailWrite("apply v1 ConfigMap "+name+"/shared", "")
	}
	w.Settle(shared).ExpectSuccess().ExpectNext(expiryPauses * minPause * time.Second)
	for range len(names)/maxNotes - 1 {
		w.Advance(expiryPauses * minPause * time.Second)
		if run := w.Reconcile(shared).ExpectSuccess(); len(run.Writes) != maxNotes {
			t.Errorf("%d copies were replaced", len(run.Writes))
		}
		w.Settle(shared)
	}
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectEvents().ExpectNext(0)
}

func TestCopyWithFieldConflictIsReplaced(t *testing.T) {
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
		t.Error("the copies do not have the data of the source")
	}
}

func TestImmutableCopyIsReplaced(t *testing.T) {
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
	create("example.com/t", "Mg==") // the same content: only the UID differs
	w.Reconcile(shared).ExpectWrites("finalizer", "apply v1 Secret b/shared")
}

func TestFailingNamespaceDoesNotDelayOthers(t *testing.T) {
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

	// From now on the other namespaces come first, and the failing ones take turns.
	w.Change(source, `{"data": {"a": "2"}}`)
	if run := w.Reconcile(shared).ExpectRetry("Forbidden"); len(run.Writes) != 5 {
		t.Errorf("wrote %q", run.Writes)
	}
	w.FailWrite("apply v1 ConfigMap a1/shared", "")
	w.Reconcile(shared)
	w.Reconcile(shared)
	copyOf(t, w, "a1")

	// Nor does it delay a deletion elsewhere.
	w.Change(namespaceKind.Ref("", "a7"), `{"metadata": {"labels": {"team": "b"}}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a7/shared")

	// Once the writes succeed, the order is that of the names again.
	w.Change(source, `{"data": {"a": "3"}}`)
	w.FailWrite("apply v1 ConfigMap a4/shared", "")
	w.Reconcile(shared).ExpectSuccess()
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
	w.Change(source, `{"data": {"a": "4"}}`)
	if run := w.Reconcile(shared).ExpectSuccess(); len(run.Writes) != 6 || run.Writes[3] != "apply v1 ConfigMap a4/shared" {
		t.Errorf("wrote %q", run.Writes)
	}

	// A deletion that failed is not in one result with applies.
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

// TestManyCopiesAreWrittenBySeveralRuns: each run writes a part, no copy is written twice,
// and the last run writes nothing.
func TestManyCopiesAreWrittenBySeveralRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
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
	expect(251, 250, 100, 0) // including the finalizer
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

// TestLargeCopiesAreWrittenBySeveralRuns: a result has at most 1.5 MiB.
func TestLargeCopiesAreWrittenBySeveralRuns(t *testing.T) {
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
