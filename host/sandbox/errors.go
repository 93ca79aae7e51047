package sandbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// ErrClosed is returned for calls after [Guest.Close] or [Sandbox.Close].
var ErrClosed = native.ErrClosed

// ErrHostMemory is for what needed more memory than the host has for all
// plugins together ([Config.MemoryBytes]), or than the system gives it. It
// passes when other calls end.
var ErrHostMemory = memory.ErrExhausted

// The steps of a load, in order. They are [LoadError.Step] and fit as a
// metric's label.
const (
	StepRead        = "read"        // the file
	StepParse       = "parse"       // is it a module at all, within the structural limits
	StepVerify      = "verify"      // exports, signatures, imports, memory
	StepCompile     = "compile"     // validation and code generation
	StepInstantiate = "instantiate" // segments and the start function
	StepInitialize  = "initialize"  // _initialize
	StepDescribe    = "describe"    // describe
	StepManifest    = "manifest"    // what describe wrote
	StepWarm        = "warm"        // warm
)

// Steps lists every step, for metrics that exist at zero.
func Steps() []string {
	return []string{
		StepRead, StepParse, StepVerify, StepCompile, StepInstantiate,
		StepInitialize, StepDescribe, StepManifest, StepWarm,
	}
}

// LoadError says why a plugin was not loaded. Its text names the plugin, the
// symbol or field, and what to do.
type LoadError struct {
	Plugin string
	Step   string // one of [Steps]
	Err    error  // a [*Fault] when guest code failed
}

var stepVerbs = map[string]string{
	StepRead:        "read module",
	StepParse:       "parse module",
	StepVerify:      "verify module",
	StepCompile:     "compile module",
	StepInstantiate: "instantiate module",
	StepInitialize:  "run " + abi.ExportInitialize,
	StepDescribe:    "run " + abi.ExportDescribe,
	StepManifest:    "read manifest",
	StepWarm:        "run " + abi.ExportWarm,
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("plugin %q: %s: %v", e.Plugin, stepVerbs[e.Step], e.Err)
}

func (e *LoadError) Unwrap() error { return e.Err }

// Advice says what to do about the error, "" where its text does so itself.
func (e *LoadError) Advice() string {
	_, inManifest := errors.AsType[*rawjson.Error](e.Err)
	fault, inGuest := errors.AsType[*Fault](e.Err)
	switch {
	case errors.Is(e.Err, ErrHostMemory):
		return ""
	case errors.Is(e.Err, module.ErrNotWasm):
		return "build the plugin with the SDK"
	case e.Step == StepParse && module.Damaged(e.Err):
		return "copy or build the file again, under another name, and rename it into place when it is whole"
	case inManifest:
		return "correct what the plugin registers, or build it with the SDK of this host's version"
	case inGuest:
		return fault.advice()
	}
	return ""
}

// advice is for a fault before the first reconcile.
func (f *Fault) advice() string {
	if f.Class == abi.ClassOutOfMemory {
		return "let the plugin need less memory when it is loaded, or raise limits.memoryMiB in its policy or the host's configuration"
	}
	if f.Class == abi.ClassTimeout {
		return "let the plugin do less when it is loaded, or raise limits.timeout in its policy or the host's configuration"
	}
	return "this is the plugin's own code, which runs when it is loaded: run its tests"
}

// FailureClass classifies the load: that of the guest's failure if its code
// ran, else abi.
func (e *LoadError) FailureClass() abi.Class {
	if fault, ok := errors.AsType[*Fault](e.Err); ok {
		return fault.Class
	}
	return abi.ClassABI
}

// Fault is a call that the guest did not end as the ABI says.
type Fault struct {
	Class       abi.Class
	Message     string   // what happened, with the guest's own last words if there are any
	Stack       []string // innermost first, as far as the engine knows it
	Stdout      []byte   // the last bytes written, bounded
	Stderr      []byte   // likewise
	MemoryBytes uint64   // the instance's memory when it ended
	Fuel        int64    // used until then, in instructions

	cause error
}

// Unwrap is [ErrHostMemory] for a guest that was refused memory which its own
// limit allows.
func (f *Fault) Unwrap() error { return f.cause }

// Innocent tells whether that was for what others have: the guest wanted no
// more than an even share.
func (f *Fault) Innocent() bool {
	return errors.Is(f.cause, ErrHostMemory) && !memory.Greedy(f.cause)
}

func (f *Fault) Error() string {
	class := string(f.Class) + ": "
	return class + strings.TrimPrefix(f.Message, class) // a guest's panic says so itself
}

// FailureClass is the class, for errors that wrap a fault.
func (f *Fault) FailureClass() abi.Class { return f.Class }
