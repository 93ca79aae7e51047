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

// maxFuel ends the runs of generated modules that do not end by themselves.
const maxFuel = 200_000

// TestGeneratedModulesKeepThePromises: what the package promises holds for
// modules that are drawn at random.
func TestGeneratedModulesKeepThePromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { checkGenerated(t, rt) })
}

func FuzzGenerated(f *testing.F) {
	f.Fuzz(func(t *testing.T, input []byte) {
		rapid.MakeFuzz(func(rt *rapid.T) { checkGenerated(t, rt) })(t, input)
	})
}

// drawLimits draws the limits by which checks are placed.
func drawLimits(rt *rapid.T) limits {
	some := rapid.SampledFrom([]int64{1, 10, 60, 400, 3000, 10_000})
	return limits{
		segment: some.Draw(rt, "segment"),
		run:     some.Draw(rt, "run"),
		returns: some.Draw(rt, "returns"),
		entry:   some.Draw(rt, "entry"),
	}
}

func checkGenerated(t testing.TB, rt *rapid.T) {
	binary := generate(rt)
	l := drawLimits(rt)
	checkBound(t, rt, binary, l)
	checkSame(t, rt, binary, l)
}

// failer is a *testing.T or *rapid.T.
type failer interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// checkBound runs a module that counts what it executes, with a tick at each
// check: what was charged and what ran since the last tick are as promised. An
// instruction may have been counted that has yet to run.
func checkBound(t testing.TB, rt failer, binary []byte, l limits) {
	binary, report := rewrite(t, counted(t, binary), Options{limits: l})
	last := int64(0)
	observe := func(count, charged int64) {
		if count-last > report.Bound+counting+mostCounted {
			rt.Fatalf("%d units without a check, the bound is %d", count-last, report.Bound)
		}
		if charged+counting+mostCounted < count {
			rt.Fatalf("%d units were charged, %d executed", charged, count)
		}
		last = count
	}
	countOf := func(guest api.Module) int64 { return int64(guest.ExportedGlobal(countExport).Get()) }
	var guest api.Module
	out := runner{limit: 5 * maxFuel, tick: func(m api.Module, charged int64) {
		guest = m
		observe(countOf(m), charged)
	}}.run(t, binary)
	if guest == nil {
		rt.Fatal("no tick")
	}
	observe(countOf(guest), out.fuel)
}

// checkSame runs a module with fuel, in small slices and large ones, and
// without: nothing but the fuel differs.
func checkSame(t testing.TB, rt failer, binary []byte, l limits) {
	metered, _ := rewrite(t, binary, Options{limits: l})
	one := runner{limit: maxFuel}.run(t, metered)
	if errors.Is(one.err, errStopped) || strings.Contains(trapOf(one.err), "stack overflow") {
		return
	}
	other := runner{limit: maxFuel, slice: 5000}.run(t, metered)
	if one.fuel != other.fuel {
		rt.Fatalf("%d fuel in small slices, %d in large ones", one.fuel, other.fuel)
	}
	plain := runner{}.run(t, binary)
	for _, o := range []outcome{one, other} {
		if !slices.Equal(o.results, plain.results) || trapOf(o.err) != trapOf(plain.err) {
			rt.Fatalf("%v, %v with fuel; %v, %v without", o.results, o.err, plain.results, plain.err)
		}
		if o.globals != plain.globals || !bytes.Equal(o.memory, plain.memory) {
			rt.Fatal("globals or memory differ")
		}
	}
}

// trapOf returns the first line of an error, "" for none.
func trapOf(err error) string {
	if err == nil {
		return ""
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
