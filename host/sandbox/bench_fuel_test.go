package sandbox

import (
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// BenchmarkFuel is what fuel costs: each guest is called with checks and
// without, in turns.
func BenchmarkFuel(b *testing.B) {
	request := abi.EncodeRequest(&abi.Request{Controller: "appliance", Object: benchRaw(b), Now: callTime})
	for _, c := range fuelGuests {
		b.Run(c.name, func(b *testing.B) {
			p := Plugin{Name: "appliance", Wasm: wasmbuild.Build(b, c.toolchain, c.dir)}
			compareFuel(b, p, Call{Request: request, Now: callTime})
		})
	}
	for _, c := range []struct {
		name   string
		locals []tck.Type
		body   func(h *hand) []byte
	}{
		{"loop", one, tightLoop},
		{"scan", one, scanLoop},
		{"sieve", two, sieve},
		{"call", one, callLoop},
		{"recursion", none, fibonacci},
		{"copy", one, copyLoop},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := newHand("micro")
			compareFuel(b, Plugin{Name: "micro", Wasm: h.wasm(c.locals, c.body(h), h.ok())}, Call{Now: callTime})
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
	bare := newSandbox(b, Config{})
	bare.metering.Unchecked = true
	reconciling := func(g *Guest) dispatch {
		return func() ([]byte, error) {
			out, err := g.Reconcile(b.Context(), call)
			return out.Output, err
		}
	}
	g := load(b, newSandbox(b, Config{}), p)
	with, without := reconciling(g), reconciling(load(b, bare, p))
	for b.Loop() {
		must(b, with)
	}
	b.ReportMetric(float64(reconcile(b, g, call).Fuel), "fuel/op")
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
			for unit, n := range map[string]int{"functions": r.Functions, "entries": r.Entries, "checks": r.Checks, "bound": int(r.Bound)} {
				b.ReportMetric(float64(n), unit)
			}
			b.ReportMetric(float64(r.After)/float64(r.Before), "x-code")
			with, _ := rewritten(b, wasm, meter.Options{})
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

// compileTime is the least of three.
func compileTime(tb testing.TB, wasm []byte) float64 {
	best := time.Hour
	for range 3 {
		s, err := native.Open(tb.Context(), native.Config{Offer: offer})
		if err != nil {
			tb.Fatal(err)
		}
		began := time.Now()
		if _, err := s.Compile(tb.Context(), "", wasm, nil); err != nil {
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

// repeated runs a body that many times; local 1 counts.
func repeated(n int32, body ...[]byte) []byte {
	return slices.Concat(tck.I32Const(n), tck.LocalSet(1), tck.Loop,
		slices.Concat(body...),
		tck.LocalGet(1), tck.I32Const(1), tck.I32Sub, tck.LocalTee(1), tck.BranchIf(0), tck.End)
}

// tightLoop does nothing but count.
func tightLoop(*hand) []byte { return repeated(rounds) }

// scanLoop adds numbers in memory up.
func scanLoop(*hand) []byte {
	return repeated(rounds/8, tck.LocalGet(0), tck.LocalGet(1), tck.I32Load, tck.I32Add, tck.LocalSet(0))
}

// sieve has two loops, and writes.
func sieve(*hand) []byte {
	const size = 32_000
	return slices.Concat(tck.I32Const(2), tck.LocalSet(1), tck.Loop,
		tck.LocalGet(1), tck.LocalTee(2),
		tck.Drop, tck.Loop,
		tck.LocalGet(2), tck.I32Const(1), tck.I32Store,
		tck.LocalGet(2), tck.LocalGet(1), tck.I32Add, tck.LocalTee(2), tck.I32Const(size), []byte{0x49}, tck.BranchIf(0), tck.End,
		tck.LocalGet(1), tck.I32Const(1), tck.I32Add, tck.LocalTee(1), tck.I32Const(64), []byte{0x49}, tck.BranchIf(0), tck.End)
}

// callLoop calls a small function.
func callLoop(h *hand) []byte {
	f := h.Func(one, one, nil, tck.LocalGet(0), tck.I32Const(3), tck.I32Mul)
	return repeated(rounds, tck.LocalGet(1), tck.Call(f), tck.Drop)
}

// fibonacci calls itself twice.
func fibonacci(h *hand) []byte {
	self := h.output + 1
	less := func(n int32) []byte {
		return slices.Concat(tck.LocalGet(0), tck.I32Const(n), tck.I32Sub, tck.Call(self))
	}
	h.Func(one, one, nil,
		tck.LocalGet(0), tck.I32Const(2), []byte{0x49}, tck.If, tck.LocalGet(0), tck.Return, tck.End,
		less(1), less(2), tck.I32Add)
	return slices.Concat(tck.I32Const(22), tck.Call(self), tck.Drop)
}

// copyLoop copies 48 bytes each time.
func copyLoop(*hand) []byte {
	return repeated(rounds/4, tck.I32Const(1<<16), tck.I32Const(1<<16+100), tck.LocalGet(0), tck.I32Const(48), tck.I32Add, tck.MemoryCopy)
}
