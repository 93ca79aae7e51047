package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/schedule"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// This file has the state of one call: what it reads and writes, its fuel, the
// limits that it hits, and its execution slot.

// call is the state of one entry into guest code, which the host functions
// share. It must be used by one goroutine at a time.
type call struct {
	limits *Limits
	task   *schedule.Task // nil, or with the slot that guest code runs in
	host   HostCalls      // nil while loading: capabilities return denied
	log    func(level int32, message []byte)

	input        []byte // of the request or the last reply, what the guest has not read yet
	output       []byte
	outputBuffer *[]byte // of outputBuffers, if a large output is in one
	hostCalls    int
	logged       int      // bytes, with logOverhead for each message
	limitsHit    []string // without duplicates

	fuel     fuel
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

// Guest code counts what it executes (see package meter) and calls tick when its
// slice of fuel is used up. Deadlines, the fuel limit, the stack limit and the
// scheduler take effect there: nothing else can stop or pause native code.

// sliceFuel is how much a guest executes from one tick to the next, up to one
// segment more: 20 to 300 microseconds.
const sliceFuel = 500_000

// fuel is the account of one call. Fuel that was granted and is not left over
// has been used.
type fuel struct {
	limit  int64
	slice  int64
	used   int64             // as of when it was settled last
	unused int64             // what the global held then, or by a grant since
	global api.MutableGlobal // of the instance, which holds what is left of the grant
}

// grant returns the next slice. It never extends beyond the limit, so that a
// call ends at the same check whatever the slice is.
func (f *fuel) grant() int64 {
	f.unused = min(f.slice, f.limit-f.used)
	return f.unused
}

// settle adds what was used since the last grant. left is what the global holds,
// which is below zero if more was used than granted.
func (f *fuel) settle(left int64) {
	f.used += f.unused - left
	f.unused = left
}

// begin grants fuel before an instance is entered.
func (f *fuel) begin(global api.MutableGlobal) {
	f.global = global
	global.Set(uint64(f.grant()))
}

// end settles the fuel after the instance was left.
func (f *fuel) end() { f.settle(int64(f.global.Get())) }

// tick is called by guest code whose fuel is below zero.
func tick(ctx context.Context, stack []uint64) {
	stack[0] = uint64(callOf(ctx).refuel(ctx, int64(stack[0])))
}

// refuel settles what is left and returns more fuel, or ends the call by a panic
// with a [*abortError]. Other calls may run before it returns.
func (c *call) refuel(ctx context.Context, left int64) int64 {
	c.fuel.settle(left)
	if c.fuel.used > c.fuel.limit {
		panic(&abortError{class: abi.ClassTimeout, limit: LimitFuel, message: fmt.Sprintf(
			"the fuel of the call is used up: more than %d instructions: look for a loop without an end, or do less in one call", c.fuel.limit)})
	}
	if c.stack.size() > maxStack {
		panic(&abortError{class: abi.ClassStackOverflow, message: nestsTooDeeply})
	}
	if err := deadline.Pause(ctx, c.task.Yield); err != nil {
		panic(contextEnded(err))
	}
	return c.fuel.grant()
}

// fuelGlobal returns the global that holds an instance's fuel.
func fuelGlobal(m api.Module) api.MutableGlobal {
	return m.ExportedGlobal(meter.FuelExport).(api.MutableGlobal)
}

// addTick makes tick available in a runtime.
func addTick(ctx context.Context, r wazero.Runtime) error {
	one := []api.ValueType{api.ValueTypeI64}
	_, err := r.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(tick), one, one).Export(meter.ImportTick).Instantiate(ctx)
	if err != nil {
		return fmt.Errorf("add host module %s: %w", meter.ImportModule, err)
	}
	return nil
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
func (c *call) payHostCost(ctx context.Context, guest api.Module) {
	if c.hostCost == 0 {
		return
	}
	if c.fuel.global == nil { // in the start function
		c.fuel.global = fuelGlobal(guest)
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
