package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
)

func TestWhereNamesThePluginsOwnFunctions(t *testing.T) {
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

// TestAStackIsBounded: the names are the plugin's, and may be anything.
func TestAStackIsBounded(t *testing.T) {
	stack := bounded(slices.Repeat([]string{strings.Repeat("é", 1000)}, 1000))
	if len(stack) != mostFrames || stack[0] != strings.Repeat("é", longestName/2) {
		t.Errorf("%d functions, the first %q", len(stack), stack[0])
	}
	if cut := bounded([]string{"x" + strings.Repeat("é", 1000)})[0]; cut != "x"+strings.Repeat("é", longestName/2-1) {
		t.Errorf("cut to %q", cut)
	}
}

// TestAFaultIsToldEverywhere: on the object, in the log and by the breaker.
func TestAFaultIsToldEverywhere(t *testing.T) {
	b, _ := protected(t)
	var log bytes.Buffer
	b.c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
	b.put(aWidget)
	fault := &Fault{Class: abi.ClassPanic, Message: "panic: boom", Stack: []string{"runtime._panic", "main.reconcile"}}
	b.reconcile = func(context.Context, Call) (Return, error) {
		return Return{Usage: Usage{Time: time.Second, Fuel: 1000, MemoryBytes: 65536}}, fault
	}
	b.run()
	const told = "panic: boom; in main.reconcile"
	if !slices.Contains(b.told, told) {
		t.Errorf("the object says %q", b.told)
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{"class": "panic", "message": told, "fuel": 1000.0, "memoryBytes": 65536.0} {
		if line[field] != want {
			t.Errorf("%s in the log is %v, want %v", field, line[field], want)
		}
	}
	if stack, _ := line["stack"].([]any); len(stack) != 2 {
		t.Errorf("the stack in the log is %v", line["stack"])
	}
	report, err := json.Marshal(b.c.Generation().Breaker.Status().LastFault)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"controller":"c","object":"ns/w"`, `"class":"panic","message":"panic: boom","stack":["runtime._panic","main.reconcile"]`,
		`"fuel":1000,"memoryBytes":65536,"seconds":1`,
	} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the breaker says %s\nand not %s", report, want)
		}
	}
}
