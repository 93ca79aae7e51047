package sandbox

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// TestFuelDoesNotDependOnSlices: the guests of the kit use the same fuel with
// small slices and large ones.
func TestFuelDoesNotDependOnSlices(t *testing.T) {
	s := newSandbox(t, Config{})
	for _, c := range tck.Cases() {
		if c.Stage == tck.StageLoad || c.Timed() || c.Class == abi.ClassStackOverflow {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			g := load(t, s, Plugin{Name: c.Name, Wasm: c.Wasm(), Limits: Limits{Fuel: 50_000_000}})
			var fuel []int64
			var outputs [][]byte
			for _, slice := range []int64{0, 100, sliceFuel, 1 << 40} {
				call := g.newCall(Call{Request: [][]byte{tck.Request()}, Now: callTime, Host: kitHost{t}})
				call.fuel.slice = slice
				in, err := g.instanceFor(t.Context(), nil, "")
				if err != nil {
					t.Fatal(err)
				}
				_, _ = in.enter(t.Context(), call, in.reconcile, uint64(len(tck.Request())))
				in.close(t.Context())
				fuel, outputs = append(fuel, call.fuel.used), append(outputs, call.output)
			}
			if slices.Min(fuel) != slices.Max(fuel) || fuel[0] <= 0 {
				t.Errorf("fuel = %d", fuel)
			}
			for _, output := range outputs {
				if !bytes.Equal(output, outputs[0]) {
					t.Errorf("outputs = %q", outputs)
				}
			}
		})
	}
}

// TestFuelLimitEndsACallAtTheSameCheck each time.
func TestFuelLimitEndsACallAtTheSameCheck(t *testing.T) {
	const limit = 1_000_000
	g := loadCase(t, newSandbox(t, Config{}), "infinite-loop", Limits{Fuel: limit})
	var used []int64
	for range 2 {
		out, err := g.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}})
		wantFault(t, err, abi.ClassTimeout, "more than 1000000:")
		used = append(used, out.Usage.Fuel)
	}
	if slices.Min(used) != slices.Max(used) || used[0] <= limit || used[0] > limit+1000 {
		t.Errorf("used %d of %d", used, limit)
	}
}

func TestUsageHasTheFuelOfACall(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "correct", Limits{})
	out := reconcile(t, g, Call{Request: [][]byte{tck.Request()}, Now: callTime})
	if out.Usage.Fuel <= 0 || out.Usage.Fuel > 10_000 {
		t.Errorf("fuel = %d", out.Usage.Fuel)
	}
	if l := g.limits.Fuel; l != defaultFuel {
		t.Errorf("limit = %d", l)
	}
}

// TestDeadlineEndsEveryEntry into guest code.
func TestDeadlineEndsEveryEntry(t *testing.T) {
	spin := slices.Concat(tck.Loop, tck.Branch(0), tck.End)
	spinning := slices.Concat(spin, tck.I32Const(0))
	for _, c := range []struct {
		name  string
		step  string // "" for a call
		build func(tg *testGuest) []byte
	}{
		{"start function", StepInstantiate, func(tg *testGuest) []byte {
			tg.Start(tg.Func(noTypes, noTypes, nil, spin))
			return tg.build(nil, tg.ok())
		}},
		{"_initialize", StepInitialize, func(tg *testGuest) []byte {
			tg.Export(abi.ExportInitialize, tg.Func(noTypes, noTypes, nil, spin))
			return tg.build(nil, tg.ok())
		}},
		{"warm", StepWarm, func(tg *testGuest) []byte {
			tg.Export(abi.ExportWarm, tg.Func(noTypes, i32Only, nil, spinning))
			return tg.build(nil, tg.ok())
		}},
		{"reconcile", "", func(tg *testGuest) []byte { return tg.build(nil, spinning) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			binary := c.build(newTestGuest("spinning"))
			s := newSandbox(t, Config{})
			if c.step != "" {
				_, err := s.Load(t.Context(), Plugin{Name: "spinning", Wasm: binary, Limits: Limits{Deadline: soon}})
				wantStep(t, err, c.step, abi.ClassTimeout)
				return
			}
			g := load(t, s, Plugin{Name: "spinning", Wasm: binary})
			_, err := g.Reconcile(t.Context(), Call{Deadline: soon})
			f := wantFault(t, err, abi.ClassTimeout, "deadline")
			if len(f.Stack) != 1 || f.Stack[0] != "$3" {
				t.Errorf("stack = %q, want the fourth function alone", f.Stack)
			}
		})
	}
}

// TestHostCallsCostFuel: a call by itself, and not the bytes of a reply that the guest
// does not read.
func TestHostCallsCostFuel(t *testing.T) {
	s := newSandbox(t, Config{})
	g := load(t, s, Plugin{Name: "calling", Wasm: callingGet("calling", 3)})
	cost := func(reply int) int64 {
		host := hostFunc(func(context.Context, []byte) ([]byte, int64) { return make([]byte, reply), 0 })
		return reconcile(t, g, Call{Host: host}).Usage.Fuel
	}
	small, large := cost(0), cost(1<<20)
	if small < 3*hostCallCost || large != small {
		t.Errorf("three calls of get cost %d with empty replies, %d with a mebibyte", small, large)
	}

	tg := newTestGuest("logging")
	log := tg.Import(abi.ImportModule, abi.ImportLog, levelPtrLen, noTypes)
	body := bytes.Repeat(slices.Concat(tck.I32Const(0), tck.I32Const(0), tck.I32Const(4), tck.Call(log)), 10)
	logs := load(t, s, Plugin{Name: "logging", Wasm: tg.build(nil, body, tg.ok()), Limits: Limits{LogBytes: 5 * (4 + logOverhead)}})
	if paid := reconcile(t, logs, Call{}).Usage.Fuel / logCost; paid != 5 {
		t.Errorf("%d of ten lines were paid, want the 5 that were not dropped", paid)
	}
}

// TestLargeOutputsAreNotChangedByLaterCalls although the buffer that they were
// written to is used again.
func TestLargeOutputsAreNotChangedByLaterCalls(t *testing.T) {
	tg := newTestGuest("large")
	get := tg.get()
	input := tg.Import(abi.ImportModule, abi.ImportInput, ptrLen, noTypes)
	const at, piece = 64 << 10, 16 << 10 // the first byte of the reply, then other memory
	body := [][]byte{tck.I32Const(0), tck.I32Const(0), tck.Call(get), tck.Drop, tck.I32Const(at), tck.I32Const(1), tck.Call(input)}
	const pieces = 3 * largeOutput / piece
	for range pieces {
		body = append(body, tg.writes(at, piece))
	}
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "large", Wasm: tg.build(nil, append(body, tck.I32Const(0))...)})
	var outputs [][]byte
	for _, first := range []byte("abc") {
		reply := hostFunc(func(context.Context, []byte) ([]byte, int64) { return []byte{first}, 1 })
		outputs = append(outputs, reconcile(t, g, Call{Host: reply}).Output)
	}
	for i, out := range outputs {
		want := make([]byte, pieces*piece)
		for j := 0; j < len(want); j += piece {
			want[j] = "abc"[i]
		}
		if !bytes.Equal(out, want) || cap(out) > len(out)+len(out)/4 {
			t.Errorf("output %d has %d bytes with room for %d, and begins with %q", i, len(out), cap(out), out[:1])
		}
	}
}

func TestFailedCallHasNoOutput(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "trap-after-output", Limits{})
	if out, err := g.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}}); err == nil || out.Output != nil {
		t.Errorf("%d bytes of output, error %v", len(out.Output), err)
	}
}

// TestEachLimitIsCountedOncePerCall if it ends or bounds the call.
func TestEachLimitIsCountedOncePerCall(t *testing.T) {
	var seen recordingMetrics
	s := newSandbox(t, Config{Metrics: func(string) Metrics { return &seen }})
	growing, writing, logging := newTestGuest("growing"), newTestGuest("writing"), newTestGuest("logging")
	log := logging.Import(abi.ImportModule, abi.ImportLog, levelPtrLen, noTypes)
	logs := slices.Concat(tck.I32Const(1), tck.I32Const(0), tck.I32Const(20), tck.Call(log))
	big := hostFunc(func(context.Context, []byte) ([]byte, int64) { return make([]byte, 100), 0 })
	for _, c := range []struct {
		limit  string
		name   string
		wasm   []byte
		limits Limits
	}{
		{LimitMemory, "growing", growing.build(nil, tck.I32Const(5), tck.MemoryGrow, tck.Drop, growing.ok()), Limits{MemoryBytes: 4 * pageBytes}},
		{LimitTimeout, "spinning", spinningAfterGet("spinning"), Limits{Fuel: untilStopped.Fuel}}, // and the deadline of the calls
		{LimitFuel, "spinning", spinningAfterGet("spinning"), Limits{Deadline: untilStopped.Deadline, Fuel: 1_000_000}},
		{LimitOutput, "writing", writing.build(nil, writing.writes(0, 2048), writing.ok()), Limits{OutputBytes: 1024}},
		{LimitReply, "calling", callingGet("calling", 2), Limits{ReplyBytes: 99}},
		{LimitHostCalls, "calling", callingGet("calling", 4), Limits{HostCalls: 2}},
		{LimitLog, "logging", logging.build(nil, logs, logs, logs, logging.ok()), Limits{LogBytes: 100}},
	} {
		g := load(t, s, Plugin{Name: c.name, Wasm: c.wasm, Limits: c.limits})
		if len(seen.limits) > 0 {
			t.Errorf("%s: counted %v for the load", c.limit, seen.limits)
		}
		call := Call{Host: big}
		if c.limit == LimitTimeout {
			call.Deadline = soon // not one of the load too
		}
		for range 2 {
			_, _ = g.Reconcile(t.Context(), call)
		}
		if !slices.Equal(seen.limits, []string{c.limit, c.limit}) {
			t.Errorf("%s: counted %v, want twice", c.limit, seen.limits)
		}
		seen.limits = nil
	}
}

// TestGuestWhoseCallsWaitHasMoreInstances, as many as calls may wait for a reply.
func TestGuestWhoseCallsWaitHasMoreInstances(t *testing.T) {
	s := newSandbox(t, Config{})
	for _, c := range []struct {
		waits              bool
		instances, waiting int
		want               int
	}{{false, 2, 3, 2}, {true, 2, 3, 5}, {true, 2, 0, 3}, {true, maxInstances, 0, maxInstances}} {
		tg := newTestGuest("calling")
		tg.waits = c.waits
		limits := Limits{Instances: c.instances, Waiting: c.waiting}
		g := load(t, s, Plugin{Name: "calling", Wasm: tg.build(nil, tg.ok()), Limits: limits})
		clone, err := s.CloneWithLimits(t.Context(), g, limits)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range []*Guest{g, clone} {
			if n := cap(g.pool.inUse); n != c.want {
				t.Errorf("%+v: %d instances", c, n)
			}
			reconcile(t, g, Call{})
			closeGuest(t, g)
		}
	}
}

// TestWaitForAnInstanceIsCounted as LimitInstances.
func TestWaitForAnInstanceIsCounted(t *testing.T) {
	var seen recordingMetrics
	s := newSandbox(t, Config{Slots: 2, Metrics: func(string) Metrics { return &seen }})
	limits := untilStopped
	limits.Instances = 1
	g := load(t, s, Plugin{Name: "spinning", Wasm: spinningAfterGet("spinning"), Limits: limits})
	stop := startSpinning(t, g, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	if _, err := g.Reconcile(ctx, Call{}); !errors.Is(err, errStop) {
		t.Errorf("got %v", err)
	}
	stop()
	if !slices.Equal(seen.limits, []string{LimitInstances}) {
		t.Errorf("counted %v", seen.limits)
	}
}
