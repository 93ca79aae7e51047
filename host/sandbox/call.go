package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/schedule"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// This file has the state of one call: what it reads and writes, what
// the host does for it, the limits that it hits, and its execution slot.

// call is the state of one entry into guest code, which the host functions
// share. It must be used by one goroutine at a time.
type call struct {
	limits *Limits
	task   *schedule.Task // nil, or with the slot that guest code runs in
	host   HostCalls      // nil while loading: capabilities return denied
	denied []string       // imports that this export may not call
	log    func(level int32, message []byte)

	input        inputText // of the request or the last reply, what the guest has not read yet
	output       []byte
	outputBuffer *[]byte // of outputBuffers, if a large output is in one
	hostCalls    int
	logged       int      // bytes, with logOverhead for each message
	limitsHit    []string // without duplicates

	fuel     fuel
	looked   time.Time // when a tick did more than to look at the clock
	stack    nativeStack
	hostCost int64 // fuel that the running host function costs
	process  wasi.Process
}

func newCall(limits *Limits, now time.Time, seed [32]byte) *call {
	return &call{
		limits:  limits,
		log:     func(int32, []byte) {},
		fuel:    fuel{limit: limits.Fuel, slice: sliceFuel},
		process: wasi.NewProcess(now, seed, limits.StdioBytes),
	}
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	c.task = taskOf(ctx)
	return context.WithValue(ctx, callKey{}, c)
}

// callOf returns the call of a host function's context. Guest code is only
// entered with a context of withCall.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// largeOutput is the size from which an output is written into a buffer that is
// used again. Most outputs are a few KiB. Without these buffers a guest that
// writes until it is stopped would keep the garbage collector busy.
const largeOutput = 64 << 10

var outputBuffers sync.Pool // of *[]byte

// outputWithRoom returns the output so far, with room for n more bytes if it
// becomes large.
func (c *call) outputWithRoom(n int) []byte {
	length := len(c.output)
	if n <= cap(c.output)-length || length+n <= largeOutput {
		return c.output
	}
	buffer, _ := outputBuffers.Get().(*[]byte)
	if buffer == nil || cap(*buffer) < c.limits.OutputBytes {
		made := make([]byte, 0, c.limits.OutputBytes)
		buffer = &made
	}
	c.outputBuffer = buffer
	return append((*buffer)[:0], c.output...)
}

// takeOutput returns the output of a call that ended with err, for the caller to
// keep. The output of a call that failed is discarded.
func (c *call) takeOutput(err error) []byte {
	out := c.output
	if err != nil {
		out = nil
	} else if c.outputBuffer != nil {
		out = bytes.Clone(c.output)
	}
	if c.outputBuffer != nil {
		outputBuffers.Put(c.outputBuffer)
	}
	c.output, c.outputBuffer = nil, nil
	return out
}

// The work of the host for a guest costs the guest fuel, so that a call ends in
// time and other calls get their turn even if the host does most of the work.
// The amounts are about what guest code executes in the same time. They are
// fixed, because the same call must always cost the same. The call of a host
// function as such is paid like other instructions.
const (
	logCost        = 5_000 // of a message that is kept: it is formatted and written
	hostCallCost   = 1_000 // of a get or list, besides its bytes
	bytesPerFuel   = 4     // that are copied
	randomByteCost = 2
)

func copyCost(bytes int) int64 { return int64(bytes / bytesPerFuel) }

// chargeSystemCall charges for the work of the system interface.
func (c *call) chargeSystemCall() {
	copied, random := c.process.TakeWork()
	c.hostCost += copyCost(copied) + int64(random)*randomByteCost
}

// payHostCost takes the cost of a host function that has returned from the
// guest's fuel. If the guest does not have as much, it is at a tick.
func (c *call) payHostCost(ctx context.Context) {
	if c.hostCost == 0 {
		return
	}
	left := int64(c.fuel.global.Get()) - c.hostCost
	c.hostCost = 0
	c.fuel.global.Set(uint64(left))
	if left < 0 {
		c.fuel.global.Set(uint64(c.refuel(ctx, left)))
	}
}

// abortError ends a call from within, by a panic: the guest has hit a limit or
// broken the contract, or the context has ended.
type abortError struct {
	class   abi.Class // "" if the guest has not failed
	message string
	limit   string // that is counted; "" if none is
	cause   error  // of the context's end; nil if it has not ended
}

func (e *abortError) Error() string { return e.message }
func (e *abortError) Unwrap() error { return e.cause }

// contextEnded returns the error for a call whose context has ended.
func contextEnded(cause error) *abortError {
	if errors.Is(cause, deadline.ErrPassed) {
		return &abortError{class: abi.ClassTimeout, message: "the deadline of the call passed", limit: LimitTimeout, cause: cause}
	}
	return &abortError{message: cause.Error(), cause: cause}
}

// violate ends a call because the guest has used a function of the host in a way
// that the ABI does not allow.
func violate(format string, args ...any) {
	panic(&abortError{class: abi.ClassABI, message: fmt.Sprintf(format, args...)})
}

const nestsTooDeeply = "the guest's calls nest too deeply: look for recursion without an end"

// noteLimit notes a limit that the call has hit.
func (c *call) noteLimit(limit string) {
	if !slices.Contains(c.limitsHit, limit) {
		c.limitsHit = append(c.limitsHit, limit)
	}
}

// reportLimits counts the limits that a call on an instance with that memory has
// hit.
func (g *Guest) reportLimits(c *call, linear *memory.Linear) {
	if refused := linear.Refused(); refused != nil && !errors.Is(refused, ErrHostMemory) {
		c.noteLimit(LimitMemory)
	}
	for _, limit := range c.limitsHit {
		g.metrics.Limited(limit)
	}
}

type taskKey struct{}

// taskOf returns the scheduler's task of ctx's call, or nil.
func taskOf(ctx context.Context) *schedule.Task {
	task, _ := ctx.Value(taskKey{}).(*schedule.Task)
	return task
}

// acquireSlot blocks until the call has an execution slot. Guest code must be
// entered with the returned context, and the task must be released once the
// instance is restored. If ctx has a task already that one is used, and the
// returned one is nil, which need not be released.
func (g *Guest) acquireSlot(ctx context.Context) (context.Context, *schedule.Task, error) {
	if task := taskOf(ctx); task != nil && !task.Released() {
		return ctx, nil, nil
	}
	task, err := g.scheduled.Acquire(ctx)
	if err != nil {
		return ctx, nil, fmt.Errorf("wait for a slot: %w", err)
	}
	return context.WithValue(ctx, taskKey{}, task), task, nil
}

// acquireCode is [native.Code.Acquire] for a call that has a slot, which other
// calls may use while the code is reloaded.
func (g *Guest) acquireCode(ctx context.Context, c *call) (native.Module, error) {
	c.task.Block()
	n, err := g.code.Acquire(ctx)
	if lost := deadline.Pause(ctx, c.task.Unblock); lost != nil && err == nil {
		g.code.Release()
		return native.Module{}, lost
	}
	return n, err
}
