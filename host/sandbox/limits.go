package sandbox

import (
	"errors"
	"slices"

	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/schedule"
)

// The limits whose hits are counted.
const (
	LimitMemory    = "memory"    // the guest did not get more
	LimitTimeout   = "timeout"   // ended a call
	LimitFuel      = "fuel"      // ended a call
	LimitOutput    = "output"    // ended a call
	LimitReply     = "reply"     // the guest got -6 for its get or list
	LimitHostCalls = "hostCalls" // ended a call
	LimitLog       = "log"       // lines of a call were dropped
	LimitInstances = "instances" // a call waited for another one's instance
)

// LimitNames returns the limits whose hits are counted, for metrics that exist at
// zero.
func LimitNames() []string {
	return []string{
		LimitMemory, LimitTimeout, LimitFuel, LimitOutput,
		LimitReply, LimitHostCalls, LimitLog, LimitInstances,
	}
}

// Metrics is told what the calls of one plugin meet.
type Metrics interface {
	schedule.Metrics
	// Limited counts a limit that ended or bounded what a call did, once per
	// call however often it was hit.
	Limited(limit string)
}

// hit notes a limit that the call has met.
func (c *call) hit(limit string) {
	if !slices.Contains(c.hits, limit) {
		c.hits = append(c.hits, limit)
	}
}

// hitBy notes the limit that ended an entry into the guest with err.
func (c *call) hitBy(err error) {
	over, ok := overran(err)
	switch {
	case !ok:
	case errors.Is(over.cause, deadline.ErrPassed):
		c.hit(LimitTimeout)
	case errors.Is(over.cause, errFuel):
		c.hit(LimitFuel)
	}
}

// countHits is for the end of a call on an instance with that memory.
func (g *Guest) countHits(c *call, linear *memory.Linear) {
	if refused := linear.Refused(); refused != nil && !errors.Is(refused, ErrHostMemory) {
		c.hit(LimitMemory)
	}
	for _, limit := range c.hits {
		g.metrics.Limited(limit)
	}
}
