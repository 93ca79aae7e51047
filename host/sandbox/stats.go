package sandbox

import "context"

// Stats are a guest's numbers since it was loaded.
type Stats struct {
	Mode           string // reset, pooled or fresh
	Idle, Busy     int    // instances now
	IdleBytes      uint64 // memory of the idle instances
	ImageBytes     uint64 // memory of an instance when its call begins
	Calls, Faults  uint64 // reconciles begun, and those that failed
	Created        uint64 // instances
	Dropped        uint64 // instances, after a failure or growth
	InstancesLimit int
	Compiled       bool   // its native code is in memory
	Wakes          uint64 // how often that was brought back
}

// Stats reads the numbers.
func (g *Guest) Stats() Stats {
	s := Stats{
		Mode:           g.mode.String(),
		Calls:          g.calls.Load(),
		Faults:         g.faults.Load(),
		Created:        g.created.Load(),
		Dropped:        g.dropped.Load(),
		InstancesLimit: g.limits.Instances,
	}
	s.Compiled, s.Wakes = g.code.Stats()
	s.Idle, s.Busy, s.IdleBytes = g.pool.counts()
	if im := g.image.Load(); im != nil {
		s.ImageBytes = im.memory.Size()
	}
	return s
}

// Trim closes idle instances but keep. The next calls make new ones, from the
// image and the compiled code, which stay.
func (g *Guest) Trim(ctx context.Context, keep int) {
	for _, in := range g.pool.drain(max(0, keep)) {
		in.close(ctx)
	}
}
