package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/meter"
)

// Guest code counts what it executes (see the meter package) and calls tick
// when its slice is used up. That is where deadlines, the fuel budget and the
// scheduler reach it: nothing else can stop or pause native code.

// sliceFuel is how much a guest executes from one tick to the next, up to one
// segment more: 20 to 300 microseconds.
const sliceFuel = 500_000

// defaultFuel is some seconds of what controllers do. A loop that does next to
// nothing takes longer for as much: the deadline ends it first.
const defaultFuel = 100_000_000_000

// errFuel is the cause of an overrun of the fuel budget.
var errFuel = errors.New("fuel used up")

// fuel is the account of one call. What was granted and is not yet left over
// has been used.
type fuel struct {
	limit   int64
	slice   int64
	used    int64 // up to the last grant
	granted int64 // then
	open    bool  // what was granted is not settled yet
	tank    api.MutableGlobal
}

// grant answers the next slice. It never reaches beyond the limit, so that a
// call ends at the same check whatever the slice is.
func (f *fuel) grant() int64 {
	f.granted, f.open = min(f.slice, f.limit-f.used), true
	return f.granted
}

// settle takes what is left of the last grant, once; below zero is a debt.
func (f *fuel) settle(left int64) {
	if f.open {
		f.used += f.granted - left
		f.open = false
	}
}

// fill is for the entry into an instance, and drain for after it.
func (f *fuel) fill(tank api.MutableGlobal) {
	f.tank = tank
	tank.Set(uint64(f.grant()))
}

func (f *fuel) drain() {
	f.settle(int64(f.tank.Get()))
	f.tank.Set(0)
}

// tick is called by guest code whose fuel is below zero.
func tick(ctx context.Context, stack []uint64) {
	stack[0] = uint64(callOf(ctx).refuel(ctx, int64(stack[0])))
}

// refuel answers more fuel for what is left, or ends the call.
func (c *call) refuel(ctx context.Context, left int64) int64 {
	c.fuel.settle(left)
	if c.fuel.used > c.fuel.limit {
		panic(&overrun{errFuel})
	}
	if c.stack.size() > mostStack {
		panic(&overrun{errStack})
	}
	// Others run if it is their turn.
	if err := deadline.Unhurried(ctx, c.turn.Yield); err != nil {
		panic(&overrun{err})
	}
	return c.fuel.grant()
}

// tankOf is the global that holds an instance's fuel.
func tankOf(m api.Module) api.MutableGlobal {
	return m.ExportedGlobal(meter.FuelExport).(api.MutableGlobal)
}

// instantiateTick makes tick importable.
func instantiateTick(ctx context.Context, r wazero.Runtime) error {
	one := []api.ValueType{api.ValueTypeI64}
	_, err := r.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(tick), one, one).Export(meter.ImportTick).Instantiate(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", meter.ImportModule, err)
	}
	return nil
}
