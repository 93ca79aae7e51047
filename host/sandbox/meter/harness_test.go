package meter

import (
	"context"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// countExport is the global of a counted module.
const countExport = "count"

// counting is how many instructions are added to the count at once: the four
// that do it, and the one behind them.
const counting = 5

// counted writes a module again such that it counts the instructions that it
// executes, those that count included: the plain way, one by one.
func counted(t testing.TB, wasm []byte) []byte {
	m := parse(t, wasm)
	global := uint32(len(m.Globals))
	count := func(c code) code {
		c.index(module.OpGlobalGet, global)
		c.i64(counting)
		c.op(opI64Add)
		c.index(module.OpGlobalSet, global)
		return c
	}
	out, err := m.Write(module.Additions{
		Globals: []module.Init{{Type: module.I64, Value: zero()}},
		Exports: []module.Export{{Name: countExport, Kind: module.GlobalKind, Index: global}},
		Body: func(i int, out []byte) []byte {
			in := module.Instruction{}
			for s := m.Bodies[i].Instructions(); s.Next(&in); {
				if costOf(in.Op) > 0 {
					out = count(out)
				}
				out = in.Append(out)
			}
			return out
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(t testing.TB, wasm []byte) *module.Module {
	t.Helper()
	m, err := module.Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rewrite(t testing.TB, wasm []byte, o Options) ([]byte, Report) {
	t.Helper()
	out, r, err := Rewrite(parse(t, wasm), o)
	if err != nil {
		t.Fatal(err)
	}
	return out, r
}

// errStopped ends a run from a tick.
var errStopped = errors.New("stopped")

// outcome is all that one can see of a run.
type outcome struct {
	results []uint64
	err     error
	memory  []byte
	globals [3]uint64
	fuel    int64
	ticks   int
}

// trial runs modules, and looks at their ticks.
type trial struct {
	slice     int64
	limit     int64 // of fuel
	interpret bool  // which starts at once, and runs slowly
	// tick is called at each, with the fuel charged until now.
	tick func(guest api.Module, charged int64)
}

// run instantiates a module and calls run, and then look if that is there,
// which brings into memory what cannot be seen otherwise.
func (tr trial) run(t testing.TB, wasm []byte) (out outcome) {
	t.Helper()
	ctx := context.Background()
	config := wazero.NewRuntimeConfig()
	if tr.interpret {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	r := wazero.NewRuntimeWithConfig(ctx, config.WithCoreFeatures(api.CoreFeaturesV2))
	defer r.Close(ctx)
	var granted, used int64
	settle := func(left int64) { used += granted - left }
	tick := func(_ context.Context, guest api.Module, stack []uint64) {
		settle(int64(stack[0]))
		out.ticks++
		if tr.tick != nil {
			tr.tick(guest, used)
		}
		if used > tr.limit {
			panic(errStopped)
		}
		granted = tr.slice
		stack[0] = uint64(granted)
	}
	i32, i64 := []api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI64}
	export(t, r, "env", "answer", func(context.Context, api.Module, []uint64) {}, i32)
	export(t, r, ImportModule, ImportTick, tick, i64)
	m, err := r.Instantiate(ctx, wasm)
	if err != nil {
		return outcome{err: err}
	}
	out.results, out.err = m.ExportedFunction("run").Call(ctx)
	if left := m.ExportedGlobal(FuelExport); left != nil {
		settle(int64(left.Get()))
	}
	out.fuel = used
	if look := m.ExportedFunction("look"); look != nil {
		if _, err := look.Call(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i := range out.globals {
		if g := m.ExportedGlobal(string(rune('a' + i))); g != nil {
			out.globals[i] = g.Get()
		}
	}
	if len(m.ExportedMemoryDefinitions()) > 0 {
		out.memory, _ = m.Memory().Read(0, m.Memory().Size())
	}
	return out
}

func export(t testing.TB, r wazero.Runtime, module, name string, f api.GoModuleFunc, typ []api.ValueType) {
	t.Helper()
	_, err := r.NewHostModuleBuilder(module).NewFunctionBuilder().
		WithGoModuleFunction(f, typ, typ).Export(name).Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
}
