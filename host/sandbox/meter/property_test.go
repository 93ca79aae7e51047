package meter

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"
)

// mostFuel ends the runs of generated modules that do not end by themselves.
const mostFuel = 200_000

// TestGenerated holds generated modules to what the package promises.
func TestGenerated(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { checkGenerated(t, rt) })
}

func FuzzGenerated(f *testing.F) {
	f.Fuzz(func(t *testing.T, input []byte) {
		rapid.MakeFuzz(func(rt *rapid.T) { checkGenerated(t, rt) })(t, input)
	})
}

// within draws the limits.
func within(rt *rapid.T) limits {
	some := rapid.SampledFrom([]int64{1, 10, 60, 400, 3000, 10_000})
	return limits{
		segment: some.Draw(rt, "segment"),
		run:     some.Draw(rt, "run"),
		returns: some.Draw(rt, "returns"),
		entry:   some.Draw(rt, "entry"),
	}
}

func checkGenerated(t testing.TB, rt *rapid.T) {
	wasm := generate(rt)
	l := within(rt)
	checkBound(t, rt, wasm, l)
	checkSame(t, rt, wasm, l)
}

// failer is a test of either kind.
type failer interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// checkBound runs a module that counts what it executes, with a tick at each
// check.
func checkBound(t testing.TB, rt failer, wasm []byte, l limits) {
	wasm, report := rewrite(t, counted(t, wasm), Options{limits: l})
	last := int64(0)
	observe := func(count, charged int64) {
		if count-last > report.Bound+counting {
			rt.Fatalf("%d instructions without a check, the bound is %d", count-last, report.Bound)
		}
		if charged+counting < count {
			rt.Fatalf("%d instructions were charged, %d executed", charged, count)
		}
		last = count
	}
	countOf := func(guest api.Module) int64 { return int64(guest.ExportedGlobal(countExport).Get()) }
	var guest api.Module
	out := trial{limit: 5 * mostFuel, tick: func(m api.Module, charged int64) {
		guest = m
		observe(countOf(m), charged)
	}}.run(t, wasm)
	if guest == nil {
		rt.Fatal("no tick")
	}
	observe(countOf(guest), out.fuel)
}

// checkSame runs a module with fuel and without.
func checkSame(t testing.TB, rt failer, wasm []byte, l limits) {
	metered, _ := rewrite(t, wasm, Options{limits: l})
	one := trial{limit: mostFuel}.run(t, metered)
	if errors.Is(one.err, errStopped) || overflown(one.err) {
		return
	}
	other := trial{limit: mostFuel, slice: 5000}.run(t, metered)
	if one.fuel != other.fuel {
		rt.Fatalf("%d fuel in small slices, %d in large ones", one.fuel, other.fuel)
	}
	plain := trial{}.run(t, wasm)
	for _, o := range []outcome{one, other} {
		if !slices.Equal(o.results, plain.results) || trapOf(o.err) != trapOf(plain.err) {
			rt.Fatalf("%v, %v with fuel; %v, %v without", o.results, o.err, plain.results, plain.err)
		}
		if o.globals != plain.globals || !bytes.Equal(o.memory, plain.memory) {
			rt.Fatal("globals or memory differ")
		}
	}
}

func trapOf(err error) string {
	if err == nil {
		return ""
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

func overflown(err error) bool { return strings.Contains(trapOf(err), "stack overflow") }
