package effect

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestEventsOfConsecutiveRunsAreSaidOnce(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {})
	a := abi.Event{Type: "Normal", Reason: "A", Message: "m"}
	b := abi.Event{Type: "Warning", Reason: "B", Message: "m"}
	for _, events := range [][]abi.Event{{a, a}, {a, b}, {a, b}, nil, {b}} {
		w.intents(target, Intents{Events: events})
	}
	if want := []string{"Normal A m", "Warning B m", "Warning B m"}; !slices.Equal(w.recorder.events, want) {
		t.Errorf("got %q, want %q", w.recorder.events, want)
	}

	w.recorder.events = nil
	for _, e := range []*abi.Event{&a, &a, &b, &b, nil, &b} {
		w.Event(target, e)
	}
	if want := []string{"Normal A m", "Warning B m", "Warning B m"}; !slices.Equal(w.recorder.events, want) {
		t.Errorf("got %q, want %q", w.recorder.events, want)
	}

	// An effect that failed says nothing, and forgets nothing.
	w.recorder.events = nil
	_, failure := w.Intents(t.Context(), target, Intents{Apply: apply(serviceObject).Apply, Events: []abi.Event{a}})
	if failure == nil || len(w.recorder.events) != 0 {
		t.Errorf("got %v, said %q", failure, w.recorder.events)
	}
}

func TestForget(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {})
	a := abi.Event{Type: "Normal", Reason: "A", Message: "m"}
	other := target
	other.Object = parse(t, `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"o","uid":"u9"}}`)
	w.Event(target, &a)
	w.Event(other, &a)
	w.Forget(target.Object.UID)
	w.Event(target, nil) // leaves nothing behind
	if len(w.memory.byUID) != 1 {
		t.Errorf("remembers %d", len(w.memory.byUID))
	}
	w.Event(target, &a)
	w.Event(other, &a)
	if len(w.recorder.events) != 3 {
		t.Errorf("said %q", w.recorder.events)
	}
}

func TestMemoryIsBoundedByTheLastRun(t *testing.T) {
	m := &memo{}
	x, y := childOf(pod.Kind, object.Key{Name: "x"}), childOf(pod.Kind, object.Key{Name: "y"})
	m.setApplied(x, record{})
	m.setAbsent(y)
	m.keep(map[child]bool{y: true})
	if len(m.applied) != 0 || !m.absent[y] {
		t.Errorf("keeps %+v", m)
	}
	m.setApplied(y, record{})
	m.keep(map[child]bool{})
	if len(m.applied)+len(m.absent) != 0 {
		t.Errorf("keeps %+v", m)
	}
}

// TestPrimariesInParallel is for the race detector.
func TestPrimariesInParallel(t *testing.T) {
	w, target := newFake(t, func(out http.ResponseWriter, r *http.Request) {
		answer(200, "application/json", primary)(out, r)
	})
	var workers sync.WaitGroup
	for i := range 8 {
		mine := Target{target.Controller, parse(t, strings.Replace(primary, `"u1"`, fmt.Sprintf(`"u%d"`, i), 1))}
		workers.Go(func() {
			for n := range 20 {
				if _, _, failure := w.Status(t.Context(), mine, Status{Patch: fmt.Appendf(nil, `{"n":%d}`, n+1)}); failure != nil {
					t.Error(failure)
				}
				if _, failure := w.Intents(t.Context(), mine, Intents{Patch: fmt.Appendf(nil, `{"spec":{"n":%d}}`, n)}); failure != nil {
					t.Error(failure)
				}
				w.Performer.Event(mine, nil)
				if n%5 == 0 {
					w.Forget(mine.Object.UID)
				}
			}
		})
	}
	workers.Wait()
}
