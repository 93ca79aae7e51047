package sandbox

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// TestFuelDoesNotDependOnSlices calls the guests of the kit with small slices
// and large ones.
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
				call := g.callFor(Call{Request: tck.Request(), Now: callTime, Host: world{t}})
				call.fuel.slice = slice
				in, err := g.ready(t.Context(), nil)
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

// TestFuelLimit: it ends a call at the same check whatever the slice is.
func TestFuelLimit(t *testing.T) {
	const limit = 1_000_000
	g := loadCase(t, newSandbox(t, Config{}), "infinite-loop", Limits{Fuel: limit})
	var used []int64
	for range 2 {
		out, err := g.Reconcile(t.Context(), Call{Request: tck.Request()})
		f := wantFault(t, err, abi.ClassTimeout, "more than 1000000 instructions")
		used = append(used, f.Fuel, out.Fuel)
	}
	if slices.Min(used) != slices.Max(used) || used[0] <= limit || used[0] > limit+1000 {
		t.Errorf("used %d of %d", used, limit)
	}
}

func TestFuelOfACallIsTold(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "correct", Limits{})
	out := reconcile(t, g, Call{Request: tck.Request(), Now: callTime})
	if out.Fuel <= 0 || out.Fuel > 10_000 {
		t.Errorf("fuel = %d", out.Fuel)
	}
	if l := g.Limits().Fuel; l != defaultFuel {
		t.Errorf("limit = %d", l)
	}
}

// TestDeadlineOfEveryEntry: guest code is stopped wherever it is entered.
func TestDeadlineOfEveryEntry(t *testing.T) {
	spin := slices.Concat(tck.Loop, tck.Branch(0), tck.End)
	spinning := slices.Concat(spin, tck.I32Const(0))
	for _, c := range []struct {
		step string // "" is the call
		wasm func(h *hand) []byte
	}{
		{StepInstantiate, func(h *hand) []byte { h.Start(h.Func(none, none, nil, spin)); return h.wasm(nil, h.ok()) }},
		{StepInitialize, func(h *hand) []byte {
			h.Export(abi.ExportInitialize, h.Func(none, none, nil, spin))
			return h.wasm(nil, h.ok())
		}},
		{StepWarm, func(h *hand) []byte {
			h.Export(abi.ExportWarm, h.Func(none, one, nil, spinning))
			return h.wasm(nil, h.ok())
		}},
		{"", func(h *hand) []byte { return h.wasm(nil, spinning) }},
	} {
		t.Run("in "+c.step, func(t *testing.T) {
			wasm := c.wasm(newHand("spinning"))
			g, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "spinning", Wasm: wasm, Limits: Limits{Deadline: soon}})
			if c.step != "" {
				wantStep(t, err, c.step, abi.ClassTimeout)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Reconcile(t.Context(), Call{})
			f := wantFault(t, err, abi.ClassTimeout, "deadline")
			if len(f.Stack) != 1 || f.Stack[0] != "$3" {
				t.Errorf("stack = %q, want the fourth function alone", f.Stack)
			}
		})
	}
}

// TestStacksNameTheModulesOwn: with names and without, and nothing that was
// added to the module.
func TestStacksNameTheModulesOwn(t *testing.T) {
	for _, named := range []bool{true, false} {
		h := newHand("stacked")
		inner := h.Func(none, none, nil, tck.I32Const(1), tck.I32Const(-1), tck.I32Const(1<<20), tck.MemoryFill)
		outer := h.Func(none, none, nil, tck.Call(inner))
		want := []string{"$1", "$2", "$5"}
		if named {
			h.Names(map[tck.Func]string{inner: "main.inner", outer: "main.outer"})
			want = []string{"main.inner", "main.outer", "$5"}
		}
		g := load(t, newSandbox(t, Config{}), Plugin{Name: "stacked", Wasm: h.wasm(nil, tck.Call(outer), h.ok())})
		_, err := g.Reconcile(t.Context(), Call{})
		f := wantFault(t, err, abi.ClassPanic, "out of bounds")
		if !slices.Equal(f.Stack, want) {
			t.Errorf("stack = %s, want %s", strings.Join(f.Stack, " "), strings.Join(want, " "))
		}
	}
}
