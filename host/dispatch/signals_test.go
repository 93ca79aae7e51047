package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// newSignalled returns a fixture with one object.
func newSignalled(t *testing.T) *fixture {
	f := newFixture(t)
	f.follow()
	f.put(aWidget)
	return f
}

// givenSignals returns the signals of the last call of the guest.
func (f *fixture) givenSignals() (all []string) {
	for _, s := range f.request.Signals {
		all = append(all, string(s))
	}
	return all
}

func (f *fixture) expectGiven(want ...string) {
	f.t.Helper()
	if got := f.givenSignals(); !slices.Equal(got, want) {
		f.t.Errorf("the run was given the signals %q, want %q", got, want)
	}
}

func (f *fixture) signal(given ...string) {
	f.t.Helper()
	var all [][]byte
	for _, s := range given {
		all = append(all, []byte(s))
	}
	if !f.c.Signal(testKey, all...) {
		f.t.Errorf("%q were not taken", given)
	}
}

// createAgain replaces the widget by another one of the same name.
func (f *fixture) createAgain() {
	f.put(strings.ReplaceAll(aWidget, `"u1"`, `"u2"`))
}

// expectNoSignals expects that nothing is left of signals.
func (f *fixture) expectNoSignals() {
	f.t.Helper()
	if f.c.signalBytes != 0 {
		f.t.Errorf("%d bytes of signals are counted", f.c.signalBytes)
	}
	if s := f.c.keys[testKey]; s != nil && s.carried != nil && len(s.signals.waiting) > 0 {
		f.t.Errorf("signals are left: %q", s.signals.waiting)
	}
}

func TestASignalMakesAPrimaryDueAndIsGivenUntilARunEndsWell(t *testing.T) {
	f := newSignalled(t)
	f.signal(`{"n":1}`)
	f.expect("add ns/w signal")
	f.reconcile = panics
	f.run(abi.ReasonSignal)
	f.expectGiven(`{"n":1}`)
	f.signal(`2`, `3`)
	f.reconcile = succeed
	f.run(abi.ReasonSignal)
	f.expectGiven(`{"n":1}`, `2`, `3`)
	f.run(abi.ReasonResync)
	f.expectGiven()
	f.expectNoSignals()
}

// A signal of a run in progress is for the next one.
func TestASignalDuringARunIsGivenToTheNextOne(t *testing.T) {
	f := newSignalled(t)
	f.signal(`1`)
	f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		f.signal(`2`)
		return succeed(ctx, call)
	}
	f.run(abi.ReasonSignal)
	f.expectGiven(`1`)
	f.reconcile = succeed
	f.run(abi.ReasonSignal)
	f.expectGiven(`2`)
	f.expectNoSignals()
}

func TestAnObjectThatIsNotThereTakesNoSignal(t *testing.T) {
	f := newSignalled(t)
	delete(f.store[widget], testKey)
	if f.c.Signal(testKey, []byte(`1`)) || len(f.c.keys) > 0 {
		t.Error("a signal for nothing was kept")
	}
	f.expect()
	f.expectNoSignals()
}

func TestSignalsAreKeptOverASwapButNotForAnotherAccount(t *testing.T) {
	for account, want := range map[string][]string{"": {`1`}, "team/other": nil} {
		f := newSignalled(t)
		f.run(abi.ReasonPrimary)
		f.signal(`1`)
		f.swap(func(next *Revision) { next.Account = account })
		f.run(abi.ReasonSignal)
		f.expectGiven(want...)
		f.expectNoSignals()
	}
}

// What was for the object before is lost with it, and what is for the new one is not, although the
// state of the key is still that of the one before.
func TestSignalsAreForTheObjectThatWasThere(t *testing.T) {
	f := newSignalled(t)
	f.reconcile = returnsCode(abi.CodeRetry)
	f.run(abi.ReasonPrimary)
	f.signal(`"old"`)
	f.createAgain()
	f.signal(`"new"`)
	f.reconcile = succeed
	f.run(abi.ReasonSignal)
	f.expectGiven(`"new"`)
	f.expectNoSignals()
}

func TestSignalsOfAnObjectThatHasGoneAreNotGivenToTheNextOfItsName(t *testing.T) {
	f := newSignalled(t)
	f.run(abi.ReasonPrimary)
	f.signal(`"old"`)
	f.createAgain()
	f.run(abi.ReasonPrimary)
	f.expectGiven()
	f.expectNoSignals()
}

// The signal comes while the last run of the object before is in progress.
func TestASignalForTheNextObjectIsNotGivenToARunOfTheOneBefore(t *testing.T) {
	f := newSignalled(t)
	f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		f.createAgain()
		f.signal(`"new"`)
		return succeed(ctx, call)
	}
	f.run(abi.ReasonPrimary)
	f.createAgain() // over what the run has written to the fake
	f.reconcile = succeed
	f.run(abi.ReasonSignal)
	f.expectGiven(`"new"`)
	f.expectNoSignals()
}

// The key is forgotten because the object went, while one of the same name was created.
func TestASignalSurvivesThatTheObjectBeforeIsForgotten(t *testing.T) {
	f := newSignalled(t)
	f.run(abi.ReasonPrimary)
	f.createAgain()
	f.signal(`"new"`)
	f.c.forget(testKey)
	f.run(abi.ReasonSignal)
	f.expectGiven(`"new"`)
	f.expectNoSignals()
}

func TestWhatIsForgottenTakesItsSignalsAlong(t *testing.T) {
	f := newSignalled(t)
	f.signal(`1`)
	delete(f.store[widget], testKey)
	f.run(abi.ReasonPrimary)
	if len(f.c.keys) > 0 {
		t.Error("the key is remembered")
	}
	f.expectNoSignals()
}

func TestSignalsAreBounded(t *testing.T) {
	f := newSignalled(t)
	for i := range maxSignals + 5 {
		f.signal(fmt.Sprint(i))
	}
	f.run(abi.ReasonSignal)
	if got := f.givenSignals(); len(got) != maxSignals || got[0] != "5" {
		t.Errorf("%d signals, the first is %s", len(got), got[0])
	}
	f.expectNoSignals()

	large := []byte(`"` + strings.Repeat("x", 16<<10-2) + `"`)
	for i := range 2 * maxSignalBytes / len(large) / maxSignals {
		key := object.Key{Namespace: "ns", Name: fmt.Sprint("w", i)}
		f.put(fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":%q,"uid":%q,"resourceVersion":"1"}}`, key.Name, key.Name))
		for range maxSignals {
			f.c.Signal(key, large)
		}
	}
	if f.c.signalBytes > maxSignalBytes || f.c.signalBytes < maxSignalBytes/2 {
		t.Errorf("%d bytes of signals are kept", f.c.signalBytes)
	}
	// Whoever has filled all this, of objects that do not run, takes nothing from others.
	f.signal(`"small"`)
	for i := range 2 * maxSignalBytes / len(large) {
		f.c.Signal(object.Key{Namespace: "ns", Name: fmt.Sprint("w", i%64)}, large)
	}
	f.run(abi.ReasonSignal)
	f.expectGiven(`"small"`)
	if f.c.signalBytes > maxSignalBytes {
		t.Errorf("%d bytes of signals are kept", f.c.signalBytes)
	}
}

func TestPrimariesAreFoundByAField(t *testing.T) {
	f := newSignalled(t)
	f.c.revision.Load().Controller.Indexes = []abi.Index{{Name: "x", Kind: widget, Field: "spec.x"}, {Name: "y", Kind: gadget, Field: "spec.x"}}
	for key, want := range map[string]int{"1": 1, "2": 0, "": 0} {
		if found, err := f.c.Resolve("x", key, 10); len(found) != want || err != nil {
			t.Errorf("%q: %v, %v", key, found, err)
		}
	}
	if found, err := f.c.Resolve("x", "1", 0); len(found) != 0 || err != nil {
		t.Errorf("more are returned than may be: %v, %v", found, err)
	}
	for _, name := range []string{"y", "z", ""} {
		if found, err := f.c.Resolve(name, "1", 10); err == nil {
			t.Errorf("%q: %v", name, found)
		}
	}
}
