package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// on runs the widget of that name once.
func (b *bench) on(name string) {
	b.due = append(b.due, Due{Key: object.Key{Namespace: "ns", Name: name}})
	b.c.work(b.t.Context(), b.t.Context())
}

// widgets stores so many, and runs each under the first generation.
func (b *bench) widgets(n int, reconcile func(ctx context.Context, call Call) (Return, error)) {
	b.reconcile = reconcile
	for i := range n {
		b.put(strings.NewReplacer(`"w"`, fmt.Sprintf(`"w%d"`, i), `"u1"`, fmt.Sprintf(`"u%d"`, i)).Replace(aWidget))
		b.on(fmt.Sprintf("w%d", i))
	}
}

// swap brings another generation on probation, and returns why it was lost.
func (b *bench) swap(reconcile func(ctx context.Context, call Call) (Return, error)) *[]string {
	var lost []string
	g := *b.c.Generation()
	g.Number++
	g.Trial = NewTrial(time.Now().Add(time.Hour), func(reason string) { lost = append(lost, reason) })
	b.c.Swap(&g, nil)
	b.reconcile = reconcile
	return &lost
}

func fine(context.Context, Call) (Return, error) { return returns(&abi.Result{}) }
func panics(context.Context, Call) (Return, error) {
	return Return{}, &Fault{Class: abi.ClassPanic, Message: "boom"}
}
func retries(context.Context, Call) (Return, error) { return Return{Code: abi.CodeRetry}, nil }
func stalls(context.Context, Call) (Return, error)  { return Return{Code: abi.CodeStalled}, nil }
func hostFails(context.Context, Call) (Return, error) {
	return Return{}, errors.New("no memory left in the host")
}

type reconcile = func(context.Context, Call) (Return, error)

func TestTrial(t *testing.T) {
	for _, c := range []struct {
		name          string
		objects       int
		before, after reconcile
		runs          int // of each object
		lost          bool
	}{
		{"three panic", 3, fine, panics, 1, true},
		{"two panic", 2, fine, panics, 1, false},
		{"two panic twice", 2, fine, panics, 2, true},
		{"the only one panics", 1, fine, panics, 3, true},
		{"the only one panics, so far", 1, fine, panics, 2, false},
		{"many ask for a retry once", 20, fine, retries, 1, false},
		{"many ask for a retry again", 20, fine, retries, 2, true},
		{"as bad as before", 20, panics, panics, 3, false},
		{"better than before", 20, panics, fine, 1, false},
		{"stalled is an answer", 20, fine, stalls, 3, false},
		{"the host fails", 20, fine, hostFails, 3, false},
		{"nothing ran before", 20, hostFails, panics, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.widgets(c.objects, c.before)
			lost := b.swap(c.after)
			for range c.runs {
				for i := range c.objects {
					b.on(fmt.Sprintf("w%d", i))
				}
			}
			if got := len(*lost) > 0; got != c.lost || len(*lost) > 1 {
				t.Errorf("lost: %q, want %v, once", *lost, c.lost)
			}
		})
	}
}

func TestATrialTellsWhatFails(t *testing.T) {
	b := newBench(t)
	b.widgets(4, fine)
	lost := b.swap(panics)
	for i := range 3 {
		b.on(fmt.Sprintf("w%d", i))
	}
	want := "3 of 3 objects fail that did not fail before; the last: ns/w2: panic"
	if len(*lost) != 1 || (*lost)[0] != want {
		t.Errorf("lost: %q, want %q", *lost, want)
	}
}

// TestOneBadObjectOfManyIsNoReason: the new code may be right about it.
func TestOneBadObjectOfManyIsNoReason(t *testing.T) {
	b := newBench(t)
	b.widgets(10, fine)
	lost := b.swap(fine)
	for i := range 10 {
		b.on(fmt.Sprintf("w%d", i))
	}
	b.reconcile = panics
	for range 20 {
		b.on("w4")
	}
	if len(*lost) != 0 {
		t.Errorf("lost: %q", *lost)
	}
}

// TestAGenerationThatDidNotPassIsNotComparedWith: what follows it is held
// against the last one that did.
func TestAGenerationThatDidNotPassIsNotComparedWith(t *testing.T) {
	b := newBench(t)
	b.widgets(5, fine)
	first := b.swap(panics)
	b.on("w0")
	b.on("w1")
	second := b.swap(panics)
	for _, name := range []string{"w0", "w1", "w2"} {
		b.on(name)
	}
	if len(*first) != 0 || len(*second) != 1 {
		t.Errorf("lost: %q and %q", *first, *second)
	}
}

// TestASoundGenerationIsComparedWith although its trial goes on.
func TestASoundGenerationIsComparedWith(t *testing.T) {
	b := newBench(t)
	b.widgets(3, panics)
	b.swap(fine)
	if b.c.Generation().Trial.Sound() {
		t.Error("sound before it has run")
	}
	for i := range 3 {
		b.on(fmt.Sprintf("w%d", i))
	}
	if !b.c.Generation().Trial.Sound() {
		t.Error("not sound, though it fails for nothing")
	}
	lost := b.swap(panics)
	for i := range 3 {
		b.on(fmt.Sprintf("w%d", i))
	}
	if len(*lost) != 1 || b.c.Generation().Trial.Sound() {
		t.Errorf("lost: %q, sound: %v", *lost, b.c.Generation().Trial.Sound())
	}
}

func TestATrialEnds(t *testing.T) {
	var lost []string
	trial := NewTrial(time.Now().Add(-time.Second), func(reason string) { lost = append(lost, reason) })
	b := newBench(t)
	b.widgets(5, fine)
	g := *b.c.Generation()
	g.Trial = trial
	b.c.Swap(&g, nil)
	b.reconcile = panics
	for i := range 5 {
		b.on(fmt.Sprintf("w%d", i))
	}
	if len(lost) != 0 || !trial.Sound() {
		t.Errorf("lost: %q", lost)
	}
}

// TestScoreAddsUp: whatever happens, the score is the sum of what each object
// shows now.
func TestScoreAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := make([]fared, rapid.IntRange(1, 6).Draw(t, "objects"))
		for i := range objects {
			objects[i].before = fate(rapid.IntRange(int(unknown), int(unwell)).Draw(t, "before"))
		}
		var running score
		for range rapid.IntRange(0, 40).Draw(t, "runs") {
			o := &objects[rapid.IntRange(0, len(objects)-1).Draw(t, "object")]
			before := *o
			o.now = o.now.then(fate(rapid.IntRange(int(unknown), int(unwell)).Draw(t, "run")))
			running.comparison = running.add(before.compare(), -1).add(o.compare(), 1)
		}
		var whole comparison
		for _, o := range objects {
			whole = whole.add(o.compare(), 1)
		}
		if running.comparison != whole {
			t.Fatalf("%+v, want %+v", running.comparison, whole)
		}
		if whole.worse+whole.better > whole.compared {
			t.Fatalf("%+v", whole)
		}
	})
}

// TestOneObjectIsNoReasonWhileOthersAreInDoubt: all fail once, as they do when
// something that the plugin calls is away for a moment, and one is tried again
// before the others.
func TestOneObjectIsNoReasonWhileOthersAreInDoubt(t *testing.T) {
	b := newBench(t)
	b.widgets(20, fine)
	lost := b.swap(retries)
	for i := range 20 {
		b.on(fmt.Sprintf("w%d", i))
	}
	b.on("w0")
	b.on("w1")
	if len(*lost) != 0 {
		t.Errorf("lost: %q", *lost)
	}
	b.on("w2")
	if want := "3 of 20 objects fail that did not fail before; the last: ns/w2: retry"; len(*lost) != 1 || (*lost)[0] != want {
		t.Errorf("lost: %q, want %q", *lost, want)
	}
}

// TestAnotherObjectIsNotComparedUnlessThePluginBreaks: what was edited, or is
// deleted, may have to be tried again where it had not before. It is never
// right to panic.
func TestAnotherObjectIsNotComparedUnlessThePluginBreaks(t *testing.T) {
	for name, change := range map[string]string{
		"edited":  `{"metadata":{"generation":2}}`,
		"deleted": `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
	} {
		for _, c := range []struct {
			how  string
			runs reconcile
			lost int
		}{{"asks", retries, 0}, {"panics", panics, 1}} {
			t.Run(name+" and "+c.how, func(t *testing.T) {
				b := newBench(t)
				b.widgets(5, fine)
				lost := b.swap(c.runs)
				for range 3 {
					for i := range 5 {
						key := object.Key{Namespace: "ns", Name: fmt.Sprintf("w%d", i)}
						b.store[widget][key] = patched(t, b.store[widget][key], change)
						b.on(key.Name)
					}
				}
				if len(*lost) != c.lost {
					t.Errorf("lost: %q", *lost)
				}
			})
		}
	}
}

// TestWhatSaysNothingIsNoFailure: one panic, and then the host is in the way.
func TestWhatSaysNothingIsNoFailure(t *testing.T) {
	b := newBench(t)
	b.widgets(1, fine)
	lost := b.swap(panics)
	b.on("w0")
	b.reconcile = hostFails
	b.on("w0")
	b.on("w0")
	if len(*lost) != 0 {
		t.Errorf("lost: %q", *lost)
	}
}
