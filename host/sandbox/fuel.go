package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/meter"
)

// This file has the account of what a call executes. Guest code counts it (see
// package meter) and calls tick when its slice of fuel is used up. Deadlines, the
// fuel limit, the stack limit and the scheduler take effect there: nothing else
// can stop or pause native code.

// The fuel from one tick to the next is such that less than 5 ms of processor
// time pass, whatever the guest executes (meter/RATIONALE.md, "How long is it
// from one tick to the next?"). A memory that fits into the caches of one
// processor answers so much faster that a slice can be larger.
const (
	sliceFuel      = 100_000 // with a memory of at most cachedMemory
	largeSliceFuel = 20_000
	cachedMemory   = 512 << 10
)

// fuel is the account of one call. Fuel that was granted and is not left over
// has been used.
type fuel struct {
	limit  int64
	slice  int64             // at most
	used   int64             // as of when it was settled last
	unused int64             // what the global held then, or by a grant since
	global api.MutableGlobal // of the instance, which holds what is left of the grant
	linear *memory.Linear    // of the instance
}

// onSlice, if it is set, is called when a slice begins, and at the tick that ends
// it. Tests measure how long that takes.
var onSlice func(begins bool)

// grant returns the next slice. It never extends beyond the limit, so that a
// call ends at the same check whatever the slice is.
func (f *fuel) grant() int64 {
	slice := f.slice
	if f.linear.Size() > cachedMemory {
		slice = min(slice, largeSliceFuel)
	}
	f.unused = min(slice, f.limit-f.used)
	if onSlice != nil {
		onSlice(true)
	}
	return f.unused
}

// begin grants fuel before an instance is entered.
func (f *fuel) begin(global api.MutableGlobal, linear *memory.Linear) {
	f.global, f.linear = global, linear
	global.Set(uint64(f.grant()))
}

// settle adds what was used since the last grant. left is what the global holds,
// which is below zero if more was used than granted.
func (f *fuel) settle(left int64) {
	f.used += f.unused - left
	f.unused = left
}

// end settles the fuel after the instance was left.
func (f *fuel) end() { f.settle(int64(f.global.Get())) }

// lookEvery is how often a call looks whether its deadline has passed, or others
// are to run. Ticks come more often: most of them look at the clock alone.
const lookEvery = 50 * time.Microsecond

// tick is called by guest code whose fuel is below zero.
func tick(ctx context.Context, stack []uint64) {
	stack[0] = uint64(callOf(ctx).refuel(ctx, int64(stack[0])))
}

// refuel settles what is left and returns more fuel, or ends the call by a panic
// with a [*abortError]. Other calls may run before it returns.
func (c *call) refuel(ctx context.Context, left int64) int64 {
	if onSlice != nil {
		onSlice(false)
	}
	c.fuel.settle(left)
	if c.fuel.used > c.fuel.limit {
		panic(&abortError{class: abi.ClassTimeout, limit: LimitFuel, message: fmt.Sprintf(
			"the fuel of the call is used up: more than %d: look for a loop without an end, or do less in one call", c.fuel.limit)})
	}
	if c.stack.size() > maxStack {
		panic(&abortError{class: abi.ClassStackOverflow, message: nestsTooDeeply})
	}
	if err := c.fuel.linear.HoldStack(c.stack.grown()); err != nil {
		panic(&abortError{class: abi.ClassOutOfMemory, message: err.Error(), cause: err})
	}
	if time.Since(c.looked) < lookEvery {
		return c.fuel.grant()
	}
	c.looked = time.Now()
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
