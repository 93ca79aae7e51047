package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

func TestFailureClassAndMessage(t *testing.T) {
	trap := func(name string) error {
		return errors.New("wasm error: " + name + "\nwasm stack trace:\n\t.main.run(i32)\n\t.x()")
	}
	for _, c := range []struct {
		name    string
		err     error
		stderr  string
		stdout  string
		refused bool
		class   abi.Class
		message string
		printed string
	}{
		{"trap", trap("unreachable"), "", "", false, abi.ClassPanic, "trap: unreachable", ""},
		{"trap with a runtime message", trap("unreachable"), "", "x\npanic: boom\ny\n", false, abi.ClassPanic, "trap: unreachable", "panic: boom"},
		{"stderr before stdout", trap("unreachable"), "fatal error: e\n", "panic: o\n", false, abi.ClassPanic, "trap: unreachable", "fatal error: e"},
		{"growth refused", trap("unreachable"), "", "", true, abi.ClassOutOfMemory, "trap: unreachable: memory of 2 MiB is more than the plugin's limit of 1 MiB", ""},
		{"runtime out of memory", &wasi.Exit{Code: 2}, "fatal error: out of memory\n", "", false, abi.ClassOutOfMemory, "the guest exited with code 2", "fatal error: out of memory"},
		{"runtime stack overflow", &wasi.Exit{Code: 2}, "runtime: goroutine stack exceeds 1-byte limit\n", "", false, abi.ClassStackOverflow, "the guest exited with code 2", "runtime: goroutine stack exceeds 1-byte limit"},
		{"engine stack overflow", errors.New("stack overflow"), "", "", false, abi.ClassStackOverflow, "the guest's calls nest too deeply: look for recursion without an end", ""},
		{"contract error", fmt.Errorf("%w (recovered)", &abortError{class: abi.ClassABI, message: "output: x"}), "panic: not this\n", "", true, abi.ClassABI, "output: x", ""},
		{"deadline in a host function", fmt.Errorf("%w (recovered)", contextEnded(deadline.ErrPassed)), "", "", false, abi.ClassTimeout, "the deadline of the call passed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := Limits{}.WithDefaults()
			call := newCall(&limits, callTime, [32]byte{})
			call.process.Stdout.Add([]byte(c.stdout))
			call.process.Stderr.Add([]byte(c.stderr))
			linear, err := memory.NewBudget(1<<20, nil).Account().Linear(0, 1<<20, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer linear.Free()
			if c.refused {
				linear.Reallocate(2 << 20)
			}
			f, ok := errors.AsType[*Fault](failure(c.err, call, linear))
			if !ok {
				t.Fatal("the error is no fault")
			}
			if f.Class != c.class || f.Message != c.message || f.Printed != c.printed {
				t.Errorf("%s: %q, printed %q, want %s: %q, printed %q", f.Class, f.Message, f.Printed, c.class, c.message, c.printed)
			}
		})
	}
}

// TestCanceledStartFunctionIsNoFault: it is ended at a tick like any other code.
func TestCanceledStartFunctionIsNoFault(t *testing.T) {
	s := newSandbox(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Load(ctx, Plugin{Name: "start-loops", Wasm: kitCase(t, "start-loops").Wasm(), Limits: Limits{Deadline: time.Hour, Fuel: 1 << 60}})
	if _, ok := errors.AsType[*Fault](err); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
}

func TestStackTraceOfEngineAndOfStandardGo(t *testing.T) {
	engine := errors.New("wasm error: unreachable\nwasm stack trace:\n\t.runtime._panic(i32,i32)\n\tmain.(*worker).run(i64) (i32,i32)\n\twasi_snapshot_preview1.proc_exit(i32)\n\nGo runtime stack trace:\nmore")
	if got, want := stackTrace(engine), []string{"runtime._panic", "main.(*worker).run", "wasi_snapshot_preview1.proc_exit"}; !slices.Equal(got, want) {
		t.Errorf("engine's stack = %q, want %q", got, want)
	}
	printed := "panic: x\n\ngoroutine 1 [running]:\nmain.(*worker).run(0x1, {0x2})\n\t/src/main.go:3 +0x1\nmain.main()\n\t/src/main.go:9\n\ngoroutine 2 [idle]:\nother()\n"
	if got, want := goroutineTrace(printed), []string{"main.(*worker).run", "main.main"}; !slices.Equal(got, want) {
		t.Errorf("printed stack = %q, want %q", got, want)
	}
	if got := stackTrace(errors.New("stack overflow")); got != nil {
		t.Errorf("no stack = %q", got)
	}
}

// TestStackHasTheModulesOwnFunctions, with names and without, and none that the
// host has added.
func TestStackHasTheModulesOwnFunctions(t *testing.T) {
	for _, named := range []bool{true, false} {
		tg := newTestGuest("stacked")
		inner := tg.Func(noTypes, noTypes, nil, tck.I32Const(1), tck.I32Const(-1), tck.I32Const(1<<20), tck.MemoryFill)
		outer := tg.Func(noTypes, noTypes, nil, tck.Call(inner))
		want := []string{"$1", "$2", "$5"}
		if named {
			tg.Names(map[tck.Func]string{inner: "main.inner", outer: "main.outer"})
			want = []string{"main.inner", "main.outer", "$5"}
		}
		g := load(t, newSandbox(t, Config{}), Plugin{Name: "stacked", Wasm: tg.build(nil, tck.Call(outer), tg.ok())})
		_, err := g.Reconcile(t.Context(), Call{})
		f := wantFault(t, err, abi.ClassPanic, "out of bounds")
		if !slices.Equal(f.Stack, want) {
			t.Errorf("stack = %s, want %s", strings.Join(f.Stack, " "), strings.Join(want, " "))
		}
	}
}
