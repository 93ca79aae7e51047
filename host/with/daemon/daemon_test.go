package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
)

// world is a plugin with one controller whose objects have daemons, in a bubble.
type world struct {
	t       *testing.T
	metrics *telemetry.Metrics
	p       *plugin
	c       *controller
	rev     *dispatch.Revision
	turns   *dispatch.ObjectTurns
	o       *object.Object
	fuel    int64 // that a step uses

	d       dispatch.ObjectTurn
	woken   dispatch.Woken
	request *contract.Request
	call    *dispatch.TurnCall
	next    dispatch.TurnNext
}

const testFuel = 1_000_000 // in a second

func revision(d *contract.Daemon) *dispatch.Revision {
	rev := &dispatch.Revision{Controller: abi.Controller{Name: "c", Finalizer: true}}
	if d != nil {
		rev.Controller.Sections = []abi.Section{{Name: contract.Name, Value: contract.Encode(d)}}
	}
	return rev
}

func withDaemon(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics()
		w := &world{t: t, metrics: m, p: newPlugin("p", newMetrics(m)), rev: revision(&contract.Daemon{})}
		w.prepare(&Policy{Number: 2, Fuel: testFuel, StateKiB: 1})
		w.c = &controller{plugin: w.p}
		part := w.c.part()
		w.turns = part.ObjectTurns
		part.Swapped(nil, w.rev)
		w.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"w","generation":1},"spec":{"x":1}}`)
		w.d = w.turns.New(w.rev)
		test(w)
	})
}

// prepare makes a policy that of the running revision.
func (w *world) prepare(p *Policy) {
	w.t.Helper()
	rev := &runner.Revision{}
	if p != nil {
		rev.Policy.Sections = map[string]config.PolicySection{contract.Name: p}
	}
	use, err := w.p.part().Prepare(w.t.Context(), rev)
	if err != nil {
		w.t.Fatal(err)
	}
	use(runner.Running{})
}

func (w *world) put(text string) {
	w.t.Helper()
	o, err := object.Parse([]byte(text), abi.Kind{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.o = o
}

// change changes the generation of the object.
func (w *world) change() {
	w.put(strings.Replace(string(w.o.Raw), fmt.Sprintf(`"generation":%d`, w.o.Generation), fmt.Sprintf(`"generation":%d`, w.o.Generation+1), 1))
}

// begin asks for a step, and returns why it is made, "" if none is.
func (w *world) begin() string {
	w.t.Helper()
	w.call, w.next = w.d.Begin(&dispatch.BeginningTurn{Object: w.o, Given: w.o.Raw, Now: time.Now(), Seed: [32]byte{1}, Woken: w.woken})
	if w.call == nil {
		return ""
	}
	return w.asked()
}

// asked returns the events and the state of the request.
func (w *world) asked() string {
	w.t.Helper()
	q, err := contract.DecodeRequest(slices.Concat(w.call.Request...))
	if err != nil {
		w.t.Fatal(err)
	}
	w.request, w.woken = q, dispatch.Woken{}
	return fmt.Sprint(q.Events, string(q.State))
}

// end ends a step that has returned a result, with a code.
func (w *world) end(code abi.Code, result *contract.Result) {
	w.t.Helper()
	signals, failure, err := w.d.Decode(contract.EncodeResult(result))
	e := &dispatch.EndedTurn{Fuel: w.fuel, Now: time.Now()}
	if len(signals) != len(result.Signals) {
		w.t.Errorf("the signals are %q", signals)
	}
	switch {
	case err != nil:
		e.Failure = events.Failure{Class: abi.ClassABI, Reason: "Refused", Message: err.Error()}
	case code != abi.CodeOK:
		e.Failure = events.Failure{Class: map[abi.Code]abi.Class{abi.CodeRetry: abi.ClassRetry, abi.CodeStalled: abi.ClassStalled, abi.CodeWaiting: abi.ClassWaiting}[code]}
		if failure != nil {
			e.Failure.Reason, e.Failure.Message = failure.Reason, failure.Message
		}
	}
	w.next = w.d.End(e)
}

// step makes a step, which must be made for that.
func (w *world) step(want string, result contract.Result) {
	w.t.Helper()
	if got := w.begin(); got != want {
		w.t.Fatalf("the step is %q, want %q; next %+v", got, want, w.next)
	}
	w.end(abi.CodeOK, &result)
}

// expectNone checks that no step is made now, and when the next one is without an event.
func (w *world) expectNone(after time.Duration) {
	w.t.Helper()
	if got := w.begin(); got != "" || w.next.After != after {
		w.t.Errorf("the step is %q, and the next one is due after %v, want none and %v", got, w.next.After, after)
	}
}

func (w *world) expectRunning(want int64) {
	w.t.Helper()
	if got := w.p.running.Load(); got != want {
		w.t.Errorf("%d daemons run, want %d", got, want)
	}
}

func pass(d time.Duration) { time.Sleep(d) } // fake time

func TestADaemonIsWokenByWhatItWaitsForAlone(t *testing.T) {
	spec := func(w *world) { w.change() }
	label := func(w *world) { w.put(strings.Replace(string(w.o.Raw), `"name"`, `"labels":{"a":"b"},"name"`, 1)) }
	status := func(w *world) { w.put(strings.TrimSuffix(string(w.o.Raw), "}") + `,"status":{"a":"b"}}`) }
	read := func(w *world) { w.woken.Reads = true }
	ofIndex := func(w *world) { w.woken.Index = true }
	for name, test := range map[string]struct {
		wait    contract.Wait
		change  func(*world)
		want    string // events
		byReads bool
	}{
		"object by its spec":       {contract.Wait{Object: true}, spec, "[object]", false},
		"object by its labels":     {contract.Wait{Object: true}, label, "[object]", false},
		"object but by its status": {contract.Wait{Object: true}, status, "", false},
		"not object":               {contract.Wait{Reads: true}, spec, "", false},
		"reads":                    {contract.Wait{Reads: true}, read, "[read]", true},
		"reads of an index":        {contract.Wait{Reads: true}, ofIndex, "[index]", true},
		"not reads":                {contract.Wait{Object: true, After: 60_000}, ofIndex, "", false},
		"time":                     {contract.Wait{After: 2_000}, func(*world) { pass(2 * time.Second) }, "[time]", false},
		"less than 100 ms":         {contract.Wait{After: 1}, func(*world) { pass(99 * time.Millisecond) }, "", false},
		"100 ms":                   {contract.Wait{After: 1}, func(*world) { pass(100 * time.Millisecond) }, "[time]", false},
		"not time":                 {contract.Wait{Object: true}, func(*world) { pass(time.Hour) }, "", false},
		"nothing":                  {contract.Wait{}, func(w *world) { spec(w); read(w); pass(time.Hour) }, "", false},
		"all":                      {contract.Wait{After: 1, Object: true, Reads: true}, func(w *world) { spec(w); read(w); ofIndex(w); pass(time.Second) }, "[object read index time]", false},
		"time and reads":           {contract.Wait{After: 1, Reads: true}, func(w *world) { read(w); pass(time.Second) }, "[read time]", false},
	} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(w *world) {
				w.step("[start]", contract.Result{Wait: test.wait})
				test.change(w)
				if got := w.begin(); got != test.want {
					t.Fatalf("the step is %q, want %q", got, test.want)
				}
				if w.call != nil {
					if w.call.ByReads != test.byReads {
						t.Errorf("by reads: %v", w.call.ByReads)
					}
					w.end(abi.CodeOK, &contract.Result{Wait: contract.Wait{Object: true}})
					w.expectNone(0)
				}
			})
		})
	}
}

// Some kinds have no generation.
func TestADaemonIsWokenByASpecWithoutGeneration(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.put(`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"w"},"spec":{"x":1}}`)
		w.step("[start]", contract.Result{Wait: contract.Wait{Object: true}})
		w.put(`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"w"},"spec":{"x":1},"status":{"a":"b"}}`)
		w.expectNone(0)
		w.put(`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"w"},"spec":{"x":2}}`)
		w.step("[object]", contract.Result{})
	})
}

func TestTheStateOfADaemonIsThatOfItsLastStep(t *testing.T) {
	withDaemon(t, func(w *world) {
		state := func(n int) contract.Result {
			return contract.Result{State: fmt.Appendf(nil, `{"n":%d}`, n), Wait: contract.Wait{After: 1_000}}
		}
		w.step("[start]", state(1))
		for n := range 3 {
			pass(time.Second)
			w.step(fmt.Sprintf(`[time]{"n":%d}`, n+1), state(n+2))
		}
	})
}

func TestTheRequestOfAStep(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.rev = revision(&contract.Daemon{Timeout: 3000, Grace: 4000})
		w.rev.Config = []byte(`{"a":1}`)
		w.d = w.turns.New(w.rev)
		w.begin()
		q := w.request
		if q.Controller != "c" || string(q.Object) != string(w.o.Raw) || string(q.Config) != `{"a":1}` || !q.Now.Equal(time.Now()) || q.Seed != [32]byte{1} {
			t.Errorf("request %+v", q)
		}
		if w.call.Deadline != 3*time.Second || w.call.Fuel != testFuel || w.turns.Grace(w.rev) != 4*time.Second || w.turns.Grace(revision(&contract.Daemon{})) != defaultGrace {
			t.Errorf("call %+v", w.call)
		}
		w.end(abi.CodeOK, &contract.Result{State: []byte(`1`)})
		w.call = w.d.Stop(&dispatch.BeginningTurn{Given: []byte(`{}`), Now: time.Now()})
		if got := w.asked(); got != "[stop]1" || w.call.Deadline != 4*time.Second || w.call.Fuel != testFuel {
			t.Errorf("the last step is %q, %+v", got, w.call)
		}
		w.expectRunning(0)
	})
}

func TestADaemonWhoseLabelsDoNotMatchIsNotWanted(t *testing.T) {
	withDaemon(t, func(w *world) {
		for selector, want := range map[string]bool{"": true, "watch=yes": true, "watch in (no)": false, "!watch": false} {
			w.o.Labels = map[string]string{"watch": "yes"}
			if got := w.turns.Wanted(revision(&contract.Daemon{LabelSelector: selector}), w.o); got != want {
				t.Errorf("selector %q: %v", selector, got)
			}
		}
		if w.turns.Wanted(revision(nil), w.o) {
			t.Error("an object of a controller without daemons is to have one")
		}
		rev := revision(&contract.Daemon{LabelSelector: "in in in"})
		if err := Capability().Check(&rev.Controller, rev.Controller.Sections[0].Value); err == nil || !strings.HasPrefix(err.Error(), "labelSelector: ") {
			t.Errorf("a selector that does not parse: %v", err)
		}
		rev.Controller.Finalizer = false
		if err := Capability().Check(&rev.Controller, []byte(`{}`)); err == nil {
			t.Error("a daemon without a finalizer is not refused")
		}
	})
}

// expectFailure checks the failure that the runs of the object have, "" for none.
func (w *world) expectFailure(want string) {
	w.t.Helper()
	got := ""
	if f := w.next.Failure; f != nil {
		got = strings.TrimSpace(fmt.Sprint(f.Class, " ", f.Reason, " ", f.Message))
		if f.Verb != contract.Verb {
			w.t.Errorf("the verb is %q", f.Verb)
		}
	}
	if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
		w.t.Errorf("the failure is %q, want %q", got, want)
	}
}

func TestAFailedDaemonIsToldAndStartedAnew(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.step("[start]", contract.Result{State: []byte(`1`), Wait: contract.Wait{Reads: true}})
		w.woken.Reads = true
		w.begin()
		w.end(abi.CodeRetry, &contract.Result{Error: &abi.Failure{Reason: "NoSuchSite", Message: "boom"}})
		w.expectFailure("retry NoSuchSite boom")
		w.expectRunning(0)
		for n, least := range []time.Duration{400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond} { // less up to a fifth
			after := w.next.After
			if most := least * 5 / 4; after < least || after > most {
				t.Fatalf("after %d failures it is started anew in %v, want between %v and %v", n+1, after, least, most)
			}
			w.woken.Reads = true
			w.expectNone(after)
			w.expectFailure("retry NoSuchSite boom")
			pass(after)
			if got := w.begin(); got != "[start]" {
				t.Fatalf("the step is %q", got)
			}
			w.end(abi.CodeRetry, &contract.Result{Error: &abi.Failure{Reason: "NoSuchSite", Message: "boom"}})
		}
		pass(time.Hour)
		w.step("[start]", contract.Result{Wait: contract.Wait{After: 1000}})
		w.expectFailure("")
		pass(time.Second)
		w.begin()
		w.end(abi.CodeRetry, &contract.Result{})
		if w.next.After > 500*time.Millisecond {
			t.Errorf("after a good step the backoff is %v", w.next.After)
		}
	})
}

func TestADaemonThatNamesATimeIsStartedAnewThen(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.begin()
		w.end(abi.CodeWaiting, &contract.Result{Error: &abi.Failure{Message: "wait", After: 7_000}})
		w.expectFailure("waiting")
		w.expectNone(7 * time.Second)
		pass(7 * time.Second)
		w.begin()
		w.end(abi.CodeRetry, &contract.Result{Error: &abi.Failure{After: 1}})
		w.expectNone(shortestWait)
	})
}

func TestAStalledDaemonIsStartedAnewByAChange(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.begin()
		w.end(abi.CodeStalled, &contract.Result{})
		pass(time.Hour)
		w.expectNone(0)
		w.expectFailure("stalled")
		w.change()
		w.step("[start]", contract.Result{})
		w.expectFailure("")
	})
}

func TestAChangeOfTheObjectEndsTheBackoffOfItsDaemon(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.begin()
		w.end(abi.CodeRetry, &contract.Result{Error: &abi.Failure{After: 3_600_000}})
		w.change()
		w.step("[start]", contract.Result{})
	})
}

func TestMoreDaemonsThanThereMayBeAreTold(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.p.running.Store(2) // of other objects
		if got := w.begin(); got != "" || w.next.After == 0 {
			t.Errorf("the step is %q, next %+v", got, w.next)
		}
		w.expectFailure("denied TooManyDaemons the plugin has 2 daemons, which is its limit: raise daemon.number")
		w.expectRunning(2)
		w.p.running.Store(1)
		pass(w.next.After)
		w.step("[start]", contract.Result{})
		w.expectFailure("")
		w.expectRunning(2)
	})
}

func TestAStateThatIsTooLargeIsAFailure(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.begin()
		_, _, err := w.d.Decode(contract.EncodeResult(&contract.Result{State: fmt.Appendf(nil, "%q", strings.Repeat("x", 1<<10))}))
		refused, ok := errors.AsType[*dispatch.ResultError](err)
		if !ok || refused.Reason != "DaemonStateTooLarge" || !strings.Contains(refused.Message, "1026 bytes, and the limit is 1024") {
			t.Errorf("error %+v", err)
		}
		if _, _, err := w.d.Decode([]byte(`{"every":1}`)); err == nil {
			t.Error("an unknown field is not refused")
		}
	})
}

// Which events there were is not forgotten, and the daemon is not counted twice.
func TestAStepThatIsMadeAgainHasTheSameEvents(t *testing.T) {
	withDaemon(t, func(w *world) {
		again := func() {
			w.d.End(&dispatch.EndedTurn{Uncounted: true, Failure: events.Failure{Class: abi.ClassRetry}, Now: time.Now()})
		}
		w.begin()
		again()
		w.expectRunning(0)
		w.step("[start]", contract.Result{State: []byte(`1`), Wait: contract.Wait{Object: true, Reads: true, After: 1000}})
		pass(time.Second)
		w.change()
		w.woken = dispatch.Woken{Reads: true, Index: true}
		for range 2 {
			if got := w.begin(); got != "[object read index time]1" {
				t.Errorf("the step is %q", got)
			}
			again()
			w.woken = dispatch.Woken{Reads: true, Index: true} // as the core keeps it
		}
		w.step("[object read index time]1", contract.Result{})
		w.expectRunning(1)
	})
}

func TestADaemonEndsByItself(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.step("[start]", contract.Result{End: true, Wait: contract.Wait{After: 1, Object: true}})
		w.change()
		pass(time.Hour)
		w.expectNone(0)
		w.expectRunning(0)
		if w.d.Stop(&dispatch.BeginningTurn{Now: time.Now()}) != nil {
			t.Error("there is a last step")
		}
		w.expectRunning(0)
	})
}

func TestADaemonWaitsWhenItHasUsedItsFuel(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.fuel = 700_000 // of 1,000,000 in a second
		w.step("[start]", contract.Result{Wait: contract.Wait{Reads: true, Object: true}})
		w.woken.Reads = true
		w.expectNone(700 * time.Millisecond)
		pass(300 * time.Millisecond)
		w.change() // no event tells it again
		w.expectNone(400 * time.Millisecond)
		pass(400 * time.Millisecond)
		w.step("[object read]", contract.Result{})
	})
}

// An object that is edited again and again does not give its daemon more fuel.
func TestADaemonThatHasFailedWaitsForItsFuel(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.fuel = 700_000
		w.begin()
		w.end(abi.CodeStalled, &contract.Result{})
		pass(300 * time.Millisecond)
		w.change()
		w.expectNone(400 * time.Millisecond)
		w.expectFailure("stalled")
		pass(400 * time.Millisecond)
		w.step("[start]", contract.Result{})
	})
}

func TestADaemonThatDoesNotRunHasNoLastStep(t *testing.T) {
	withDaemon(t, func(w *world) {
		if w.d.Stop(&dispatch.BeginningTurn{Now: time.Now()}) != nil {
			t.Error("one that was not started has a last step")
		}
		w.step("[start]", contract.Result{})
		if w.d.Stop(nil) != nil {
			t.Error("there is a last step although none can be made")
		}
		w.expectRunning(0)
		w.d = w.turns.New(w.rev)
		w.begin()
		w.end(abi.CodeRetry, &contract.Result{})
		if w.d.Stop(&dispatch.BeginningTurn{Now: time.Now()}) != nil {
			t.Error("one that has failed has a last step")
		}
		w.expectRunning(0)
	})
}

func TestSeriesOfDaemons(t *testing.T) {
	withDaemon(t, func(w *world) {
		expect := func(want string) {
			t.Helper()
			families, err := w.metrics.Registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range families {
				if !strings.HasPrefix(f.GetName(), "thole_daemon") {
					continue
				}
				for _, m := range f.GetMetric() {
					text := strings.TrimPrefix(f.GetName(), "thole_")
					for _, l := range m.GetLabel() {
						text += " " + l.GetValue()
					}
					got = append(got, fmt.Sprint(text, "=", m.GetCounter().GetValue()+m.GetGauge().GetValue()))
				}
			}
			if all := strings.Join(got, ", "); all != want {
				t.Errorf("series %s, want %s", all, want)
			}
		}
		expect("daemon_steps_total c p error=0, daemon_steps_total c p success=0, daemons p=0")
		w.step("[start]", contract.Result{Wait: contract.Wait{After: 100}})
		expect("daemon_steps_total c p error=0, daemon_steps_total c p success=1, daemons p=1")
		if s, ok := w.p.part().Shown().(shown); !ok || s.Running != 1 {
			t.Errorf("/plugins has %+v", w.p.part().Shown())
		}
		pass(100 * time.Millisecond)
		w.begin()
		w.end(abi.CodeRetry, &contract.Result{})
		w.d.LastEnded(true)
		expect("daemon_steps_total c p error=2, daemon_steps_total c p success=1, daemons p=0")
		if w.p.part().Shown() != nil {
			t.Error("/plugins has daemons")
		}
		w.c.part().Swapped(w.rev, revision(nil))
		expect("daemons p=0")
		w.metrics.CountEvents().Observe(events.PluginStopped{Plugin: "p"})
		expect("")
	})
}

func TestAPolicyWithoutTheSectionHasTheDefaults(t *testing.T) {
	withDaemon(t, func(w *world) {
		w.prepare(nil)
		if got := *w.p.policy.Load(); got != (&Policy{}).WithDefaults() || got.Number == 0 || got.Fuel == 0 || got.StateKiB == 0 {
			t.Errorf("limits %+v", got)
		}
	})
}
