package dispatch

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// What is kept of a key between its runs must not keep the bytes of an object
// in memory: there may be tens of thousands of keys.
func TestAKeyKeepsNoObjectInMemory(t *testing.T) {
	b := newBench(t)
	given := b.put(aWidget)
	b.run()
	written := b.store[widget][testKey]
	for _, o := range []*object.Object{given, written} {
		clear(o.Raw)
	}
	s := b.c.keys[testKey]
	if s.uid != "u1" || !s.own["101"] {
		t.Errorf("uid %q, own %+q", s.uid, slices.Collect(maps.Keys(s.own)))
	}
	for _, w := range s.writes {
		if w.Key != testKey || w.ResourceVersion != "101" {
			t.Errorf("write %q", w)
		}
	}
	if len(s.writes) != 1 {
		t.Errorf("writes %q", s.writes)
	}
}

func TestARecreatedNameForgetsTheOneBefore(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.run()
	b.log = nil
	b.put(strings.Replace(aWidget, `"u1"`, `"u2"`, 1))
	b.run()
	if b.log[1] != "effects forget u1" || b.c.keys[testKey].uid != "u2" {
		t.Errorf("what happened: %q", b.log)
	}
}

func TestWhatACleanupSaysIsWrittenBeforeTheFinalizerGoes(t *testing.T) {
	b := newBench(t)
	b.put(strings.Replace(aWidget, `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1))
	b.reconcile = func(context.Context, Call) (Return, error) {
		return returns(&abi.Result{Status: []byte(`{"n":1}`)})
	}
	b.fail["status"] = &Failure{EffectFailure: abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: "Unavailable"}}
	b.run()
	b.expect(`status  patch={"n":1}`, "commit reads", "event Warning Unavailable", "metric error retry")
	delete(b.fail, "status")
	b.run()
	b.expect(`status  patch={"n":1}`, "remove finalizer", "commit reads", "metric success ")
}

func TestARunAnswersTheRequest(t *testing.T) {
	b := newBench(t)
	b.put(strings.Replace(aWidget, `"uid"`, `"annotations":{"`+RequestedAt+`":"now"},"uid"`, 1))
	b.run()
	if !slices.ContainsFunc(b.log, func(l string) bool { return strings.HasPrefix(l, "status ") && strings.Contains(l, " handled=now ") }) {
		t.Errorf("what happened: %q", b.log)
	}
}

// TestACleanupIsNoAnswerToARequest: the object goes, and one write is enough.
func TestACleanupIsNoAnswerToARequest(t *testing.T) {
	b := newBench(t)
	b.put(strings.Replace(aWidget, `"uid"`, `"annotations":{"`+RequestedAt+`":"now"},"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1))
	b.run()
	b.expect("remove finalizer", "commit reads", "metric success ")
}
