package sandbox

import (
	"context"

	"github.com/tetratelabs/wazero/api"
)

// What the host does for a guest costs the guest fuel, so that a call is over
// in time, and others get their turn, however much of it is done by the host.
// The amounts are about what guest code executes in the same time; they are
// fixed, as the same call must always cost the same. The call of a host
// function as such is paid like other instructions.
const (
	logFuel      = 5_000 // of a line that is kept: it is formatted and written
	askFuel      = 1_000 // of a capability call, beside its bytes
	bytesPerFuel = 4     // that are copied
	randomFuel   = 2     // of a byte from the random stream
)

func copyFuel(bytes int) int64 { return int64(bytes / bytesPerFuel) }

// owe is for host functions, which are paid when they have returned.
func (c *call) owe(fuel int64) { c.owed += fuel }

// oweWork is for functions of the system interface.
func (c *call) oweWork() {
	copied, random := c.process.Work()
	c.owe(copyFuel(copied) + int64(random)*randomFuel)
}

// pay takes what a host function costs from the guest, and is a tick if the
// guest does not have as much.
func (c *call) pay(ctx context.Context, guest api.Module) {
	if c.owed == 0 {
		return
	}
	if c.fuel.tank == nil { // in the start function
		c.fuel.tank = tankOf(guest)
	}
	left := int64(c.fuel.tank.Get()) - c.owed
	c.owed = 0
	if left < 0 {
		c.fuel.tank.Set(0) // all of it is settled, also if the call ends here
		left = c.refuel(ctx, left)
	}
	c.fuel.tank.Set(uint64(left))
}
