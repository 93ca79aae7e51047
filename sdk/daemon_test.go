package sdk_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// The step and the run of this file's controller are set by the tests.

type probeSpec struct {
	Host string `json:"host,omitempty"`
}

type probeStatus struct {
	Seen int `json:"seen,omitempty"`
}

// probeState is the state of its daemon.
type probeState struct {
	Count int     `json:"count"`
	Bad   float64 `json:"bad,omitempty"`
}

type (
	probe     = sdk.Request[probeSpec, probeStatus]
	probeStep = sdk.DaemonStep[probeSpec, probeStatus]
)

var (
	probeKind = sdk.Kind{APIVersion: "daemon.example.com/v1", Kind: "Probe"}
	theProbe  = probeKind.Ref("a", "one")

	onStep  func(*probeStep, *probeState) error
	onProbe func(*probe)
)

var podsByProbe = sdk.IndexBy("pods-by-probe", sdk.Kind{APIVersion: "v1", Kind: "Pod"}, func(x *sdk.Indexing) error {
	var pod shopPod
	err := x.Object(&pod)
	x.Add(pod.Metadata.Labels["probe"], nil)
	return err
})

func init() {
	sdk.Register(sdk.Controller[probeSpec, probeStatus]{
		Name: "probe", For: probeKind, HTTP: []sdk.HTTPHost{{Host: "probe.example.com"}}, Reads: []sdk.Kind{podsByProbe.Kind, configMap}, Indexes: []sdk.Index{podsByProbe},
		Reconcile: func(r *probe) (sdk.Action, error) {
			onProbe(r)
			return sdk.AwaitChange(), nil
		},
		Daemon: sdk.Daemon(func(d *probeStep, state *probeState) error { return onStep(d, state) },
			sdk.DaemonSelector("!off"), sdk.StepTimeout(2*time.Second), sdk.StopGrace(time.Minute)),
	})
}

// probing returns a world with one Probe that has the finalizer, and whose daemon makes that step.
func probing(t *testing.T, step func(*probeStep, *probeState) error) *sdktest.World {
	t.Helper()
	onStep, onProbe = step, func(*probe) {}
	w := sdktest.New(t, "probe")
	w.Create(`{"apiVersion":"daemon.example.com/v1","kind":"Probe","metadata":{"namespace":"a","name":"one"},"spec":{"host":"h"}}`)
	w.Reconcile("a/one").ExpectReady().ExpectWrites("finalizer", "status")
	return w
}

// stepping returns a step that calls do and succeeds.
func stepping(do func(*probeStep)) func(*probeStep, *probeState) error {
	return func(d *probeStep, _ *probeState) error {
		do(d)
		return nil
	}
}

func TestDaemonIsPartOfTheManifest(t *testing.T) {
	m, err := abi.DecodeManifest(abi.EncodeManifest(guest.Manifest()))
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) *abi.Controller {
		return &m.Controllers[slices.IndexFunc(m.Controllers, func(c abi.Controller) bool { return c.Name == name })]
	}
	want := daemon.Daemon{LabelSelector: "!off", Timeout: 2000, Grace: 60_000}
	d, err := daemon.Decode(of("probe").Section(daemon.Name))
	if err != nil || *d != want || !of("probe").Finalizer {
		t.Errorf("the controller is %+v, its daemon %+v, %v", of("probe"), d, err)
	}
	if c := of("shop"); c.Section(daemon.Name) != nil || c.Finalizer {
		t.Errorf("the controller is %+v", c)
	}
}

func TestDaemonWithoutFunctionPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it is accepted")
		}
	}()
	sdk.Daemon[probeState, probeSpec, probeStatus](nil)
}

func TestStepHasPartsOfObject(t *testing.T) {
	w := probing(t, stepping(func(d *probeStep) {
		if d.Name != "one" || d.Namespace != "a" || d.UID == "" || d.Spec.Host != "h" || d.Status.Seen != 3 {
			t.Errorf("the step is %+v", d)
		}
		if !strings.Contains(string(d.Object()), `"host":"h"`) || d.Now.IsZero() || d.Stopping() || !d.Woken(sdk.DaemonStart) {
			t.Errorf("at %s %q: %s", d.Now, d.Events, d.Object())
		}
		if d.Rand().Uint64() != d.Rand().Uint64() {
			t.Error("the random numbers of a step are not repeatable")
		}
		var config struct{ A int }
		if err := d.Config(&config); err != nil || config.A != 1 {
			t.Errorf("the configuration is %+v, %v", config, err)
		}
		d.Log.Info("looks", "host", d.Spec.Host)
	}))
	w.Configure(`{"A":1}`)
	w.Change(theProbe, `{"status":{"seen":3}}`)
	w.Step("a/one").ExpectEvents(sdk.DaemonStart).ExpectSuccess().ExpectLog("looks")
}

func TestStateIsKeptBetweenSteps(t *testing.T) {
	w := probing(t, func(d *probeStep, state *probeState) error {
		state.Count++
		d.Signal(state.Count)
		d.Wait(sdk.After(time.Second))
		if state.Count == 3 {
			return errors.New("no luck")
		}
		return nil
	})
	for _, want := range []string{"1", "2"} {
		w.Step("a/one").ExpectSuccess().ExpectSignals(want)
		w.Advance(time.Second)
	}
	w.Step("a/one").ExpectEvents(sdk.DaemonTime).ExpectFailure(abi.ClassRetry, "").ExpectSignals()
	w.Step("a/one").ExpectEvents(sdk.DaemonStart).ExpectSignals("1")
	w.Restart()
	w.Step("a/one").ExpectEvents(sdk.DaemonStart).ExpectSignals("1")
}

func TestWaitIsForTheFirstThatComes(t *testing.T) {
	for name, c := range map[string]struct {
		calls [][]sdk.WaitFor
		want  sdk.WaitFor
	}{
		"no call":           {nil, sdk.WaitFor{}},
		"nothing":           {[][]sdk.WaitFor{{}}, sdk.WaitFor{}},
		"a time":            {[][]sdk.WaitFor{{sdk.After(time.Minute)}}, sdk.WaitFor{After: 60_000}},
		"less than 1 ms":    {[][]sdk.WaitFor{{sdk.After(time.Microsecond)}}, sdk.WaitFor{After: 1}},
		"a negative time":   {[][]sdk.WaitFor{{sdk.After(-time.Second)}}, sdk.WaitFor{After: 1}},
		"the shortest time": {[][]sdk.WaitFor{{sdk.After(time.Hour), sdk.After(time.Second), sdk.After(time.Minute)}}, sdk.WaitFor{After: 1000}},
		"all":               {[][]sdk.WaitFor{{sdk.ObjectChange(), sdk.After(time.Second), sdk.ReadChange()}}, sdk.WaitFor{After: 1000, Object: true, Reads: true}},
		"the last call":     {[][]sdk.WaitFor{{sdk.ObjectChange(), sdk.After(time.Second)}, {sdk.ReadChange()}}, sdk.WaitFor{Reads: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := probing(t, stepping(func(d *probeStep) {
				for _, first := range c.calls {
					d.Wait(first...)
				}
			}))
			if got := w.Step("a/one").ExpectSuccess().Result.Wait; got != c.want {
				t.Errorf("it waits for %+v, expected %+v", got, c.want)
			}
		})
	}
}

func TestEndEndsTheDaemon(t *testing.T) {
	w := probing(t, stepping(func(d *probeStep) {
		d.Wait(sdk.After(time.Second))
		d.End()
	}))
	if !w.Step("a/one").ExpectSuccess().Result.End {
		t.Error("the result does not end it")
	}
	w.Advance(time.Minute)
	w.Step("a/one").ExpectNoStep()
}

func TestReadsOfAStepWakeItsDaemon(t *testing.T) {
	w := probing(t, stepping(func(d *probeStep) {
		items, err := d.Lookup(sdk.IndexQuery{Index: podsByProbe.Name, Key: d.Name})
		var maps []ConfigMap
		err = errors.Join(err, d.List(sdk.Query{Kind: configMap}, &maps))
		var one ConfigMap
		if missing := d.Get(configMap.Ref("", "one"), &one); missing != nil && !errors.Is(missing, sdk.ErrNotFound) {
			err = errors.Join(err, missing)
		}
		if err != nil {
			t.Error(err)
		}
		d.Signal([]int{len(items), len(maps), len(one.Data)})
		d.Wait(sdk.ReadChange())
	}))
	w.Step("a/one").ExpectSignals("[0,0,0]")
	w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":"p","labels":{"probe":"one"}}}`)
	w.Step("a/one").ExpectEvents(sdk.DaemonIndex).ExpectSignals("[1,0,0]")
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"one"},"data":{"a":"b"}}`)
	w.Step("a/one").ExpectEvents(sdk.DaemonRead).ExpectSignals("[1,1,1]")
	w.Step("a/one").ExpectNoStep()
}

func TestSignalsAreInTheNextRequest(t *testing.T) {
	w := probing(t, stepping(func(d *probeStep) {
		d.Signal(map[string]int{"seen": 5})
		d.Signal("text")
	}))
	w.Step("a/one").ExpectSignals(`{"seen":5}`, `"text"`)
	onProbe = func(r *probe) {
		if len(r.Signals) != 2 || !slices.Contains(r.Reasons, abi.ReasonSignal) {
			t.Fatalf("the signals are %q, the reasons %q", r.Signals, r.Reasons)
		}
		if err := sdk.Decode(r.Signals[0], &r.Status); err != nil {
			t.Error(err)
		}
	}
	w.Reconcile("a/one").ExpectReady().ExpectWrites("status")
	onProbe = func(r *probe) {
		if len(r.Signals) != 0 || r.Status.Seen != 5 {
			t.Errorf("the signals are %q, the status %+v", r.Signals, r.Status)
		}
	}
	w.Reconcile("a/one").ExpectReady()
}

func TestErrorOfAStepHasItsCode(t *testing.T) {
	plain := errors.New("no luck")
	for name, c := range map[string]struct {
		step   func(*probeStep, *probeState) error
		class  abi.Class
		reason string
		text   string
	}{
		"plain":   {func(*probeStep, *probeState) error { return plain }, abi.ClassRetry, "", "no luck"},
		"stalled": {func(*probeStep, *probeState) error { return sdk.Stalled("Wrong", plain) }, abi.ClassStalled, "Wrong", "no luck"},
		"waiting": {func(*probeStep, *probeState) error { return sdk.Waiting("Soon", time.Second, plain) }, abi.ClassWaiting, "Soon", "no luck"},
		"signal":  {func(d *probeStep, _ *probeState) error { d.Signal(make(chan int)); d.Signal(1); return nil }, abi.ClassStalled, "InvalidSignal", "encode signal: "},
		"an error besides a signal": {
			func(d *probeStep, _ *probeState) error { d.Signal(make(chan int)); return plain },
			abi.ClassRetry, "", "no luck",
		},
		"state":        {func(_ *probeStep, s *probeState) error { s.Bad = zero() / zero(); return nil }, abi.ClassStalled, "InvalidState", "encode state: "},
		"denied read":  {func(d *probeStep, _ *probeState) error { return d.Get(configMap.Ref("b", "x"), &ConfigMap{}) }, abi.ClassRetry, "Denied", "denied"},
		"large signal": {func(d *probeStep, _ *probeState) error { d.Signal(strings.Repeat("x", 5000)); return nil }, abi.ClassABI, "InvalidResult", "signals[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := probing(t, c.step)
			if s := w.Step("a/one").ExpectFailure(c.class, c.reason).ExpectSignals(); c.class != abi.ClassABI && !strings.Contains(s.Message, c.text) {
				t.Errorf("the message is %q, expected %q", s.Message, c.text)
			}
		})
	}
}

func TestObjectThatDoesNotFitTypesFailsTheStep(t *testing.T) {
	w := probing(t, func(*probeStep, *probeState) error {
		t.Error("the step was called")
		return nil
	})
	w.Change(theProbe, `{"spec":{"host":7}}`)
	w.Step("a/one").ExpectFailure(abi.ClassStalled, "InvalidSpec")
}

// Without a Cleanup the deletion has nothing to do but the last step.
func TestDeletionWithDaemonAndWithoutCleanupSucceeds(t *testing.T) {
	w := probing(t, func(d *probeStep, state *probeState) error {
		if state.Count++; d.Stopping() {
			d.Log.Info("stops")
			if err := d.Get(configMap.Ref("", "one"), &ConfigMap{}); !errors.Is(err, sdk.ErrDenied) {
				t.Errorf("a read in the last step returns %v", err)
			}
			if state.Count != 2 {
				t.Errorf("the last step has state %+v", state)
			}
		}
		return nil
	})
	w.Step("a/one").ExpectSuccess()
	onProbe = func(*probe) { t.Error("Reconcile was called") }
	w.Delete(theProbe)
	r := w.Reconcile("a/one").ExpectSuccess().ExpectWrites("release")
	r.LastStep.ExpectEvents(sdk.DaemonStop).ExpectSuccess().ExpectLog("stops")
	w.ExpectGone(theProbe)
}

func TestStepOfAnotherControllerIsRefused(t *testing.T) {
	for request, want := range map[string]string{
		string(daemon.EncodeRequest(&daemon.Request{Controller: "widget"})): `the plugin has no daemon for controller "widget"`,
		`{`: "read request: ",
	} {
		code, text := guest.Step(nil, []byte(request))
		result, err := daemon.DecodeResult(text)
		if err != nil || code != abi.CodeRetry || result.Error == nil || !strings.HasPrefix(result.Error.Message, want) {
			t.Errorf("%s: returned %d %s, expected %s", request, code, text, want)
		}
	}
}

var keepers int // registered so far

// keep expects that the states that a daemon sets are those of its next steps.
func keep[State any](t *testing.T, states ...State) {
	t.Helper()
	var seen []State
	keepers++
	name := fmt.Sprintf("keeper-%d", keepers)
	sdk.Register(sdk.Controller[struct{}, struct{}]{
		Name: name, For: probeKind, Reconcile: func(*sdk.Request[struct{}, struct{}]) (sdk.Action, error) { return sdk.Action{}, nil },
		Daemon: sdk.Daemon(func(_ *sdk.DaemonStep[struct{}, struct{}], state *State) error {
			seen = append(seen, *state)
			*state = states[len(seen)-1]
			return nil
		}),
	})
	var kept []byte
	for range len(states) + 1 {
		states = append(states, *new(State))
		code, text := guest.Step(nil, daemon.EncodeRequest(&daemon.Request{Controller: name, Object: []byte(`{}`), State: kept}))
		result, err := daemon.DecodeResult(text)
		if code != abi.CodeOK || err != nil {
			t.Fatalf("%T: returned %d %s", *new(State), code, text)
		}
		kept = result.State
	}
	if want := append([]State{*new(State)}, states[:len(seen)-1]...); !reflect.DeepEqual(seen, want) {
		t.Errorf("the states are %#v, expected %#v", seen, want)
	}
}

func TestStateIsOfAnyType(t *testing.T) {
	keep(t, 5, 0, -1)
	keep(t, "a", "")
	keep(t, true)
	keep(t, []string{"a"}, nil)
	keep(t, map[string]string{"a": "b"})
	keep(t, map[string]int{"a": 1})
	keep(t, sdk.Raw(`{"a":1}`))
	keep(t, struct{}{})
	keep(t, probeState{Count: 1})
	keep(t, &probeState{Count: 1}, nil)
}
