package sandbox

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// BenchmarkFuel is the cost of fuel: each guest is called with checks and without,
// in turns.
func BenchmarkFuel(b *testing.B) {
	request := abi.EncodeRequest(&abi.Request{Controller: "appliance", Object: benchRaw(b), Now: callTime})
	for _, c := range fuelGuests {
		b.Run(c.name, func(b *testing.B) {
			p := Plugin{Name: "appliance", Wasm: wasmbuild.Build(b, c.toolchain, c.dir)}
			compareFuel(b, p, Call{Request: [][]byte{request}, Now: callTime})
		})
	}
	for _, c := range []struct {
		name   string
		locals types
		body   func(tg *testGuest) []byte
	}{
		{"loop", i32Only, tightLoop},
		{"scanning", i32Only, scanLoop},
		{"sieve", ptrLen, sieve},
		{"call", i32Only, callLoop},
		{"recursion", noTypes, fibonacci},
		{"copy", i32Only, copyLoop},
	} {
		b.Run(c.name, func(b *testing.B) {
			tg := newTestGuest("micro")
			compareFuel(b, Plugin{Name: "micro", Wasm: tg.build(c.locals, c.body(tg), tg.ok())}, Call{Now: callTime})
		})
	}
}

var fuelGuests = []struct {
	name      string
	toolchain wasmbuild.Toolchain
	dir       string
}{
	{"tinygo-json", wasmbuild.TinyGo, benchJSON},
	{"tinygo-typed", wasmbuild.TinyGo, benchTyped},
	{"go", wasmbuild.Go, benchJSON},
}

func compareFuel(b *testing.B, p Plugin, call Call) {
	unmetered := newSandbox(b, Config{})
	unmetered.metering.Unchecked = true
	reconciling := func(g *Guest) dispatchFunc {
		return func() ([]byte, error) {
			out, err := g.Reconcile(b.Context(), call)
			return out.Output, err
		}
	}
	g := load(b, newSandbox(b, Config{}), p)
	with, without := reconciling(g), reconciling(load(b, unmetered, p))
	for b.Loop() {
		must(b, with)
	}
	b.ReportMetric(float64(reconcile(b, g, call).Usage.Fuel), "fuel/op")
	b.ReportMetric(ratio(b, with, without), "x-without-fuel")
}

// BenchmarkRewrite parses modules and compiles fuel in, and reports how their
// code grows and how much longer the engine takes for it.
func BenchmarkRewrite(b *testing.B) {
	for _, c := range fuelGuests {
		b.Run(c.name, func(b *testing.B) {
			wasm := wasmbuild.Build(b, c.toolchain, c.dir)
			var r meter.Report
			for b.Loop() {
				_, r = rewritten(b, wasm, meter.Options{})
			}
			with, _ := rewritten(b, wasm, meter.Options{})
			functions, code := bodies(b, wasm)
			_, codeAfter := bodies(b, with)
			for unit, n := range map[string]int{"functions": functions, "checks": r.Checks, "bound": int(r.Bound)} {
				b.ReportMetric(float64(n), unit)
			}
			b.ReportMetric(float64(codeAfter)/float64(code), "x-code")
			without, _ := rewritten(b, wasm, meter.Options{Unchecked: true})
			b.ReportMetric(compileTime(b, with)/compileTime(b, without), "x-compile")
		})
	}
}

func rewritten(tb testing.TB, wasm []byte, o meter.Options) ([]byte, meter.Report) {
	tb.Helper()
	m, err := module.Parse(wasm)
	if err != nil {
		tb.Fatal(err)
	}
	out, r, err := meter.Rewrite(m, o)
	if err != nil {
		tb.Fatal(err)
	}
	return out, r
}

// bodies returns the number of functions that a module defines, and the bytes of
// their code.
func bodies(tb testing.TB, wasm []byte) (functions, bytes int) {
	tb.Helper()
	m, err := module.Parse(wasm)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range m.Bodies {
		bytes += m.Bodies[i].Size()
	}
	return len(m.Bodies), bytes
}

// asIs is a [native.Prepare] that changes nothing.
func asIs(module []byte, _ json.RawMessage) (rewritten, report []byte) { return module, nil }

// compileTime returns the shortest of three compilations, in nanoseconds.
func compileTime(tb testing.TB, wasm []byte) float64 {
	best := time.Hour
	for range 3 {
		s, err := native.Open(tb.Context(), native.Config{HostModules: Config{}.addHostModules, Prepare: asIs})
		if err != nil {
			tb.Fatal(err)
		}
		began := time.Now()
		if _, _, err := s.Compile(tb.Context(), native.Job{Read: func() ([]byte, error) { return wasm, nil }}); err != nil {
			tb.Fatal(err)
		}
		best = min(best, time.Since(began))
		if err := s.Close(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	return float64(best)
}

const rounds = 200_000

// repeated runs a body that many times. Local 1 counts down.
func repeated(n int32, body ...[]byte) []byte {
	return slices.Concat(tck.I32Const(n), tck.LocalSet(1), tck.Loop,
		slices.Concat(body...),
		tck.LocalGet(1), tck.I32Const(1), tck.I32Sub, tck.LocalTee(1), tck.BranchIf(0), tck.End)
}

// tightLoop does nothing but count.
func tightLoop(*testGuest) []byte { return repeated(rounds) }

// scanLoop adds up numbers in memory.
func scanLoop(*testGuest) []byte {
	return repeated(rounds/8, tck.LocalGet(0), tck.LocalGet(1), tck.I32Load, tck.I32Add, tck.LocalSet(0))
}

// sieve has two nested loops and writes to memory.
func sieve(*testGuest) []byte {
	const size = 32_000
	return slices.Concat(tck.I32Const(2), tck.LocalSet(1), tck.Loop,
		tck.LocalGet(1), tck.LocalTee(2),
		tck.Drop, tck.Loop,
		tck.LocalGet(2), tck.I32Const(1), tck.I32Store,
		tck.LocalGet(2), tck.LocalGet(1), tck.I32Add, tck.LocalTee(2), tck.I32Const(size), tck.I32LtU, tck.BranchIf(0), tck.End,
		tck.LocalGet(1), tck.I32Const(1), tck.I32Add, tck.LocalTee(1), tck.I32Const(64), tck.I32LtU, tck.BranchIf(0), tck.End)
}

// callLoop calls a small function.
func callLoop(tg *testGuest) []byte {
	f := tg.Func(i32Only, i32Only, nil, tck.LocalGet(0), tck.I32Const(3), tck.I32Mul)
	return repeated(rounds, tck.LocalGet(1), tck.Call(f), tck.Drop)
}

// fibonacci calls itself twice.
func fibonacci(tg *testGuest) []byte {
	self := tg.output + 1
	less := func(n int32) []byte {
		return slices.Concat(tck.LocalGet(0), tck.I32Const(n), tck.I32Sub, tck.Call(self))
	}
	tg.Func(i32Only, i32Only, nil,
		tck.LocalGet(0), tck.I32Const(2), tck.I32LtU, tck.If, tck.LocalGet(0), tck.Return, tck.End,
		less(1), less(2), tck.I32Add)
	return slices.Concat(tck.I32Const(22), tck.Call(self), tck.Drop)
}

// copyLoop copies 48 bytes in each iteration.
func copyLoop(*testGuest) []byte {
	return repeated(rounds/4, tck.I32Const(1<<16), tck.I32Const(1<<16+100), tck.LocalGet(0), tck.I32Const(48), tck.I32Add, tck.MemoryCopy)
}
