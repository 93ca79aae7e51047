package meter

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// What a rewritten module has beside its own. The names are reserved: a
// module that uses them itself is refused.
const (
	// ImportModule is what the function is imported from that is called when
	// the fuel is below zero: it takes the fuel and answers a new amount.
	ImportModule = "thole"
	ImportTick   = "tick"
	// FuelExport is the mutable i64 global that holds what is left of the
	// slice. It is 0 at first.
	FuelExport = "thole.fuel"

	reserved = "thole."
	// framePrefix starts the names of the functions that are added.
	framePrefix = "thole.meter."
)

// Added tells whether a function in a stack is not the module's own.
func Added(frame string) bool {
	return strings.HasPrefix(frame, framePrefix) || frame == ImportModule+"."+ImportTick
}

// Bound is the number of instructions that a guest executes between two
// checks at most. A module for which that cannot be proved is refused.
const Bound = 50_000

// Options change what is proved about a module; the zero value is what the
// host uses.
type Options struct {
	// Unchecked leaves all checks out, to measure what they cost.
	Unchecked bool
	// Exports are added to the module, beside [FuelExport].
	Exports []module.Export

	limits limits // other than the zero value in tests
}

// limits say where checks are placed, in instructions.
type limits struct {
	segment int64 // that one check pays for, at most
	run     int64 // from one check to the next, at most
	returns int64 // from a check to a return of a function on a cycle, at most
	entry   int64 // that a function leaves to its callers to pay, at most
}

// Fuel is paid for the longest way, so large segments make calls that take
// short ways look expensive, and small ones make more checks. RATIONALE.md has
// what was measured.
var defaultLimits = limits{segment: 2000, run: 5000, returns: 2500, entry: 200}

func (o Options) inForce() limits {
	if o.limits == (limits{}) {
		return defaultLimits
	}
	return o.limits
}

// version changes when the same module is rewritten in another way.
const version = 3

// Key tells apart the ways in which a module can be rewritten, for who keeps
// what was made of it. The added exports are not in it.
func (o Options) Key() string { return fmt.Sprint(version, o.inForce(), o.Unchecked) }

// Report tells what was done to a module.
type Report struct {
	Bound     int64 // most instructions between two checks, proved
	Functions int   // defined ones
	Entries   int   // functions with a check at their entry
	Checks    int   // in the code, those at entries and of loops included
	Helpers   int   // functions that do bulk instructions in pieces
	Before    int   // bytes of code
	After     int   // bytes of the new module's code
}

// Rewrite compiles fuel into a module. An error says why that cannot be done;
// the module's own bytes are not changed.
func Rewrite(m *module.Module, o Options) ([]byte, Report, error) {
	if err := checkReserved(m); err != nil {
		return nil, Report{}, err
	}
	p := newPlan(m, o.inForce())
	if !o.Unchecked {
		p.place()
	}
	if p.err != nil {
		return nil, p.report, fmt.Errorf("place checks: %w", p.err)
	}
	if p.report.Bound > Bound {
		return nil, p.report, fmt.Errorf("bound run: %d instructions may run without a check, the limit is %d", p.report.Bound, Bound)
	}
	e := newEmitter(p)
	e.plain = o.Unchecked
	out, err := e.write(o.Exports)
	if err = errors.Join(err, e.err); err != nil {
		return nil, p.report, fmt.Errorf("compile fuel in: %w", err)
	}
	p.report.Helpers = len(e.helpers)
	return out, p.report, nil
}

func checkReserved(m *module.Module) error {
	for _, in := range m.Imports {
		if in.Module == ImportModule {
			return fmt.Errorf("import %q: the module name %q is reserved: plugins import from thole/v1", in.Module+"."+in.Name, ImportModule)
		}
	}
	for _, e := range m.Exports {
		if strings.HasPrefix(e.Name, reserved) {
			return fmt.Errorf("export %q uses the reserved prefix %q: rename it", e.Name, reserved)
		}
	}
	return nil
}
