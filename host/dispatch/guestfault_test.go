package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestWhereNamesTheFunctionsOfThePlugin(t *testing.T) {
	for stack, want := range map[string]string{
		"":               "",
		"main.reconcile": "; in main.reconcile",
		"runtime._panic runtime.nilPanic main.f sdk.run": "; in main.f < sdk.run",
		"a b c d e f g":            "; in a < b < c < d < e",
		"runtime.alloc runtime.gc": "; in runtime.gc",
	} {
		if got := Where(strings.Fields(stack)); got != want {
			t.Errorf("%s: %q, want %q", stack, got, want)
		}
	}
}

// The names in a stack are chosen by the plugin.
func TestAReportedStackIsBounded(t *testing.T) {
	stack := boundStack(slices.Repeat([]string{strings.Repeat("é", 1000)}, 1000))
	if len(stack) != maxFrames || stack[0] != strings.Repeat("é", maxFunctionBytes/2) {
		t.Errorf("%d functions, the first %q", len(stack), stack[0])
	}
	if cut := boundStack([]string{"x" + strings.Repeat("é", 1000)})[0]; cut != "x"+strings.Repeat("é", maxFunctionBytes/2-1) {
		t.Errorf("cut to %q", cut)
	}
}

func TestAFaultIsInTheConditionsTheEventAndTheBreaker(t *testing.T) {
	f, _ := newFixtureWithBreaker(t)
	f.put(aWidget)
	fault := &sandbox.Fault{Class: abi.ClassPanic, Message: "trap: boom", Stack: []string{"runtime._panic", "main.reconcile"}}
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Usage: sandbox.Usage{Duration: time.Second, Fuel: 1000, MemoryBytes: 65536}}, fault
	}
	f.run()
	const message = "panic: trap: boom; in main.reconcile"
	if !slices.Contains(f.messages, message) {
		t.Errorf("the conditions have the messages %q", f.messages)
	}
	ended := f.events[0].(events.RunEnded)
	if ended.Failure.Class != abi.ClassPanic || ended.Failure.Message != message || len(ended.Failure.Stack) != 2 || ended.Fuel != 1000 || ended.MemoryBytes != 65536 {
		t.Errorf("the event is %+v", ended)
	}
	report, err := json.Marshal(f.c.Revision().Breaker.Status().LastFault)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"controller":"c","object":"ns/w"`, `"class":"panic","reason":"Panic","message":"panic: trap: boom","stack":["runtime._panic","main.reconcile"]`,
		`"fuel":1000,"memoryBytes":65536,"seconds":1`,
	} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the breaker reports %s\nwithout %s", report, want)
		}
	}
}

// A plugin may have read a Secret, and printed it as it failed, or returned it in a result
// that cannot be decoded. Conditions and Events are read by many, /plugins by everybody.
func TestWhatAGuestPrintsIsInTheLogAlone(t *testing.T) {
	const secret = "s3cr3t"
	for name, test := range map[string]struct {
		reconcile reconcileFunc
		onObject  bool // the words of the guest are on the object: it has returned them
	}{
		"a panic": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{}, &sandbox.Fault{
				Class: abi.ClassPanic, Message: "trap: unreachable", Stack: []string{"main.reconcile"},
				Printed: "panic: " + secret, PrintedStack: []string{secret}, Stdout: []byte(secret), Stderr: []byte(secret),
			}
		}},
		"a result that cannot be decoded": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{Output: []byte(`{"` + secret + `":1}`)}, nil
		}, onObject: true},
		"a condition that the manifest does not have": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return returns(&abi.Result{Conditions: []abi.Condition{{Type: secret, Status: "True", Reason: "A"}}})
		}, onObject: true},
		"an apply against the contract": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return returns(&abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
		}, onObject: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := newFixtureWithBreaker(t)
			f.put(aWidget)
			f.reconcile = test.reconcile
			if name == "an apply against the contract" {
				f.fail["apply"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassABI, Reason: "InvalidIntent", Message: secret}}
			}
			f.run()
			if on := strings.Contains(strings.Join(f.messages, " "), secret); on != test.onObject {
				t.Errorf("the conditions have the messages %q", f.messages)
			}
			ended := f.events[0].(events.RunEnded)
			if logged, err := json.Marshal(ended); err != nil || !strings.Contains(string(logged), secret) {
				t.Errorf("the log does not have it: %s", logged)
			}
			fault := f.c.Revision().Breaker.Status().LastFault
			report, err := json.Marshal(fault)
			if err != nil || fault == nil || fault.Reason == "" || strings.Contains(string(report), secret) {
				t.Errorf("/plugins has %s", report)
			}
		})
	}
}
