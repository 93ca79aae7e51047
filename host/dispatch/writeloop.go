package dispatch

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
)

// A key whose last loopRuns runs all wrote, within loopWindow, is in a write
// loop: with itself, or with another writer. From then on it runs at most once
// per loopPause, until a run writes nothing.
const (
	loopRuns   = 5
	loopWindow = 10 * time.Second
	loopPause  = 10 * time.Second
)

// writeLoop detects the write loop of one key.
type writeLoop struct {
	wrote       []time.Time // ends of the last runs that wrote without one in between that did not; at most loopRuns
	pausedUntil time.Time   // zero: the key is in no write loop
}

// ended records the end of a run, and reports whether the key is in a write loop.
func (l *writeLoop) ended(now time.Time, wrote bool) bool {
	if !wrote {
		*l = writeLoop{}
		return false
	}
	if l.wrote = append(l.wrote, now); len(l.wrote) > loopRuns {
		l.wrote = slices.Delete(l.wrote, 0, 1)
	}
	fast := len(l.wrote) == loopRuns && now.Sub(l.wrote[0]) <= loopWindow
	if !fast && l.pausedUntil.IsZero() {
		return false
	}
	l.pausedUntil = now.Add(loopPause)
	return true
}

// pause returns how long a run for these reasons has to wait. A run that
// somebody requested does not wait.
func (l *writeLoop) pause(now time.Time, reasons []abi.Reason) time.Duration {
	if slices.Contains(reasons, abi.ReasonRequest) {
		return 0
	}
	return l.pausedUntil.Sub(now)
}

// writeLoopPause returns how long a due key has to wait because it is in a write
// loop, and keeps what it is due for until it runs. Neither a cleanup nor the
// first run of another revision waits: what another revision wrote is not the
// loop of this one.
func (c *Controller) writeLoopPause(item queue.Item, primary *object.Object) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[item.Key]
	if s == nil || s.uid != primary.UID || s.replaced || primary.Deleting() {
		return 0
	}
	pause := s.writeLoop.pause(time.Now(), item.Reasons)
	if pause > 0 {
		s.postponed = merge(s.postponed, item)
	}
	return pause
}

// writeLoopEvent is the Kubernetes Event of a write loop.
func writeLoopEvent() *abi.Event {
	return &abi.Event{
		Type: abi.EventWarning, Reason: "WriteLoop",
		Message: "5 runs within 10 s wrote something: the object is now reconciled once in 10 s; either somebody else reverts what this controller writes, or every run wants something else",
	}
}
