// Package meter compiles fuel into a module before the engine compiles it: the
// code counts what it executes, and calls the host when a slice of fuel is used
// up. Nothing else can stop native code, or pause it for the garbage collector.
//
// A check subtracts, from a global of the module's own, the instructions that
// may follow until another check pays, and calls the host if the global is then
// below zero. [Rewrite] places checks such that
//   - every instruction is paid before it runs: at any time the fuel charged is
//     at least the number of instructions executed, and
//   - between two checks at most [Report.Bound] instructions run, on every path
//     through branches, calls and returns.
//
// Both follow from one pass over each function, callees first. RATIONALE.md has
// the proof and the costs.
//
// This file has [Rewrite]. The other files follow its steps: cost.go is what
// instructions cost, callgraph.go the order of the functions, plan.go and
// place.go where the checks are, emit.go, helpers.go and remainder.go the code that is
// written.
package meter

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// What a rewritten module has besides its own. The names are reserved: a module
// that uses them itself is refused.
const (
	// ImportModule and ImportTick name the imported function that is called
	// when the fuel is below zero. It takes the fuel and returns a new amount.
	ImportModule = "thole"
	ImportTick   = "tick"
	// FuelExport is the mutable i64 global that holds what is left of the
	// slice. It is 0 at first.
	FuelExport = "thole.fuel"

	reservedPrefix = "thole."
	// framePrefix begins the names of the functions that are added.
	framePrefix = "thole.meter."
)

// AddedFrame reports whether a function in a stack trace is not the module's
// own, by its name there.
func AddedFrame(name string) bool {
	return strings.HasPrefix(name, framePrefix) || name == ImportModule+"."+ImportTick
}

// Bound is the largest number of instructions that a guest may execute between
// two checks. A module for which that cannot be proved is refused.
const Bound = 50_000

// Options change how a module is rewritten. The host uses the zero value.
type Options struct {
	// Unchecked leaves out all checks, to measure what they cost.
	Unchecked bool
	// Exports are added to the module, besides [FuelExport].
	Exports []wasm.Export

	// Other than the zero value in tests only.
	limits     limits
	remainders bool // whether remainders are calculated by helpers, wherever it runs
}

// limits decide where checks are placed. They are numbers of instructions.
type limits struct {
	segment int64 // that one check pays for, at most
	run     int64 // from one check to the next, at most
	returns int64 // from a check to a return of a function on a cycle, at most
	entry   int64 // that a function leaves to its callers to pay, at most
}

// Fuel is paid for the longest path. Large segments therefore charge calls that
// take shorter paths too much, and small ones need more checks. RATIONALE.md
// has the measurements behind these numbers.
var defaultLimits = limits{segment: 4000, run: 10_000, returns: 5000, entry: 400}

func (o Options) limitsOrDefault() limits { return cmp.Or(o.limits, defaultLimits) }

// version changes when the same module is rewritten in another way.
const version = 6

// Key identifies the way in which modules are rewritten, for use in the key of
// a cache. It does not depend on the added exports.
func (o Options) Key() string {
	return fmt.Sprint(version, o.limitsOrDefault(), o.Unchecked, o.remainders || wrongRemainders)
}

// Report describes what was done to a module.
type Report struct {
	Bound  int64 // most instructions between two checks, proved
	Checks int   // in the code, including those at entries and of loops
}

// Rewrite compiles fuel into a module and returns the new binary. The module
// itself is not changed.
func Rewrite(m *module.Module, o Options) ([]byte, Report, error) {
	if err := checkReserved(m); err != nil {
		return nil, Report{}, err
	}
	p := newPlan(m, o)
	if !o.Unchecked {
		p.place()
	}
	if p.err != nil {
		return nil, p.report, fmt.Errorf("place checks: %w", p.err)
	}
	if p.report.Bound > Bound {
		return nil, p.report, fmt.Errorf("bound run: %d instructions may run without a check, the limit is %d", p.report.Bound, Bound)
	}
	out, err := write(p, o.Exports)
	if err = errors.Join(err, p.err); err != nil {
		return nil, p.report, fmt.Errorf("compile fuel in: %w", err)
	}
	return out, p.report, nil
}

func checkReserved(m *module.Module) error {
	for _, in := range m.Imports {
		if in.Module == ImportModule {
			return fmt.Errorf("import %q: the module name %q is reserved: plugins import from thole/v1", in.Module+"."+in.Name, ImportModule)
		}
	}
	for _, e := range m.Exports {
		if strings.HasPrefix(e.Name, reservedPrefix) {
			return fmt.Errorf("export %q uses the reserved prefix %q: rename it", e.Name, reservedPrefix)
		}
	}
	return nil
}
