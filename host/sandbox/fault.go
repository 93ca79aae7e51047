package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/wasi"
	"github.com/thole-dev/thole/host/sanitize"
)

// ErrHostMemory is the error for memory beyond what the host has for all plugins
// together ([Config.MemoryBytes]), or beyond what the system gives it. It passes
// when other calls end.
var ErrHostMemory = memory.ErrExhausted

// Fault is the error of a call that did not return as the ABI specifies: it
// trapped, exited, hit a limit, or returned something else.
type Fault struct {
	// Class is the failure's class (abi/SPEC.md, "Error classes").
	Class abi.Class
	// Message is what happened, in the words of the host.
	Message string
	// Stack lists the active functions, innermost first, as far as they are
	// known, by the names that the module has.
	Stack []string
	// Printed is the line in which the guest's runtime printed why it exits, "" if
	// there is none, and PrintedStack the functions that it printed. They may hold
	// anything that the guest has read: they are for the log alone.
	Printed      string
	PrintedStack []string
	// Stdout and Stderr are the last bytes that the guest printed, up to
	// [Limits.StdioBytes] each.
	Stdout, Stderr []byte

	cause error
}

// Unwrap returns [ErrHostMemory] if the guest was refused memory that its own
// limit allows.
func (f *Fault) Unwrap() error { return f.cause }

// HostCaused reports whether the guest is not to blame: it was refused memory
// because others have it, and had no more than an even share itself.
func (f *Fault) HostCaused() bool {
	return errors.Is(f.cause, ErrHostMemory) && !memory.ExceedsEvenShare(f.cause)
}

// Error returns class and message: nothing that the guest has printed.
func (f *Fault) Error() string { return string(f.Class) + ": " + f.Message }

// GuestPrinted returns what the guest printed as it failed, for the log alone; "" for
// nothing.
func (f *Fault) GuestPrinted() string { return f.Printed }

// FailureClass returns the class, for errors that wrap a fault.
func (f *Fault) FailureClass() abi.Class { return f.Class }

func newFault(c *call, class abi.Class, message string) *Fault {
	return &Fault{Class: class, Message: message, Stdout: c.process.Stdout.Bytes(), Stderr: c.process.Stderr.Bytes()}
}

// failure returns the error for an entry into an instance that did not return.
func (in *instance) failure(err error, c *call) error {
	err = failure(err, c, in.linear)
	f, ok := errors.AsType[*Fault](err)
	if ok && f.Class == abi.ClassPanic && in.stackUnderflow() {
		f.Class = abi.ClassStackOverflow
		f.Message = "the guest's own stack is used up: " + f.Message
	}
	return err
}

// stackUnderflow reports whether the stack that LLVM keeps in memory has grown
// below address zero, so that the first access to it trapped. LLVM keeps the
// stack pointer in the first global.
func (in *instance) stackUnderflow() bool {
	if len(in.globals) == 0 || in.globals[0].Type() != api.ValueTypeI32 {
		return false
	}
	return int32(in.globals[0].Get()) < 0 && int32(in.top) > 0
}

// failure makes a [*Fault] of the engine's error. If a context ended for another
// reason than the call's deadline, the guest has not failed, and the error wraps
// the cause.
func failure(err error, c *call, linear *memory.Linear) error {
	abort, ok := errors.AsType[*abortError](err)
	switch {
	case ok && errors.Is(abort.cause, ErrHostMemory):
		f := newFault(c, abi.ClassOutOfMemory, abort.cause.Error())
		f.cause = abort.cause
		return f
	case ok && abort.class == "":
		return fmt.Errorf("call guest: %w", abort.cause)
	case ok && abort.limit != "":
		c.noteLimit(abort.limit)
	}
	class, message := classify(err)
	f := newFault(c, class, message)
	f.Stack, f.PrintedStack = stackTrace(err), goroutineTrace(string(f.Stderr))
	if f.Class != abi.ClassPanic {
		return f
	}
	refused := linear.Refused()
	f.Printed = f.runtimeMessage()
	f.Class = refineClass(f.Printed, refused != nil)
	if refused != nil {
		f.Message += ": " + refused.Error()
		f.cause = refused
	}
	return f
}

// classify returns the class and message for the way in which an entry ended.
func classify(err error) (abi.Class, string) {
	var abort *abortError
	var exit *wasi.Exit
	var hostPanic runtime.Error
	switch {
	case errors.As(err, &abort):
		return abort.class, abort.message
	case errors.As(err, &exit):
		return abi.ClassPanic, exit.Error()
	case errors.As(err, &hostPanic):
		return abi.ClassRetry, "the host failed inside of a call: " + hostPanic.Error()
	}
	trap := trapOf(err)
	if trap == "stack overflow" {
		return abi.ClassStackOverflow, nestsTooDeeply
	}
	return abi.ClassPanic, "trap: " + trap
}

// refineClass returns the class of a panic by the message of the guest's runtime.
func refineClass(line string, growthRefused bool) abi.Class {
	switch {
	case growthRefused, strings.Contains(line, "out of memory"):
		return abi.ClassOutOfMemory
	case strings.Contains(line, "stack overflow"), strings.Contains(line, "stack exceeds"):
		return abi.ClassStackOverflow
	}
	return abi.ClassPanic
}

// runtimeMessagePrefixes begin the line in which a language's runtime prints why
// it exits.
var runtimeMessagePrefixes = [][]byte{
	[]byte("panic: "), []byte("fatal error: "), []byte("runtime: goroutine stack exceeds"), []byte("runtime: out of memory"),
}

// maxRuntimeMessage bounds that line, in bytes.
const maxRuntimeMessage = 512

// runtimeMessage returns the line in which the guest's runtime printed why it
// exits, from stderr (standard Go) or stdout (TinyGo), or "".
func (f *Fault) runtimeMessage() string {
	for _, printed := range [][]byte{f.Stderr, f.Stdout} {
		for line := range bytes.Lines(printed) {
			if slices.ContainsFunc(runtimeMessagePrefixes, func(prefix []byte) bool { return bytes.HasPrefix(line, prefix) }) {
				return sanitize.Truncate(string(bytes.TrimSpace(line)), maxRuntimeMessage)
			}
		}
	}
	return ""
}

// The texts by which the engine's errors are taken apart: it has no other way to
// name the trap and the active functions.
const (
	trapPrefix        = "wasm error: "
	startFailedPrefix = " failed: "
	traceHeader       = "\nwasm stack trace:\n\t"
	goTraceHeader     = "\n\nGo runtime stack trace:"
)

// trapOf returns the engine's name of the trap.
func trapOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), traceHeader)
	if _, trap, ok := strings.Cut(text, trapPrefix); ok {
		return trap
	}
	// A stack overflow has no prefix of its own.
	if _, trap, ok := strings.Cut(text, startFailedPrefix); ok {
		return trap
	}
	return text
}

// stackTrace returns the functions that were active, innermost first, as the engine
// names them. Standard Go keeps its stacks in memory and prints them: of its functions
// the engine shows those at the end.
func stackTrace(err error) []string {
	_, trace, ok := strings.Cut(err.Error(), traceHeader)
	if !ok {
		return nil
	}
	trace, _, _ = strings.Cut(trace, goTraceHeader)
	frames := strings.Split(trace, "\n\t")
	for i, frame := range frames {
		frame = strings.TrimPrefix(strings.TrimSpace(frame), ".")
		frames[i] = frameSignature.ReplaceAllString(frame, "")
	}
	return slices.DeleteFunc(frames, meter.AddedFrame)
}

// frameSignature is the signature behind a function's name, as in
// "main.(*worker).run(i32,i64) i32".
var frameSignature = regexp.MustCompile(`\([a-z0-9,]*\)( [(),a-z0-9]+)?$`)

const maxFrames = 30 // as in the engine's traces

// goroutineTrace returns the functions of the first trace that standard Go has
// printed: for each a line "main.run(0x1, ...)", followed by an indented line
// with the place.
func goroutineTrace(stderr string) []string {
	_, trace, ok := strings.Cut(stderr, "\ngoroutine ")
	if !ok {
		return nil
	}
	trace, _, _ = strings.Cut(trace, "\n\n")
	var frames []string
	for _, line := range strings.Split(trace, "\n")[1:] {
		if line == "" || line[0] == '\t' || len(frames) == maxFrames {
			continue
		}
		if end := strings.LastIndexByte(line, '('); end > 0 {
			line = line[:end]
		}
		frames = append(frames, line)
	}
	return frames
}
