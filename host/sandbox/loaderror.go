package sandbox

import (
	"errors"
	"fmt"

	"k8s.io/utils/lru"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// This file has the errors of loads, and the cache of those that are not worth
// another attempt.

// ErrClosed is returned for calls after [Guest.Close] or [Sandbox.Close].
var ErrClosed = native.ErrClosed

// The steps of a load, in order. They are values of [LoadError.Step] and can be
// labels of a metric.
const (
	StepRead        = "read"        // the file
	StepParse       = "parse"       // the module, within the structural limits
	StepVerify      = "verify"      // exports, signatures, imports, memory
	StepCompile     = "compile"     // validation and code generation
	StepInstantiate = "instantiate" // segments and the start function
	StepInitialize  = "initialize"  // _initialize
	StepDescribe    = "describe"    // describe
	StepManifest    = "manifest"    // what describe wrote
	StepWarm        = "warm"        // warm
)

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

// LoadError is the reason why a plugin was not loaded. Its text names the
// plugin, the symbol or field, and what to do.
type LoadError struct {
	Plugin string
	Step   string // one of the steps above
	Err    error  // a [*Fault] if guest code failed
}

func (g *Guest) loadError(step string, err error) error {
	return &LoadError{Plugin: g.name, Step: step, Err: err}
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("plugin %q: %s: %v", e.Plugin, stepVerbs[e.Step], e.Err)
}

func (e *LoadError) Unwrap() error { return e.Err }

// FailureClass returns the class of the load: that of the guest's fault if its
// code ran, else [abi.ClassABI].
func (e *LoadError) FailureClass() abi.Class {
	if fault, ok := errors.AsType[*Fault](e.Err); ok {
		return fault.Class
	}
	return abi.ClassABI
}

// Advice returns what to do about the error, or "" if its text contains that.
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
		return fault.loadAdvice()
	}
	return ""
}

func (f *Fault) loadAdvice() string {
	switch f.Class {
	case abi.ClassOutOfMemory:
		return "let the plugin need less memory when it is loaded, or raise limits.memoryMiB in its policy or the host's configuration"
	case abi.ClassTimeout:
		return "let the plugin do less when it is loaded, or raise limits.timeout in its policy or the host's configuration"
	default:
		return "this is the plugin's own code, which runs when it is loaded: run its tests"
	}
}

// loadFailureCache keeps the errors of loads that took too long. Another attempt
// would take as long again, and modules are compiled one at a time.
type loadFailureCache struct{ errors *lru.Cache } // from loadKey to *LoadError

// loadKey is what the result of a load depends on.
type loadKey struct {
	digest string
	limits Limits
}

// maxLoadFailures bounds the cache; the least recently used error is dropped.
const maxLoadFailures = 256

// notTriedAgain follows the reason in the text of a kept error.
const notTriedAgain = "it is not tried again until the file or its limits change, or the host restarts"

func newLoadFailureCache() loadFailureCache { return loadFailureCache{lru.New(maxLoadFailures)} }

// check returns the kept error of the guest's module, or nil.
func (c loadFailureCache) check(g *Guest) error {
	kept, ok := c.errors.Get(loadKey{g.digest, g.limits})
	if !ok {
		return nil
	}
	before := kept.(*LoadError)
	return g.loadError(before.Step, before.Err)
}

// note keeps the error of a load if it took too long. It returns err with the
// note that the load is not tried again in that case.
func (c loadFailureCache) note(g *Guest, err error) error {
	failed, ok := errors.AsType[*LoadError](err)
	if !ok || !tookTooLong(failed) {
		return err
	}
	kept := &LoadError{Plugin: failed.Plugin, Step: failed.Step, Err: fmt.Errorf("%w; %s", withoutOutput(failed.Err), notTriedAgain)}
	c.errors.Add(loadKey{g.digest, g.limits}, kept)
	return kept
}

func tookTooLong(err *LoadError) bool {
	return errors.Is(err, deadline.ErrPassed) || errors.Is(err, native.ErrTooExpensive) || err.FailureClass() == abi.ClassTimeout
}

// withoutOutput returns an error without what a guest has printed, which takes
// memory as long as the error is kept.
func withoutOutput(err error) error {
	fault, ok := errors.AsType[*Fault](err)
	if !ok {
		return err
	}
	out := *fault
	out.Stdout, out.Stderr = nil, nil
	return &out
}
