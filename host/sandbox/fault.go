package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// failure explains an entry into an instance that did not return.
func (in *instance) failure(err error, c *call) error {
	err = failure(err, c, in.linear)
	f, ok := errors.AsType[*Fault](err)
	if ok && f.Class == abi.ClassPanic && in.stackUnderflow() {
		f.Class = abi.ClassStackOverflow
		f.Message = "the guest's own stack is used up: " + f.Message
	}
	return err
}

// stackUnderflow tells whether the stack that LLVM keeps in memory has run
// below address zero, which the first access then traps on. LLVM keeps the
// pointer in the first global.
func (in *instance) stackUnderflow() bool {
	if in.image == nil || len(in.globals) == 0 || in.globals[0].Type() != api.ValueTypeI32 {
		return false
	}
	return int32(in.globals[0].Get()) < 0 && int32(in.image.globals[0]) > 0
}

// failure makes a [*Fault] of what the engine returned. A context that ended
// for another reason than the call's deadline is not the guest's fault and
// stays what it is.
func failure(err error, c *call, linear *memory.Linear) error {
	c.hitBy(err)
	if over, ok := overran(err); ok {
		if _, _, guests := over.fault(c); !guests {
			return fmt.Errorf("call guest: %w", over.cause)
		}
	}
	f := &Fault{
		Stdout:      c.process.Stdout.Bytes(),
		Stderr:      c.process.Stderr.Bytes(),
		MemoryBytes: linear.Size(),
		Fuel:        c.fuel.used,
	}
	f.Stack = stackOf(err, f.Stderr)
	f.Class, f.Message = classify(err, c)
	if f.Class == abi.ClassPanic {
		words := f.lastWords()
		f.Class = refine(words, linear.Refused() != nil)
		if words != "" {
			f.Message = words + " (" + f.Message + ")"
		}
		if refused := linear.Refused(); refused != nil {
			f.Message += ": " + refused.Error()
			f.cause = refused
		}
	}
	return f
}

// classify tells the class by how the entry ended.
func classify(err error, c *call) (abi.Class, string) {
	var broken *violation
	var exit *wasi.Exit
	var over *overrun
	var hostPanic runtime.Error
	switch {
	case errors.As(err, &broken):
		return abi.ClassABI, broken.message
	case errors.As(err, &exit):
		return abi.ClassPanic, exit.Error()
	case errors.As(err, &over):
		class, message, _ := over.fault(c)
		return class, message
	case errors.As(err, &hostPanic):
		return abi.ClassRetry, "the host failed inside of a call: " + hostPanic.Error()
	}
	trap := trapOf(err)
	if trap == "stack overflow" {
		return abi.ClassStackOverflow, nestsTooDeeply
	}
	return abi.ClassPanic, "trap: " + trap
}

// refine tells the special panics by what the guest's runtime said.
func refine(words string, growthRefused bool) abi.Class {
	switch {
	case growthRefused, strings.Contains(words, "out of memory"):
		return abi.ClassOutOfMemory
	case strings.Contains(words, "stack overflow"), strings.Contains(words, "stack exceeds"):
		return abi.ClassStackOverflow
	}
	return abi.ClassPanic
}
