package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// errands is a capability of the tests, with a fixture: each object that is wanted has an errand, whose first call is
// made at once, and further ones when what it has read has changed, or its time has come.
type errands struct {
	*fixture
	wanted  func(*object.Object) bool
	calls   []string // why each call was made
	answer  func(context.Context, sandbox.Call) (sandbox.Return, error)
	next    TurnNext // of calls that have ended well
	ended   []EndedTurn
	running int // errands that were begun and not stopped
	last    []bool
	given   []byte // of the last call
	deaf    bool   // calls are made for no change of what was read
}

// errand implements [ObjectTurn].
type errand struct {
	*errands
	began bool
	due   time.Time
}

const errandGrace = 3 * time.Second

// withErrands runs a test in a bubble.
func withErrands(t *testing.T, test func(f *errands)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &errands{fixture: newFixture(t), wanted: func(*object.Object) bool { return true }}
		f.signals()
		f.fixture.turns = &turnLog{guest: func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) { return f.answer(ctx, call) }}
		f.c.Hooks = []Hooks{{}, {ObjectTurns: &ObjectTurns{
			Key: "errand", What: "errand", Export: "errand",
			Grace:  func(*Revision) time.Duration { return errandGrace },
			Wanted: func(_ *Revision, o *object.Object) bool { return f.wanted(o) },
			New: func(*Revision) ObjectTurn {
				return &errand{errands: f}
			},
		}}}
		f.put(aWidget)
		test(f)
	})
}

func (e *errand) Begin(b *BeginningTurn) (*TurnCall, TurnNext) {
	if e.c.mu.TryLock() {
		e.c.mu.Unlock()
		e.t.Error("Begin is called without the lock")
	}
	why := []string{}
	if !e.began {
		why = append(why, "first")
	}
	if b.Woken.Reads && !e.deaf {
		why = append(why, "reads")
	}
	if b.Woken.Index && !e.deaf {
		why = append(why, "index")
	}
	byReads := e.began && len(why) > 0
	if !e.due.IsZero() && !e.due.After(b.Now) {
		why, byReads = append(why, "time"), false
	}
	if len(why) == 0 {
		if e.due.IsZero() {
			return nil, TurnNext{Failure: e.next.Failure}
		}
		return nil, TurnNext{After: e.due.Sub(b.Now), Failure: e.next.Failure}
	}
	if !e.began {
		e.running++
	}
	e.began = true
	return e.call(b, why, byReads), TurnNext{}
}

func (e *errand) call(b *BeginningTurn, why []string, byReads bool) *TurnCall {
	e.calls, e.given = append(e.calls, strings.Join(why, " ")), b.Given
	if b.Now.IsZero() || b.Seed == [32]byte{} {
		e.t.Errorf("the call has the time %v and the seed %v", b.Now, b.Seed)
	}
	return &TurnCall{Request: [][]byte{b.Given}, Deadline: 2 * time.Second, Fuel: 7, ByReads: byReads}
}

func (e *errand) Decode(output []byte) (signals [][]byte, failure *abi.Failure, err error) {
	if e.c.mu.TryLock() {
		e.c.mu.Unlock()
	} else {
		e.t.Error("Decode is called with the lock")
	}
	if string(output) == "large" {
		return nil, nil, &ResultError{Reason: "TooLarge", Message: "write less"}
	}
	var written struct {
		Signals []json.RawMessage
		Error   *abi.Failure
	}
	if len(output) > 0 {
		err = json.Unmarshal(output, &written)
	}
	for _, s := range written.Signals {
		signals = append(signals, s)
	}
	return signals, written.Error, err
}

func (e *errand) End(end *EndedTurn) TurnNext {
	e.ended = append(e.ended, *end)
	if end.Uncounted {
		return TurnNext{}
	}
	if end.Failure.Class != abi.ClassNone {
		return TurnNext{Failure: &abi.EffectFailure{Verb: "errand", Class: end.Failure.Class, Reason: end.Failure.Reason, Message: end.Failure.Message}}
	}
	e.due = time.Time{}
	if e.next.After > 0 {
		e.due = end.Now.Add(e.next.After)
	}
	return e.next
}

func (e *errand) Stop(b *BeginningTurn) *TurnCall {
	if !e.began {
		return nil
	}
	if e.running--; b == nil {
		return nil
	}
	return e.call(b, []string{"last"}, false)
}

func (e *errand) LastEnded(failed bool) { e.last = append(e.last, failed) }

var errandKey = object.Key{Namespace: "ns", Name: "errand/w"}

// signals makes every call end well, with signals.
func (f *errands) signals(signals ...string) {
	f.answer = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Output: fmt.Appendf(nil, `{"signals":[%s]}`, strings.Join(signals, ","))}, nil
	}
}

// turn runs the key of the errand of the widget, and returns what it waits for then.
func (f *errands) turn() outcome.Next {
	f.t.Helper()
	before := len(f.done)
	f.runKey(errandKey, abi.ReasonTimer)
	if len(f.done) != before+1 {
		f.t.Fatal("the key was not handed back")
	}
	return f.done[before]
}

// start makes the first call.
func (f *errands) start() {
	f.t.Helper()
	f.run(abi.ReasonPrimary)
	f.turn()
	f.expectCalls("first")
	f.log = nil
}

func (f *errands) expectCalls(want ...string) {
	f.t.Helper()
	if !slices.Equal(f.calls, want) {
		f.t.Errorf("the calls are %q, want %q", f.calls, want)
	}
	f.calls = nil
}

// expectLog checks that the log has a line, and drops it.
func (f *errands) expectLog(want string) {
	f.t.Helper()
	if !slices.Contains(f.log, want) {
		f.t.Errorf("the log is %q, want %q", f.log, want)
	}
	f.log = nil
}

func (f *errands) expectSignals(want ...string) {
	f.t.Helper()
	var got []string
	for _, s := range f.request.Signals {
		got = append(got, string(s))
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("the signals are %q, want %q", got, want)
	}
}

// readChanges reports a change of what the errand has read.
func (f *errands) readChanges(of abi.Kind) {
	changed, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"ns","name":"g","uid":"u9","resourceVersion":"9"}}`, of.APIVersion, of.Kind), of)
	if err != nil {
		f.t.Fatal(err)
	}
	f.c.ObserveRead(errandKey, nil, changed, false)
}

const deletedWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","generation":2,"resourceVersion":"1","finalizers":["f"],"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"x":1}}`

func TestATurnOfAnObjectBeginsOnceTheFinalizerIsThere(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.put(strings.Replace(aWidget, `"finalizers":["f"]`, `"finalizers":[]`, 1))
		f.run(abi.ReasonPrimary)
		if !slices.Contains(f.log, "finalizer") || !slices.Contains(f.log, "add ns/errand/w timer") {
			t.Errorf("log %q: no finalizer, or no turn", f.log)
		}
		if next := f.turn(); next != (outcome.Next{}) {
			t.Errorf("the turn waits for %+v", next)
		}
		f.expectCalls("first")
		if string(f.given) != string(f.store[widget][testKey].Raw) {
			t.Errorf("the guest is given %s", f.given)
		}
		f.wanted = func(*object.Object) bool { return false }
		f.put(strings.NewReplacer(`"finalizers":["f"]`, `"finalizers":[]`, "u1", "u2").Replace(aWidget))
		f.log = nil
		f.run(abi.ReasonPrimary)
		if slices.Contains(f.log, "finalizer") || f.running != 0 {
			t.Errorf("an object without a turn: %q, %d run", f.log, f.running)
		}
	})
}

func TestTheCallOfATurnOfAnObject(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.next = TurnNext{After: 5 * time.Second}
		f.answer = func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
			if call.Namespace != "ns" || call.Deadline != 2*time.Second || call.Fuel != 7 || call.Host == nil {
				t.Errorf("call %+v", call)
			}
			return sandbox.Return{Usage: sandbox.Usage{Fuel: 3}}, nil
		}
		f.run(abi.ReasonPrimary)
		f.log = nil
		if next := f.turn(); next.After != 5*time.Second || next.Kind != outcome.After {
			t.Errorf("the turn waits for %+v", next)
		}
		f.expect("commit reads")
		if len(f.ended) != 1 || f.ended[0].Fuel != 3 || !f.ended[0].Now.Equal(time.Now()) {
			t.Errorf("ended %+v", f.ended)
		}
		pass(5 * time.Second)
		f.turn()
		f.expectCalls("first", "time")
	})
}

func TestATurnIsWokenByWhatItHasReadAndItsObjectIsNot(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.readChanges(gadget)
		f.expect("add ns/errand/w read")
		f.readChanges(shadow)
		f.expect("add ns/errand/w read")
		f.turn()
		f.expectCalls("reads index")
		f.turn()
		f.expectCalls()
		f.log = nil
		o := f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","uid":"u9","resourceVersion":"9"}}`)
		f.c.ObserveRead(errandKey, o, nil, true)
		f.expect("add in the background ns/errand/w read")
		f.c.ObserveRead(errandKey, nil, nil, false) // nobody knows what has changed
		f.expect("add ns/errand/w read")
		f.turn()
		f.expectCalls("reads")
		f.log = nil
		f.c.ObserveRead(object.Key{Namespace: "ns", Name: "errand/none"}, nil, nil, false)
		f.expect()
		f.c.ObserveOwned(nil, f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g2",
			"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Widget","name":"errand/w","uid":"u","controller":true}]}}`))
		f.expect()
		f.turn()
		f.expectCalls()
		if len(f.request.Signals) != 0 || len(f.c.keys) != 1 {
			t.Error("the object is due, too")
		}
	})
}

func TestAChangeDuringACallIsNotLost(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.answer = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			f.readChanges(gadget)
			return sandbox.Return{}, nil
		}
		f.readChanges(gadget)
		f.log = nil
		f.turn()
		f.expect("add ns/errand/w read", "commit reads")
		f.turn()
		f.expectCalls("reads", "reads")
	})
}

func TestATurnIsLookedAtWhenARunOfItsObjectHasEnded(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.run(abi.ReasonOwned)
		f.expectLog("add ns/errand/w timer")
		if f.turn(); f.running != 1 {
			t.Errorf("%d run", f.running)
		}
		f.expectCalls()
	})
}

func TestSignalsOfATurnMakeItsObjectRunUntilARunHasEndedWell(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.signals(`{"n":1}`, `2`)
		f.readChanges(gadget)
		f.log = nil
		f.turn()
		f.expect("commit reads", "add ns/w signal")
		f.reconcile = returnsCode(abi.CodeRetry)
		f.run(abi.ReasonSignal)
		f.expectSignals(`{"n":1}`, `2`)
		f.signals(`3`)
		f.readChanges(gadget)
		f.turn()
		f.reconcile = panics
		f.run(abi.ReasonSignal)
		f.expectSignals(`{"n":1}`, `2`, `3`)
		f.reconcile = succeed
		f.run(abi.ReasonRetry)
		f.expectSignals(`{"n":1}`, `2`, `3`)
		f.run(abi.ReasonResync)
		f.expectSignals()
	})
}

func TestTheOldestOfTooManySignalsAreLost(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.reconcile = returnsCode(abi.CodeRetry)
		n := 0
		for range maxSignals/abi.MaxSignals + 1 {
			var all []string
			for range abi.MaxSignals {
				n++
				all = append(all, fmt.Sprint(n))
			}
			f.signals(all...)
			f.readChanges(gadget)
			f.turn()
		}
		f.run(abi.ReasonSignal)
		if all := f.request.Signals; len(all) != maxSignals || string(all[len(all)-1]) != fmt.Sprint(n) {
			t.Errorf("%d signals, the last is %s; want %d, and %d", len(all), all[len(all)-1], maxSignals, n)
		}
	})
}

func TestSignalsTakeABoundedAmountOfMemory(t *testing.T) {
	withErrands(t, func(f *errands) {
		var large []string
		for range abi.MaxSignals {
			large = append(large, fmt.Sprintf("%q", strings.Repeat("x", abi.MaxSignal-2)))
		}
		f.signals(large...)
		f.reconcile = returnsCode(abi.CodeRetry)
		for n := range maxSignalBytes/(abi.MaxSignals*abi.MaxSignal) + 10 {
			name := fmt.Sprint("w", n)
			f.put(strings.NewReplacer(`"name":"w"`, `"name":"`+name+`"`, "u1", "u"+name).Replace(aWidget))
			f.runNamed(name)
			f.runKey(object.Key{Namespace: "ns", Name: "errand/" + name}, abi.ReasonTimer)
		}
		if f.c.signalBytes > maxSignalBytes || f.c.signalBytes < maxSignalBytes/2 {
			t.Errorf("%d bytes of signals are kept", f.c.signalBytes)
		}
		f.reconcile = succeed
		for key := range f.store[widget] {
			if key != testKey {
				f.runKey(key, abi.ReasonRetry)
			}
		}
		if f.c.signalBytes != 0 {
			t.Errorf("%d bytes are left", f.c.signalBytes)
		}
	})
}

// returnedError is the answer of a call that has failed.
func returnedError(code abi.Code, output string) func(context.Context, sandbox.Call) (sandbox.Return, error) {
	return func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Code: code, Output: []byte(output)}, nil
	}
}

func TestTheObjectShowsThatItsTurnHasFailed(t *testing.T) {
	fault := func(class abi.Class) func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{}, &sandbox.Fault{Class: class, Message: "boom", Stack: []string{"main.errand"}}
		}
	}
	for name, test := range map[string]struct {
		answer func(context.Context, sandbox.Call) (sandbox.Return, error)
		class  abi.Class
		reason string
	}{
		"panic":         {fault(abi.ClassPanic), abi.ClassPanic, "Panic"},
		"never returns": {fault(abi.ClassTimeout), abi.ClassTimeout, "Timeout"},
		"error":         {returnedError(abi.CodeRetry, `{"error":{"reason":"NoSuchSite","message":"boom"}}`), abi.ClassRetry, "NoSuchSite"},
		"not JSON":      {returnedError(abi.CodeOK, `{`), abi.ClassABI, "InvalidResult"},
		"too large":     {returnedError(abi.CodeOK, `large`), abi.ClassABI, "TooLarge"},
	} {
		t.Run(name, func(t *testing.T) {
			withErrands(t, func(f *errands) {
				f.start()
				f.answer = test.answer
				f.readChanges(gadget)
				f.log = nil
				f.turn()
				f.expect("abandon reads", "cache forgets ns/errand/w", "add ns/w signal")
				if e := f.ended[len(f.ended)-1]; e.Uncounted || e.Failure.Class != test.class {
					t.Errorf("ended %+v", e)
				}
				f.run(abi.ReasonSignal)
				if !slices.ContainsFunc(f.log, func(l string) bool {
					return strings.Contains(l, "Ready=False/"+test.reason) && strings.Contains(l, "Reconciling=True")
				}) {
					t.Errorf("the object does not show the failure: %q", f.log)
				}
				if next := f.done[len(f.done)-1]; next.Kind != outcome.Backoff {
					t.Errorf("the key waits for %+v, want a backoff", next)
				}
				f.run(abi.ReasonRetry)
				if p := f.request.Previous; p == nil || len(p.Failures) != 1 || p.Failures[0].Verb != "errand" || p.Failures[0].Class != test.class || p.Failures[0].Ref != widget.Ref("ns", "w") {
					t.Errorf("the request has %+v", p)
				}
				f.signals()
				f.readChanges(gadget)
				f.log = nil
				f.turn()
				f.expect("commit reads", "add ns/w signal")
				f.run(abi.ReasonSignal)
				if !strings.Contains(strings.Join(f.log, "\n"), "Ready=True") {
					t.Errorf("the object does not show the success: %q", f.log)
				}
			})
		})
	}
}

// The same failure again is no news.
func TestTheObjectIsDueForAnotherFailureAlone(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		for message, want := range map[string]string{"a": "", "b": ""} {
			f.answer = returnedError(abi.CodeRetry, `{"error":{"reason":"No","message":"`+message+`"}}`)
			for again := range 2 {
				f.readChanges(gadget)
				f.log = nil
				f.turn()
				if due := slices.Contains(f.log, "add ns/w signal"); due != (again == 0) {
					t.Errorf("message %q, the time %d: %q%s", message, again, f.log, want)
				}
			}
		}
	})
}

// A run that fails shows its own failure, and an object that is gone none.
func TestAFailureOfTheRunComesBeforeThatOfTheTurn(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.answer = returnedError(abi.CodeStalled, `{"error":{"reason":"OfTurn","message":"m"}}`)
		f.readChanges(gadget)
		f.turn()
		f.reconcile = returnsCode(abi.CodeWaiting)
		f.log = nil
		f.run(abi.ReasonSignal)
		if strings.Contains(strings.Join(f.log, "\n"), "OfTurn") {
			t.Errorf("log %q", f.log)
		}
	})
}

// What the host could not do is no failure of the turn, which goes on with what has woken it.
func TestACallThatTheHostCouldNotMakeIsMadeAgain(t *testing.T) {
	for name, fails := range map[string]func(*errands) func(context.Context, sandbox.Call) (sandbox.Return, error){
		"no instance": func(*errands) func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return func(context.Context, sandbox.Call) (sandbox.Return, error) {
				return sandbox.Return{}, fmt.Errorf("wait for an instance: %w", context.DeadlineExceeded)
			}
		},
		"closed revision": func(*errands) func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return func(context.Context, sandbox.Call) (sandbox.Return, error) {
				return sandbox.Return{}, sandbox.ErrClosed
			}
		},
		"read of what has not synced": func(f *errands) func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
				call.Host.List(ctx, listOfGadgets)
				return sandbox.Return{}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withErrands(t, func(f *errands) {
				f.start()
				f.answer = fails(f)
				f.readChanges(gadget)
				f.readChanges(shadow)
				f.log = nil
				expectNext(t, f.turn(), turnRetry)
				f.expect("abandon reads")
				f.signals()
				f.turn()
				f.expectCalls("reads index", "reads index")
				if len(f.ended) != 3 || !f.ended[1].Uncounted || f.ended[2].Uncounted {
					t.Errorf("ended %+v", f.ended)
				}
			})
		})
	}
}

func TestATurnIsStoppedBeforeTheCleanup(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.signals(`"bye"`)
		f.put(deletedWidget)
		f.run(abi.ReasonPrimary)
		f.expectCalls("last")
		f.expectSignals(`"bye"`)
		f.expect("cache forgets ns/errand/w", "queue forgets ns/errand/w", "remove finalizer", "commit reads", "metric success ")
		if f.running != 0 || len(f.c.objectTurns) != 0 || !slices.Equal(f.last, []bool{false}) {
			t.Errorf("%d run, the last calls have failed: %v", f.running, f.last)
		}
	})
}

func TestATurnWhoseLastCallFailsIsStoppedAllTheSame(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.answer = func(ctx context.Context, _ sandbox.Call) (sandbox.Return, error) {
			<-ctx.Done()
			return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassTimeout, Message: "the deadline of the call passed"}
		}
		f.put(deletedWidget)
		began := time.Now()
		f.run(abi.ReasonPrimary)
		if took := time.Since(began); took != errandGrace {
			t.Errorf("it took %v", took)
		}
		if !slices.Contains(f.log, "remove finalizer") || f.running != 0 || !slices.Equal(f.last, []bool{true}) {
			t.Errorf("%q, %d run, the last calls have failed: %v", f.log, f.running, f.last)
		}
	})
}

func TestATurnIsStoppedWhenItsObjectIsToHaveNone(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.wanted = func(o *object.Object) bool { return o.Labels["watch"] == "yes" }
		f.run(abi.ReasonPrimary)
		if f.expectCalls(); len(f.c.objectTurns) != 0 {
			t.Error("there is a turn")
		}
		for range 2 {
			f.change(`{"metadata":{"labels":{"watch":"yes"}}}`)
			f.run(abi.ReasonPrimary)
			f.turn()
			f.expectCalls("first")
			f.change(`{"metadata":{"labels":{"watch":"no"}}}`)
			f.run(abi.ReasonPrimary)
			f.expectCalls("last")
		}
	})
}

func TestTheTurnOfAnObjectThatIsGoneIsStopped(t *testing.T) {
	for name, after := range map[string]string{"gone": "", "created again": strings.Replace(aWidget, "u1", "u2", 1)} {
		t.Run(name, func(t *testing.T) {
			withErrands(t, func(f *errands) {
				f.start()
				delete(f.store[widget], testKey)
				want := []string{"last"}
				if after != "" {
					f.put(after)
					want = append(want, "first")
				}
				f.turn() // before the object
				f.run(abi.ReasonPrimary)
				var o struct {
					APIVersion, Kind string
					Metadata         struct{ Namespace, Name string }
				}
				if err := json.Unmarshal(f.given, &o); err != nil || o.Metadata.Name != "w" || o.Metadata.Namespace != "ns" || o.Kind != "Widget" || o.APIVersion != widget.APIVersion {
					t.Errorf("the object is %s: %v", f.given, err)
				}
				f.turn()
				f.expectCalls(want...)
				if f.running != len(want)-1 {
					t.Errorf("%d run", f.running)
				}
			})
		})
	}
}

func TestTheRunForAnObjectThatIsGoneHasTheLastSignals(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.c.Revision().Controller.Gone = true
		f.start()
		f.signals(`"bye"`)
		o := f.store[widget][testKey]
		delete(f.store[widget], testKey)
		f.c.Observe(o, nil, false)
		f.run(abi.ReasonPrimary)
		f.expectCalls("last")
		if !f.request.Gone {
			t.Error("the run is not for an object that is gone")
		}
		f.expectSignals(`"bye"`)
	})
}

func TestATurnIsStoppedWhenSomebodyRemovesTheFinalizer(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.put(strings.Replace(deletedWidget, `"finalizers":["f"]`, `"finalizers":["other"]`, 1))
		f.c.revision.Load().Controller.Finalizer = false // with which the object has no cleanup to come
		f.run(abi.ReasonPrimary)
		f.expectCalls("last")
	})
}

func TestASwapStopsTheTurnsAndBeginsThemAnew(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.swap(func(r *Revision) { r.Digest = "next" })
		f.expectCalls("last")
		f.run(abi.ReasonPlugin)
		f.turn()
		f.expectCalls("first")
		f.swap(func(*Revision) { f.wanted = func(*object.Object) bool { return false } })
		f.expectCalls("last")
		f.run(abi.ReasonPlugin)
		if f.running != 0 || len(f.c.objectTurns) != 0 {
			t.Errorf("%d run", f.running)
		}
	})
}

// A run of the next revision may be faster than the swap that stops the turns.
func TestARunStopsTheTurnOfTheRevisionBefore(t *testing.T) {
	for name, account := range map[string]string{"the same account": "", "another one": "ns/other"} {
		t.Run(name, func(t *testing.T) {
			withErrands(t, func(f *errands) {
				f.start()
				before := f.c.objectTurn(errandKey)
				next := *f.c.Revision()
				next.Account = account
				f.c.revision.Store(&next) // as a swap does first
				f.signals(`1`)
				f.turn() // of the revision before
				f.expectCalls()
				f.run(abi.ReasonPlugin)
				f.expectCalls("last")
				if account == "" {
					f.expectSignals(`1`)
				} else { // signals may tell what the account has read
					f.expectSignals()
				}
				f.turn()
				f.expectCalls("first")
				f.log = nil
				f.c.stopTurn(f.t.Context(), before) // by the swap, of what the next turn waits for nothing is dropped
				f.expect()
			})
		})
	}
}

func TestAllTurnsAreStoppedWithinOneGraceTime(t *testing.T) {
	withErrands(t, func(f *errands) {
		for n := range 20 {
			name := fmt.Sprint("w", n)
			f.put(strings.NewReplacer(`"name":"w"`, `"name":"`+name+`"`, "u1", "u"+name).Replace(aWidget))
			f.runNamed(name)
			f.runKey(object.Key{Namespace: "ns", Name: "errand/" + name}, abi.ReasonTimer)
		}
		f.answer = func(ctx context.Context, _ sandbox.Call) (sandbox.Return, error) {
			<-ctx.Done()
			return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassTimeout, Message: "the deadline of the call passed"}
		}
		began := time.Now()
		f.swap(func(r *Revision) { r.Digest = "next" })
		if took := time.Since(began); took != errandGrace || f.running != 0 {
			t.Errorf("it took %v, and %d run", took, f.running)
		}
	})
}

func TestTurnsAreStoppedWhenTheControllerIs(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		ctx, cancel := context.WithCancel(f.t.Context())
		cancel()
		f.c.Run(ctx)
		f.expectCalls("last")
	})
}

func TestTurnsOfObjectsBeginAnewInANewTerm(t *testing.T) {
	withErrands(t, func(f *errands) {
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		l.lead()
		f.start()
		l.lose()
		l.lead()
		f.run(abi.ReasonResync)
		f.turn()
		f.expectCalls("first")
		if f.running != 1 {
			t.Errorf("%d run", f.running)
		}
	})
}

func TestThereIsNoLastCallWithoutLeadership(t *testing.T) {
	withErrands(t, func(f *errands) {
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		l.lead()
		f.start()
		l.lose()
		f.swap(func(r *Revision) { r.Digest = "next" })
		f.expectCalls()
		if f.running != 0 {
			t.Errorf("%d run", f.running)
		}
	})
}

func TestACallMayFailWhileTheTurnIsStopped(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.answer = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			time.Sleep(time.Second) // fake time
			return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
		}
		f.readChanges(gadget)
		turn, stopped := f.c.objectTurn(errandKey), make(chan struct{})
		go func() {
			defer close(stopped)
			time.Sleep(time.Millisecond) // fake time
			f.c.stopTurn(context.Background(), turn)
		}()
		f.turn()
		<-stopped
		if f.calls[0] != "reads" || f.running != 0 {
			t.Errorf("calls %q, %d run", f.calls, f.running)
		}
	})
}

// A call that does not end in the time of the last one has no effect any more.
func TestACallThatOutlivesItsTurnHasNoEffect(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.answer = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			f.c.mu.Lock()
			f.c.dropObjectTurns()
			f.c.mu.Unlock()
			return sandbox.Return{Output: []byte(`{"signals":[1]}`)}, nil
		}
		f.readChanges(gadget)
		f.log = nil
		if next := f.turn(); next != (outcome.Next{}) || len(f.ended) != 1 {
			t.Errorf("the turn waits for %+v, ended %+v", next, f.ended)
		}
		f.expect("cache forgets ns/errand/w", "commit reads", "cache forgets ns/errand/w")
		if f.c.signalBytes != 0 {
			t.Error("its signals are kept")
		}
	})
}

func TestTheTurnOfASuspendedObjectRests(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.change(`{"metadata":{"annotations":{"` + Suspend + `":"true"}}}`)
		f.readChanges(gadget)
		f.run(abi.ReasonPrimary)
		if next := f.turn(); next != (outcome.Next{}) {
			t.Errorf("the turn waits for %+v", next)
		}
		f.expectCalls()
		f.change(`{"metadata":{"annotations":null}}`)
		f.log = nil
		f.run(abi.ReasonPrimary)
		f.expectLog("add ns/errand/w timer")
		f.turn()
		f.expectCalls("reads")
	})
}

func TestATurnWhoseAccountMayNotReadTheObjectMakesNoCall(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		access := newAccess()
		f.c.objectTurn(errandKey).revision.Access = access
		f.readChanges(gadget)
		if next := f.turn(); next != (outcome.Next{}) {
			t.Errorf("the turn waits for %+v", next)
		}
		access.set()
		access.err = errors.New("no answer")
		if next := f.turn(); next.After != turnRetry {
			t.Errorf("the turn waits for %+v", next)
		}
		f.expectCalls()
	})
}

// Who signals a change of the world again and again is no write loop, who signals what the runs of the object have
// changed is one.
func TestATurnThatSignalsWhatItsObjectHasChangedIsAWriteLoop(t *testing.T) {
	for name, own := range map[string]bool{"changes of others": false, "own changes": true} {
		t.Run(name, func(t *testing.T) {
			withErrands(t, func(f *errands) {
				n := 0
				f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
					n++
					return returns(&abi.Result{Apply: []abi.Apply{{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"n":%d}}`, n)}}})
				}
				f.start()
				f.signals(`1`)
				for range 30 {
					changed := *f.wrote[len(f.wrote)-1].Object
					if !own {
						changed.ResourceVersion += "0"
					}
					f.c.ObserveRead(errandKey, nil, &changed, false)
					f.turn()
					f.run(abi.ReasonSignal)
				}
				if looped := f.loops > 0; looped != own {
					t.Errorf("%d runs in a write loop", f.loops)
				}
			})
		})
	}
}

func TestRunsByTheTimeOfATurnAreNoWriteLoop(t *testing.T) {
	withErrands(t, func(f *errands) {
		n := 0
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			n++
			return returns(&abi.Result{Status: fmt.Appendf(nil, `{"n":%d}`, n)})
		}
		f.start()
		f.next = TurnNext{After: time.Second}
		f.signals(`1`)
		f.readChanges(gadget)
		f.turn()
		for range 30 {
			pass(time.Second)
			f.turn()
			f.run(abi.ReasonSignal)
		}
		if f.loops > 0 || n != 31 {
			t.Errorf("%d of %d runs in a write loop", f.loops, n)
		}
	})
}

// A change that a run of the object has made counts as its own when the run has ended.
func TestAChangeDuringARunWakesTheTurnWhenThatHasEnded(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			f.log = nil
			f.readChanges(gadget)
			f.expect()
			return returns(&abi.Result{})
		}
		f.run(abi.ReasonOwned)
		f.expectLog("add ns/errand/w read")
	})
}

func TestSignalsAreDroppedForAnotherAccount(t *testing.T) {
	for name, account := range map[string]string{"same": "", "another": "ns/other"} {
		t.Run(name, func(t *testing.T) {
			withErrands(t, func(f *errands) {
				f.signals(`1`)
				f.reconcile = returnsCode(abi.CodeRetry)
				f.run(abi.ReasonPrimary)
				f.turn()
				f.signals()
				f.swap(func(r *Revision) { r.Account = account })
				f.run(abi.ReasonPlugin)
				if account == "" {
					f.expectSignals(`1`)
				} else {
					f.expectSignals()
				}
				if bytes := f.c.signalBytes; bytes != len(f.request.Signals) {
					t.Errorf("%d bytes are counted", bytes)
				}
			})
		})
	}
}

func TestATurnGoesOnWhileTheRunsOfItsObjectFail(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.reconcile = panics
		f.start()
		if next := f.done[0]; next.Kind != outcome.Backoff {
			t.Errorf("the object waits for %+v", next)
		}
		f.readChanges(gadget)
		f.turn()
		f.expectCalls("reads")
		f.run(abi.ReasonRetry)
		f.turn()
		f.expectCalls()
		if f.running != 1 {
			t.Errorf("%d run", f.running)
		}
	})
}

func TestATurnHasTheStandingOfItsObject(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		if got := f.c.standingOf(errandKey); got != ranWell {
			t.Errorf("the standing is %v", got)
		}
		f.reconcile = panics
		f.run(abi.ReasonOwned)
		if got := f.c.standingOf(errandKey); got != failed {
			t.Errorf("the standing is %v", got)
		}
	})
}

// An owner reference may have any name, and a cluster-scoped object has the keys that such names are.
func TestAnOwnerReferenceMakesNoTurnDue(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"c","uid":"u3","generation":1,"resourceVersion":"1","finalizers":["f"]}}`)
		f.runKey(object.Key{Name: "c"}, abi.ReasonPrimary)
		turn := object.Key{Name: "errand/c"}
		f.runKey(turn, abi.ReasonTimer)
		f.expectCalls("first")
		f.log = nil
		f.c.ObserveOwned(nil, f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g",
			"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Widget","name":"errand/c","uid":"u","controller":true}]}}`))
		f.expect()
		f.runKey(turn, abi.ReasonTimer)
		f.expectCalls()
	})
}
