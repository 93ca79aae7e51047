package effect

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// nodePod is a Pod that the API server deletes gracefully, because a node could run it.
const nodePod = `{"metadata":{"name":"c"},"spec":{"nodeName":"none","containers":[{"name":"main","image":"web"}]}}`

// removeOf returns a delete of the object c.
func removeOf(r object.Resource, change func(*abi.Delete)) *abi.Result {
	d := abi.Delete{Ref: r.Kind.Ref("", "c")}
	change(&d)
	return &abi.Result{Delete: []abi.Delete{d}}
}

func TestADeleteHasItsOptions(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(configMap))
	for propagation, holds := range map[abi.Propagation]string{
		"": "[]", abi.PropagationBackground: "[]", abi.PropagationForeground: "[foregroundDeletion]", abi.PropagationOrphan: "[orphan]",
	} {
		// The finalizer of its own keeps the object until it was looked at.
		made := w.create(configMap, `{"metadata":{"name":"c","finalizers":["other.dev/x"]}}`)
		w.seen(configMap, "c")
		w.wire.take()
		w.intents(target, removeOf(configMap, func(d *abi.Delete) {
			d.Propagation, d.GracePeriodSeconds, d.ResourceVersion = propagation, new(int64(7)), made.ResourceVersion
		}))
		sent := w.wire.take()
		policy := propagation
		if policy == "" {
			policy = abi.PropagationBackground
		}
		want := fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":7,"preconditions":{"uid":%q,"resourceVersion":%q},"propagationPolicy":%q}`+"\n", made.UID, made.ResourceVersion, policy)
		if len(sent) != 1 || sent[0].body != want {
			t.Errorf("%q: sent %+v, want %s", propagation, sent, want)
		}
		var others []string
		for _, f := range w.changed(configMap, "c", made.ResourceVersion).Finalizers { // the garbage collector takes them off again
			if f != "other.dev/x" {
				others = append(others, f)
			}
		}
		if fmt.Sprint(others) != holds {
			t.Errorf("%q: the object is held by %v, want %s", propagation, others, holds)
		}
		w.edit(configMap, "c", "", `{"metadata":{"finalizers":null}}`)
		w.until("the object is gone", func() bool { return w.live(configMap, "c") == nil })
	}
}

func TestAnOrphanStays(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(configMap))
	made := w.create(configMap, `{"metadata":{"name":"c"}}`)
	w.create(secret, fmt.Sprintf(`{"metadata":{"name":"dependent","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":%q}]}}`, made.UID))
	// The garbage collector orphans the dependents that it has seen: this one before the stray, which it deletes.
	w.create(secret, `{"metadata":{"name":"stray","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"none"}]}}`)
	w.until("the garbage collector has seen the Secrets", func() bool { return w.live(secret, "stray") == nil })
	w.seen(configMap, "c")
	w.intents(target, removeOf(configMap, func(d *abi.Delete) { d.Propagation = abi.PropagationOrphan }))
	w.until("the object is gone", func() bool { return w.live(configMap, "c") == nil })
	if got := w.live(secret, "dependent"); got == nil || len(got.OwnerReferences) != 0 {
		t.Errorf("the dependent is %v, want it without an owner", got)
	}
}

// The cache may be behind the version of the intent, or ahead of it.
func TestADeleteOfAnotherVersionIsAConflict(t *testing.T) {
	for name, seen := range map[string]bool{"the cache is behind": false, "the cache has the change": true} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(nil, list(configMap))
			decided := w.create(configMap, `{"metadata":{"name":"c"}}`)
			w.seen(configMap, "c")
			changed := w.edit(configMap, "c", "", `{"data":{"k":"new"}}`)
			if seen {
				w.seen(configMap, "c")
			}
			at := func(o *object.Object) *abi.Result {
				return removeOf(configMap, func(d *abi.Delete) { d.ResourceVersion = o.ResourceVersion })
			}
			_, failure := w.PerformIntents(t.Context(), target, at(decided))
			if failure == nil || !failure.Conflict || failure.Reason != "Conflict" || !strings.Contains(failure.Message, "has changed since the resourceVersion") {
				t.Errorf("failed with %+v, want a conflict", failure)
			}
			if w.live(configMap, "c") == nil {
				t.Fatal("the changed object was deleted")
			}
			w.intents(target, at(changed))
			if w.live(configMap, "c") != nil {
				t.Error("the object was not deleted")
			}
			w.seen(configMap, "c")
			w.intents(target, at(decided)) // of what does not exist
		})
	}
}

// The replica has read a version that another one has changed since.
func TestTheVersionOfADeleteHoldsForAReplica(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(configMap))
	w.start(func(c *Config) { c.Lease = &testLease{refuse: new(atomic.Bool)} })
	decided := w.create(configMap, `{"metadata":{"name":"c"}}`)
	w.edit(configMap, "c", "", `{"data":{"k":"new"}}`)
	w.seen(configMap, "c")
	_, failure := w.PerformIntents(t.Context(), target, removeOf(configMap, func(d *abi.Delete) { d.ResourceVersion = decided.ResourceVersion }))
	if failure == nil || !failure.Conflict || w.live(configMap, "c") == nil {
		t.Errorf("failed with %+v, want a conflict", failure)
	}
}

func TestADeletionInProgressIsOnlyShortened(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(pod))
	w.create(pod, nodePod)
	w.seen(pod, "c")
	grace := func(seconds *int64) *abi.Result {
		return removeOf(pod, func(d *abi.Delete) { d.GracePeriodSeconds = seconds })
	}
	for _, c := range []struct {
		seconds *int64
		sends   bool
		left    int64
	}{
		{nil, true, 30}, // the default of a Pod
		{nil, false, 30},
		{new(int64(60)), false, 30},
		{new(int64(30)), false, 30},
		{new(int64(9)), true, 9},
		{new(int64(10)), false, 9},
	} {
		w.wire.take()
		report := w.intents(target, grace(c.seconds))
		got := w.seen(pod, "c")
		if sent := w.wire.take(); len(sent) > 0 != c.sends || len(report.Writes) > 0 != c.sends {
			t.Errorf("%v: sent %v, reported %v", c.seconds, sent, report.Writes)
		}
		if got == nil || !got.Deleting() || *got.DeletionGracePeriodSeconds != c.left {
			t.Fatalf("%v: got %v, want %d seconds left", c.seconds, got, c.left)
		}
	}
	w.intents(target, grace(new(int64)))
	if w.live(pod, "c") != nil {
		t.Error("with no time left the object exists still")
	}
}

func TestADryRunShortensNoDeletion(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.DryRun = true })
	target := w.owner(nil, list(pod))
	w.create(pod, nodePod)
	w.seen(pod, "c")
	w.intents(target, removeOf(pod, func(d *abi.Delete) { d.GracePeriodSeconds = new(int64) }))
	if got := w.live(pod, "c"); got == nil || got.Deleting() {
		t.Errorf("got %v", got)
	}
	if line := w.logs.Next(t); line.Message != "dry run: would delete" {
		t.Errorf("logged %v", line)
	}
}
