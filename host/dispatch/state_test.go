package dispatch

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestNewCodeResetsTheTriesAndANewPolicyDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		digests []string // of the revisions that replace the first one before the next run
		kept    bool
	}{
		"new code":                      {[]string{"b"}, false},
		"a new policy":                  {[]string{"a"}, true},
		"two new policies":              {[]string{"a", "a"}, true},
		"new code, then a new policy":   {[]string{"b", "b"}, false},
		"new code, then the former one": {[]string{"b", "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.c.Revision().Digest = "a"
			f.put(aWidget)
			f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
				return sandbox.Return{}, errors.New("network")
			}
			f.run()
			for _, digest := range c.digests {
				f.swap(func(r *Revision) { r.Digest = digest })
			}
			f.run(abi.ReasonPlugin)
			if kept := f.request.Attempt == 1 && f.request.Previous != nil; kept != c.kept || !kept && f.request.Attempt != 0 {
				t.Errorf("attempt %d, previous %+v", f.request.Attempt, f.request.Previous)
			}
		})
	}
}

func TestASwapAddsEveryObject(t *testing.T) {
	f := newFixture(t)
	f.c.Swap(f.c.Revision(), []object.Key{testKey, {Name: "b"}})
	f.expect("add ns/w plugin", "add b plugin")
}

func TestMemosAreKeptIfTheirVersionStays(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Memo: []byte(`"m"`)})
	}
	for _, step := range []struct {
		versions []string // one swap each before the next run
		memo     string   // that it gets
	}{
		{nil, ""},
		{nil, `"m"`},
		{[]string{"1"}, ""},
		{[]string{"1"}, `"m"`},
		{[]string{"2", "1"}, ""},
	} {
		for _, version := range step.versions {
			f.swap(func(r *Revision) { r.MemoVersion = version })
		}
		f.run()
		if got := string(f.request.Memo); got != step.memo {
			t.Errorf("after swaps to %q the memo is %s, want %s", step.versions, got, step.memo)
		}
	}
}

// A memo may hold what another account has read, whatever version of memos a manifest states.
func TestAMemoIsThatOfOneAccount(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Memo: []byte(`"m"`)})
	}
	f.run()
	for _, accounts := range [][]string{{"ns/b"}, {"ns/c", "ns/b"}} {
		for _, account := range accounts {
			f.swap(func(r *Revision) { r.Account = account })
		}
		if f.run(); f.request.Memo != nil {
			t.Errorf("after %q the memo is %s", accounts, f.request.Memo)
		}
		if f.run(); string(f.request.Memo) != `"m"` {
			t.Errorf("then it is %q", f.request.Memo)
		}
	}
}

// The failures of a run may tell what another account has met.
func TestTheFailureOfARunIsThatOfOneAccount(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	fails := func() {
		t.Helper()
		if f.run(); f.request.Previous == nil {
			t.Error("the run is not told how the one before has failed")
		}
	}
	f.reconcile = returnsCode(abi.CodeRetry)
	f.run()
	fails()
	f.swap(func(*Revision) {})
	fails()
	for _, accounts := range [][]string{{"ns/b"}, {"ns/c", "ns/b"}} {
		for _, account := range accounts {
			f.swap(func(r *Revision) { r.Account = account })
		}
		if f.run(); f.request.Previous != nil {
			t.Errorf("after %q the run is told %+v", accounts, f.request.Previous)
		}
		fails()
	}
}

// A run can wait for a read for seconds before it begins. If the revision is
// replaced meanwhile, what is remembered of the key is for the new one.
func TestAKeyThatWasTakenBeforeASwapIsPutBack(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	var memos []string
	remember := func(memo string) reconcileFunc {
		return func(context.Context, sandbox.Call) (sandbox.Return, error) {
			memos = append(memos, string(f.request.Memo))
			return returns(&abi.Result{Memo: []byte(memo)})
		}
	}
	f.reconcile = remember(`"old"`)
	f.run()
	f.due = []queue.Item{{Key: testKey}}
	item, _ := f.c.take(t.Context())
	f.swap(func(r *Revision) { r.MemoVersion = "2" })
	f.log = nil
	f.c.process(t.Context(), item)
	f.expect("put back ns/w")
	f.reconcile = remember(`"new"`)
	f.run()
	f.run()
	if want := []string{"", "", `"new"`}; len(memos) != 3 || memos[1] != want[1] || memos[2] != want[2] {
		t.Errorf("memos %q, want %q", memos, want)
	}
}

func TestARunEndsUnderThePolicyThatItBeganWith(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.swap(func(r *Revision) { r.Effects = otherEffects{testEffects{f}} })
		f.reconcile = succeed
		return returns(&abi.Result{})
	}
	const other = "intents under the other policy"
	f.run()
	if slices.Contains(f.log, other) {
		t.Errorf("the run that was in progress: %q", f.log)
	}
	f.run()
	if !slices.Contains(f.log, other) {
		t.Errorf("the next run: %q", f.log)
	}
}

// otherEffects are effects under another policy.
type otherEffects struct{ testEffects }

func (e otherEffects) PerformIntents(context.Context, effect.Target, *abi.Result) (effect.Report, *effect.Failure) {
	e.note("intents under the other policy")
	return effect.Report{}, nil
}

// What is kept of a key between its runs must not alias the bytes of an object:
// there may be tens of thousands of keys.
func TestAKeyKeepsNoObjectInMemory(t *testing.T) {
	f := newFixture(t)
	given := f.put(aWidget)
	f.run()
	written := f.store[widget][testKey]
	for _, o := range []*object.Object{given, written} {
		clear(o.Raw)
	}
	s := f.c.keys[testKey]
	if s.uid != object.HashOf("u1") || len(s.own) != 1 || s.own[0].id != changeID("u1", "101") || s.writeLoop == nil {
		t.Errorf("%+v", s)
	}
	for _, kept := range []any{s.uid, s.own[0], s.writeLoop.contents[0]} {
		if of := reflect.TypeOf(kept); hasText(of) {
			t.Errorf("%s may keep the text of an object in memory", of)
		}
	}
	if s.carried != nil {
		t.Errorf("a run that succeeded leaves %+v", s.carried)
	}
}

// hasText reports whether values of a type have text of variable length.
func hasText(of reflect.Type) bool {
	switch of.Kind() {
	case reflect.Struct:
		for field := range of.Fields() {
			if hasText(field.Type) {
				return true
			}
		}
		return false
	case reflect.Array:
		return hasText(of.Elem())
	default:
		return of.Kind() == reflect.String || of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer || of.Kind() == reflect.Interface
	}
}

func TestARecreatedObjectStartsWithNewState(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.run()
	f.log = nil
	f.put(strings.Replace(aWidget, `"u1"`, `"u2"`, 1))
	f.run()
	if f.log[0] != "effects forget u1" || f.c.keys[testKey].uid != object.HashOf("u2") {
		t.Errorf("what happened: %q", f.log)
	}
}

// What an outage did to the tries of a key must not lengthen its next backoff.
func TestEndOfAnOutageDropsItsAttempts(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = returnsCode(abi.CodeRetry)
	f.run()
	f.run()
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Status: []byte(`{"n":1}`)})
	}
	f.fail["status"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: "Unavailable"}, Outage: true}
	for range 3 {
		f.run()
	}
	if next := f.done[4]; !next.Outage || next.After < 6*time.Second {
		t.Errorf("during the outage: %+v", next)
	}
	if next := f.done[1]; next.Outage {
		t.Errorf("a failure of the plugin is an outage: %+v", next)
	}
	f.log = nil
	f.c.OutageEnded()
	f.expect("outage ended")
	f.run()
	if next := f.done[5]; f.request.Attempt != 2 || next.After > 2*time.Second {
		t.Errorf("after it: attempt %d and %+v", f.request.Attempt, next)
	}
}

// What is left for the next run must not be dropped with the rest of a run.
func TestWhatIsCarriedOverIsKept(t *testing.T) {
	if !(&carried{}).isEmpty() {
		t.Error("nothing is not empty")
	}
	all := map[string]carried{
		"tries": {tries: outcome.Tries{Conflicts: 1}}, "memo": {memo: []byte("m")}, "previous": {previous: &abi.Previous{}},
		"uncertain": {uncertain: []abi.Ref{{}}}, "notBefore": {notBefore: time.Now().Add(time.Hour)}, "postponed": {postponed: 1},
		"repeated": {repeated: 1}, "awaited": {awaited: 1}, "internal": {internal: time.Now()}, "parked": {parked: &run{}}, "deferred": {deferred: []change{{}}},
		"signals": {signals: signals{waiting: [][]byte{nil}}}, "failed": {failed: &LastFailure{}},
	}
	for field := range reflect.TypeFor[carried]().Fields() {
		if c, ok := all[field.Name]; !ok || c.isEmpty() {
			t.Errorf("%s is dropped", field.Name)
		}
	}
}

// There is one of these for each primary, of which there may be very many.
// BenchmarkIdleKeys shows what they take together.
func TestWhatIsRememberedOfAKeyIsSmall(t *testing.T) {
	for name, size := range map[string][2]uintptr{
		"keyState":  {unsafe.Sizeof(keyState{}), 112},
		"ownChange": {unsafe.Sizeof(ownChange{}), 32},
		"content":   {unsafe.Sizeof(content{}), 32},
	} {
		if size[0] > size[1] {
			t.Errorf("%s has %d bytes, more than %d: keep what few keys need in carried", name, size[0], size[1])
		}
	}
}

// A revision that follows fewer objects gets no event for the others. Their runs end at
// once, and forget them.
func TestASwapAddsKeysThatAreNotFollowedAnyMore(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.run()
	f.log = nil
	f.c.Swap(f.c.Revision(), []object.Key{{Name: "a"}, {Name: "b"}})
	f.expect("add a plugin", "add b plugin", "add ns/w plugin")
	f.log = nil
	f.c.Swap(f.c.Revision(), []object.Key{testKey})
	f.expect("add ns/w plugin")
}

// What the run has seen is as true if what it wanted could not be written.
func TestMemoIsKeptAfterAFailedEffect(t *testing.T) {
	for _, verb := range []string{"apply", "status"} {
		f := newFixture(t)
		f.put(aWidget)
		f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Memo: []byte(`"seen"`), Apply: []abi.Apply{{Object: []byte(aGadget)}}, Status: []byte(`{"a":"b"}`)})
		f.fail[verb] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
		f.run()
		if delete(f.fail, verb); f.request.Memo != nil {
			t.Errorf("%s: the first run has the memo %s", verb, f.request.Memo)
		}
		if f.run(); string(f.request.Memo) != `"seen"` {
			t.Errorf("%s: the memo is %s", verb, f.request.Memo)
		}
	}
}
