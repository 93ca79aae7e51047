package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
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
	fault := &sandbox.Fault{Class: abi.ClassPanic, Message: "panic: boom", Stack: []string{"runtime._panic", "main.reconcile"}}
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Usage: sandbox.Usage{Duration: time.Second, Fuel: 1000, MemoryBytes: 65536}}, fault
	}
	f.run()
	const message = "panic: boom; in main.reconcile"
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
		`"controller":"c","object":"ns/w"`, `"class":"panic","message":"panic: boom","stack":["runtime._panic","main.reconcile"]`,
		`"fuel":1000,"memoryBytes":65536,"seconds":1`,
	} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the breaker reports %s\nwithout %s", report, want)
		}
	}
}
