package dispatch

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// A key that wrote in loopRuns runs running within loopWindow writes in a
// circle, with itself or with somebody else: it then runs no more than once
// per loopPause, until a run writes nothing.
const (
	loopRuns   = 5
	loopWindow = 10 * time.Second
	loopPause  = 10 * time.Second
)

// guard watches one key for write loops.
type guard struct {
	wrote []time.Time // the last runs running that wrote, at most loopRuns
	until time.Time   // no run before; zero: not in a loop
}

// ran takes the end of a run and says whether the key is in a loop.
func (g *guard) ran(now time.Time, wrote bool) (looping bool) {
	if !wrote {
		*g = guard{}
		return false
	}
	if g.wrote = append(g.wrote, now); len(g.wrote) > loopRuns {
		g.wrote = slices.Delete(g.wrote, 0, 1)
	}
	recent := len(g.wrote) == loopRuns && now.Sub(g.wrote[0]) <= loopWindow
	if !recent && g.until.IsZero() {
		return false
	}
	g.until = now.Add(loopPause)
	return true
}

// pause returns how long the key of a due run must wait. Somebody who asks for
// a run gets it.
func (g *guard) pause(now time.Time, reasons []abi.Reason) time.Duration {
	if slices.Contains(reasons, abi.ReasonRequest) {
		return 0
	}
	return g.until.Sub(now)
}

// held returns how long a due key must wait because it is in a write loop;
// what it is due for is kept for the run that it gets. A cleanup is never
// held, nor is the first run of another generation: what its predecessor wrote
// is no loop of its own.
func (c *Controller) held(due Due, primary *object.Object) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[due.Key]
	if s == nil || s.uid != primary.UID || s.stale || primary.Deleting() {
		return 0
	}
	pause := s.guard.pause(time.Now(), due.Reasons)
	if pause > 0 {
		s.missed = s.missed.merge(due)
	}
	return pause
}

// merge returns a due run that is due for both.
func (d Due) merge(other Due) Due {
	for _, reason := range other.Reasons {
		if !slices.Contains(d.Reasons, reason) {
			d.Reasons = append(d.Reasons, reason)
		}
	}
	d.Key, d.Reset = other.Key, d.Reset || other.Reset
	return d
}

// loopEvent is what people see of a write loop.
func loopEvent() *abi.Event {
	return &abi.Event{
		Type: abi.EventWarning, Reason: "WriteLoop",
		Message: "reconciled with writes in 5 runs within 10 s: it is slowed to one run in 10 s; somebody else may undo what this controller writes, or it wants another thing in every run",
	}
}
