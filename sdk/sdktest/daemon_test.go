package sdktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/sdk"
)

// stepping is a script with a daemon, whose steps the test has set.
type stepping struct {
	*script
	step func(q *contract.Request, host Host) (abi.Code, *contract.Result)
	err  error
	last *contract.Request
	keys []string // that the index pods gives to each object
}

func (s *stepping) Daemon(request []byte, host Host) (abi.Code, []byte, error) {
	q, err := contract.DecodeRequest(request)
	if err != nil || s.err != nil {
		return 0, nil, errors.Join(err, s.err)
	}
	s.last = q
	code, result := s.step(q, host)
	return code, contract.EncodeResult(result), nil
}

func (s *stepping) Index([]byte) (abi.Code, []byte, error) {
	var result functionindexes.Result
	for _, key := range s.keys {
		result.Entries = append(result.Entries, functionindexes.Entry{Key: key})
	}
	return abi.CodeOK, functionindexes.EncodeResult(&result), nil
}

// returns sets the result of all steps.
func (s *stepping) returns(result *contract.Result) {
	s.step = func(*contract.Request, Host) (abi.Code, *contract.Result) { return abi.CodeOK, result }
}

// fails makes all steps fail.
func (s *stepping) fails(code abi.Code, reason string) {
	s.step = func(*contract.Request, Host) (abi.Code, *contract.Result) {
		return code, &contract.Result{Error: &abi.Failure{Reason: reason, Message: "no luck"}}
	}
}

// has sets the daemon of the controller.
func (s *stepping) has(d *contract.Daemon) {
	s.controller.Sections = []abi.Section{{Name: contract.Name, Value: contract.Encode(d)}}
}

// daemonWorld returns a world with one object, for a controller with a daemon of what has no label
// off. The object has the finalizer.
func daemonWorld(tb testing.TB) (*World, *stepping) {
	tb.Helper()
	s := &stepping{script: newScript()}
	s.has(&contract.Daemon{LabelSelector: "!off"})
	s.controller.Sections = append(s.controller.Sections, keysOf("pods"))
	s.returns(&contract.Result{})
	w := NewWith(tb, s)
	w.createOne()
	w.Step("ns/one").ExpectNoStep()
	w.Reconcile("ns/one").ExpectWrites("finalizer", "status")
	return w, s
}

func TestADaemonBeginsWhenItsObjectHasTheFinalizer(t *testing.T) {
	w, s := daemonWorld(t)
	s.returns(&contract.Result{State: []byte(`{"a":1}`)})
	w.Step("ns/one").ExpectEvents(sdk.DaemonStart).ExpectSuccess().ExpectSignals()
	if s.last.State != nil || s.last.Controller != "ctl" || !s.last.Now.Equal(w.Now()) || s.last.Seed == [32]byte{} {
		t.Errorf("the request is %+v", s.last)
	}
	w.Step("ns/one").ExpectNoStep()
	w.Change(theOne, `{"spec":{"a":2}}`)
	w.Advance(time.Hour)
	w.Step("ns/one").ExpectNoStep() // it waits for nothing
}

func TestADaemonIsWokenByWhatItWaitsFor(t *testing.T) {
	w, s := daemonWorld(t)
	s.keys = []string{"one"}
	w.Create(`{"apiVersion":"v1","kind":"Child","metadata":{"namespace":"ns","name":"c"}}`)
	all := contract.Wait{After: 60_000, Object: true, Reads: true}
	s.step = func(_ *contract.Request, host Host) (abi.Code, *contract.Result) {
		host.Get(abi.EncodeGetCall(&abi.GetCall{Ref: child.Ref("ns", "c")}))
		host.IndexGet(functionindexes.EncodeCall(&functionindexes.Call{Index: "pods", Key: "one"}))
		return abi.CodeOK, &contract.Result{Wait: all, State: []byte(`1`)}
	}
	if next := w.Step("ns/one").ExpectSuccess().Next; next != time.Minute {
		t.Errorf("the next step is due after %s", next)
	}
	expect := func(events ...sdk.DaemonEvent) {
		t.Helper()
		w.Step("ns/one").ExpectEvents(events...).ExpectSuccess()
		w.Step("ns/one").ExpectNoStep()
	}
	for name, c := range map[string]struct {
		change string
		events []sdk.DaemonEvent
	}{
		"spec":       {`{"spec":{"a":7}}`, []sdk.DaemonEvent{sdk.DaemonObject}},
		"label":      {`{"metadata":{"labels":{"a":"b"}}}`, []sdk.DaemonEvent{sdk.DaemonObject}},
		"annotation": {`{"metadata":{"annotations":{"a":"b"}}}`, []sdk.DaemonEvent{sdk.DaemonObject}},
	} {
		t.Run(name, func(*testing.T) {
			w.Change(theOne, c.change)
			expect(c.events...)
		})
	}
	w.Change(theOne, `{"status":{"x":1},"metadata":{"annotations":{"ctl.plug.thole.dev/handled":"x"}}}`)
	w.Step("ns/one").ExpectNoStep()

	w.Advance(time.Minute)
	expect(sdk.DaemonTime)
	w.Change(child.Ref("ns", "c"), `{"data":1}`)
	expect(sdk.DaemonRead)
	w.Create(`{"apiVersion":"v1","kind":"Child","metadata":{"namespace":"ns","name":"d"}}`)
	expect(sdk.DaemonIndex)
	w.FailReads(child, abi.CodeUnavailable)
	w.Step("ns/one").ExpectNoStep()
	w.FailReads(child, 0)

	w.Change(theOne, `{"spec":{"a":8}}`)
	w.Delete(child.Ref("ns", "c"))
	w.Advance(time.Hour)
	expect(sdk.DaemonObject, sdk.DaemonRead, sdk.DaemonIndex, sdk.DaemonTime)
	if string(s.last.State) != "1" {
		t.Errorf("the state is %s", s.last.State)
	}
}

// The pages of a list have the same names when they are read again.
func TestADaemonIsNotWokenByPagesThatHaveNotChanged(t *testing.T) {
	w, s := daemonWorld(t)
	for i := range 5 {
		w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Child","metadata":{"namespace":"ns","name":"c%d"}}`, i))
	}
	s.step = func(_ *contract.Request, host Host) (abi.Code, *contract.Result) {
		call := &abi.ListCall{APIVersion: "v1", Kind: "Child", Limit: 2}
		for {
			text, _ := host.List(abi.EncodeListCall(call))
			reply, err := abi.DecodeListReply(text)
			if err != nil {
				t.Fatal(err)
			}
			if call.Continue = reply.Continue; call.Continue == "" {
				return abi.CodeOK, &contract.Result{Wait: contract.Wait{Reads: true}}
			}
		}
	}
	w.Step("ns/one").ExpectSuccess()
	w.Step("ns/one").ExpectNoStep()
	w.Change(child.Ref("ns", "c4"), `{"data":1}`)
	w.Step("ns/one").ExpectEvents(sdk.DaemonRead)
}

func TestADaemonIsStoppedWithItsObject(t *testing.T) {
	denied := func(_ *contract.Request, host Host) (abi.Code, *contract.Result) {
		host.Log(abi.LogInfo, []byte(`{"message":"ends"}`))
		if _, code := host.Get(abi.EncodeGetCall(&abi.GetCall{Ref: child.Ref("ns", "c")})); code != abi.CodeDenied {
			t.Errorf("a read in the last step returns %d", code)
		}
		return abi.CodeOK, &contract.Result{Signals: [][]byte{[]byte(`"bye"`)}}
	}
	for name, c := range map[string]struct {
		leave func(*World)
		given string // part of the object of the last step
	}{
		"deleted":        {func(w *World) { w.Delete(theOne) }, `"spec":{"a":1}`},
		"other selector": {func(w *World) { w.Change(theOne, `{"metadata":{"labels":{"off":"1"}}}`) }, `"spec":{"a":1}`},
		"gone": {
			func(w *World) { w.Change(theOne, `{"metadata":{"finalizers":null}}`); w.Delete(theOne) },
			`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"one","namespace":"ns"}}`,
		},
		"another of its name": {
			func(w *World) {
				w.Change(theOne, `{"metadata":{"finalizers":null}}`)
				w.Delete(theOne)
				w.createOne()
			},
			`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"one","namespace":"ns"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := daemonWorld(t)
			w.Step("ns/one").ExpectSuccess()
			c.leave(w)
			s.step = denied
			w.Step("ns/one").ExpectEvents(sdk.DaemonStop).ExpectSuccess().ExpectSignals(`"bye"`).ExpectLog("ends")
			if !strings.Contains(string(s.last.Object), c.given) {
				t.Errorf("the last step is given %s", s.last.Object)
			}
			w.Step("ns/one").ExpectNoStep()
		})
	}
}

func TestARunOfADeletionStopsTheDaemonFirst(t *testing.T) {
	w, s := daemonWorld(t)
	w.Step("ns/one").ExpectSuccess()
	w.Delete(theOne)
	s.returns(&contract.Result{Signals: [][]byte{[]byte(`1`)}})
	r := w.Reconcile("ns/one").ExpectWrites("release")
	if r.LastStep == nil || len(s.request.Signals) != 1 {
		t.Fatalf("the last step is %v, and the signals of the request are %q", r.LastStep, s.request.Signals)
	}
	r.LastStep.ExpectEvents(sdk.DaemonStop).ExpectSignals("1")
	w.Step("ns/one").ExpectNoStep()
}

func TestADaemonThatHasEndedMakesNoStep(t *testing.T) {
	w, s := daemonWorld(t)
	s.returns(&contract.Result{End: true, Signals: [][]byte{[]byte(`1`)}, Wait: contract.Wait{After: 1, Object: true}})
	w.Step("ns/one").ExpectEvents(sdk.DaemonStart).ExpectSignals("1")
	w.Change(theOne, `{"spec":{"a":2}}`)
	w.Advance(time.Hour)
	w.Step("ns/one").ExpectNoStep()
	w.Delete(theOne)
	w.Step("ns/one").ExpectNoStep()
	if r := w.Reconcile("ns/one"); r.LastStep != nil {
		t.Errorf("the last step is %+v", r.LastStep)
	}
}

func TestAFailedDaemonFailsTheRunAndIsStartedAgain(t *testing.T) {
	w, s := daemonWorld(t)
	s.returns(&contract.Result{State: []byte(`1`), Wait: contract.Wait{Object: true}})
	w.Step("ns/one").ExpectSuccess()
	w.Change(theOne, `{"spec":{"a":2}}`)
	s.fails(abi.CodeStalled, "Wrong")
	w.Step("ns/one").ExpectEvents(sdk.DaemonObject).ExpectFailure(abi.ClassStalled, "Wrong").ExpectSignals()
	w.Reconcile("ns/one").ExpectStalled("Wrong")
	w.Reconcile("ns/one").ExpectStalled("Wrong")
	if f := s.request.Previous.Failures; len(f) != 1 || f[0].Verb != contract.Verb || f[0].Message != "no luck" {
		t.Errorf("the failures are %+v", f)
	}
	s.returns(&contract.Result{})
	w.Step("ns/one").ExpectEvents(sdk.DaemonStart).ExpectSuccess()
	if s.last.State != nil {
		t.Errorf("it begins with state %s", s.last.State)
	}
	w.Reconcile("ns/one").ExpectReady()
}

func TestWaysInWhichAStepFails(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*stepping)
		class  abi.Class
		reason string
	}{
		"retry":   {func(s *stepping) { s.fails(abi.CodeRetry, "Odd") }, abi.ClassRetry, "Odd"},
		"waiting": {func(s *stepping) { s.fails(abi.CodeWaiting, "Soon") }, abi.ClassWaiting, "Soon"},
		"trap":    {func(s *stepping) { s.err = errors.New("unreachable") }, abi.ClassPanic, ""},
		"too many signals": {
			func(s *stepping) {
				s.returns(&contract.Result{Signals: slices.Repeat([][]byte{[]byte(`1`)}, abi.MaxSignals+1)})
			},
			abi.ClassABI, "InvalidResult",
		},
		"large state": {
			func(s *stepping) {
				s.returns(&contract.Result{State: []byte(`"` + strings.Repeat("x", contract.MaxState) + `"`)})
			},
			abi.ClassABI, "InvalidResult",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := daemonWorld(t)
			c.set(s)
			w.Step("ns/one").ExpectFailure(c.class, c.reason)
			w.Reconcile("ns/one").ExpectClass(c.class)
		})
	}
}

// A read that is not available is no failure of the daemon: the step is made again.
func TestAStepWithAReadThatIsNotAvailableIsMadeAgain(t *testing.T) {
	w, s := daemonWorld(t)
	s.step = func(_ *contract.Request, host Host) (abi.Code, *contract.Result) {
		if _, code := host.Get(abi.EncodeGetCall(&abi.GetCall{Ref: child.Ref("ns", "c")})); code == abi.CodeUnavailable {
			return abi.CodeRetry, &contract.Result{}
		}
		return abi.CodeOK, &contract.Result{}
	}
	w.FailReads(child, abi.CodeUnavailable)
	w.Step("ns/one").ExpectEvents(sdk.DaemonStart).ExpectFailure(abi.ClassRetry, "Unavailable")
	w.Reconcile("ns/one").ExpectReady()
	w.FailReads(child, 0)
	w.Step("ns/one").ExpectEvents(sdk.DaemonStart).ExpectSuccess()
}

func TestSignalsStayUntilARunHasEndedWell(t *testing.T) {
	w, s := daemonWorld(t)
	signal := func(value string) {
		t.Helper()
		s.returns(&contract.Result{Signals: [][]byte{[]byte(value)}, Wait: contract.Wait{After: 1}})
		w.Advance(time.Second)
		w.Step("ns/one").ExpectSuccess().ExpectSignals(value)
	}
	expect := func(want string) {
		t.Helper()
		w.Reconcile("ns/one")
		if got := fmt.Sprintf("%s", s.request.Signals); got != want {
			t.Errorf("the signals are %s, expected %s", got, want)
		}
		if named := slices.Contains(s.request.Reasons, abi.ReasonSignal); named != (want != "[]") {
			t.Errorf("the reasons are %q", s.request.Reasons)
		}
	}
	expect("[]")
	signal("1")
	s.code = abi.CodeRetry
	expect("[1]")
	signal(`{"b":2}`)
	s.code = abi.CodeOK
	expect(`[1 {"b":2}]`)
	expect("[]")

	signal("3")
	w.Restart()
	expect("[]")
	w.Step("ns/one").ExpectEvents(sdk.DaemonStart)

	for i := range maxSignals + 1 {
		signal(fmt.Sprint(i))
	}
	w.Reconcile("ns/one")
	if got := s.request.Signals; len(got) != maxSignals || string(got[len(got)-1]) != fmt.Sprint(maxSignals) {
		t.Errorf("of too many there are %d, and the last one is %s", len(got), got[len(got)-1])
	}
}

// TestUnmetExpectationOfAStepFailsTest calls every expectation such that it must fail.
func TestUnmetExpectationOfAStepFailsTest(t *testing.T) {
	for name, check := range map[string]func(*World, *stepping){
		"events":  func(w *World, _ *stepping) { w.Step("ns/one").ExpectEvents(sdk.DaemonTime) },
		"no step": func(w *World, _ *stepping) { w.Step("ns/one").ExpectNoStep() },
		"failure": func(w *World, _ *stepping) { w.Step("ns/one").ExpectFailure(abi.ClassRetry, "") },
		"reason": func(w *World, s *stepping) {
			s.fails(1, "Odd")
			w.Step("ns/one").ExpectFailure(abi.ClassRetry, "Other")
		},
		"signals": func(w *World, _ *stepping) { w.Step("ns/one").ExpectSignals("2") },
		"log":     func(w *World, _ *stepping) { w.Step("ns/one").ExpectLog("x") },
		"success": func(w *World, _ *stepping) { w.Step("ns/two").ExpectSuccess() },

		"no daemon":    func(w *World, _ *stepping) { w, _ = scripted(w.tb); w.Step("ns/one") },
		"other runner": func(w *World, s *stepping) { w.runner = s.script; w.Step("ns/one") },
		"bad selector": func(w *World, s *stepping) { s.has(&contract.Daemon{LabelSelector: "a b"}); NewWith(w.tb, s) },
	} {
		t.Run(name, func(t *testing.T) {
			tb := &recorder{TB: t}
			defer func() {
				if p := recover(); p != nil && p != any(tb) {
					panic(p)
				}
				if len(tb.failures) != 1 || strings.Contains(tb.failures[0], "%!") {
					t.Errorf("the failures are %q, expected one", tb.failures)
				}
			}()
			w, s := daemonWorld(tb)
			check(w, s)
		})
	}
}
