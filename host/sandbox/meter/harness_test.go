package meter

import (
	"context"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// countExport is the global of a counted module.
const countExport = "count"

const (
	counting    = 4  // what the four instructions cost that count
	mostCounted = 32 // of one instruction: table.grow costs more
)

// counted writes a module again such that it counts the instructions that it
// executes, one by one, those that count included.
func counted(t testing.TB, binary []byte) []byte {
	m := parse(t, binary)
	global := uint32(len(m.Globals))
	count := func(c code, cost int64) code {
		c.op(wasm.OpGlobalGet, global)
		c.i64(counting + cost)
		c.op(wasm.OpI64Add)
		c.op(wasm.OpGlobalSet, global)
		return c
	}
	out, err := m.Write(module.Additions{
		Globals: [][]byte{wasm.AppendGlobal(nil, wasm.I64, tck.I64Const(0))},
		Exports: []wasm.Export{{Name: countExport, Kind: wasm.KindGlobal, Index: global}},
		Body: func(i int, out []byte) []byte {
			in := wasm.Instruction{}
			for s := m.Bodies[i].Instructions(); s.Next(&in); {
				if cost := min(costOf(in.Op), mostCounted); cost > 0 {
					out = count(out, cost)
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

func parse(t testing.TB, binary []byte) *module.Module {
	t.Helper()
	m, err := module.Parse(binary)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rewrite(t testing.TB, binary []byte, o Options) ([]byte, Report) {
	t.Helper()
	out, r, err := Rewrite(parse(t, binary), o)
	if err != nil {
		t.Fatal(err)
	}
	return out, r
}

// errStopped ends a run from a tick.
var errStopped = errors.New("stopped")

// outcome is all that can be observed of a run.
type outcome struct {
	results []uint64
	err     error
	memory  []byte
	globals [3]uint64
	fuel    int64
	ticks   int
}

// runner runs modules and observes their ticks.
type runner struct {
	slice     int64
	limit     int64 // of fuel
	interpret bool  // for modules that take longer to compile than to run
	// tick is called at each tick with the fuel charged so far. It may be nil.
	tick func(guest api.Module, charged int64)
}

// run instantiates a module and calls its function run, and then look if there
// is one, which writes into memory what a host cannot read otherwise.
func (tr runner) run(t testing.TB, binary []byte) (out outcome) {
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
	export(t, r, "env", "same", func(context.Context, api.Module, []uint64) {}, i32)
	export(t, r, ImportModule, ImportTick, tick, i64)
	m, err := r.Instantiate(ctx, binary)
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
