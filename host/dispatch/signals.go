package dispatch

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file keeps signals until a run that was given them has ended well.

// signals are payloads for the runs of a key, in their order. Controller.mu guards them.
type signals struct {
	waiting [][]byte // JSON
	before  int      // how many came before them
}

// maxSignals bounds the signals that wait for a run of one key, and maxSignalBytes those of a
// controller. Beyond that the oldest of the key are lost: a signal is never the only truth.
const (
	maxSignals     = 4 * abi.MaxSignals
	maxSignalBytes = 32 << 20
)

// Signal makes a primary due and keeps signals for its next run, as JSON. It reports whether there is
// such a primary. The plugin must be led by this replica, and its revision be given signals
// ([abi.Controller.IsSignalled]).
func (c *Controller) Signal(key object.Key, given ...[]byte) bool {
	if !c.keepSignals(key, given) {
		return false
	}
	c.add(key, abi.ReasonSignal)
	return true
}

// keepSignals keeps signals for the next run of a primary. It reports whether there is one.
func (c *Controller) keepSignals(key object.Key, given [][]byte) bool {
	primary, exists := c.Cache.Get(key)
	if !exists {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[key]
	if uid := object.HashOf(string(primary.UID)); s == nil {
		s = &keyState{uid: uid}
		c.keys[key] = s
	}
	c.addSignals(s, given)
	return true
}

// addSignals keeps signals for the next run of a key, and reports whether there are any.
// Controller.mu is held.
func (c *Controller) addSignals(s *keyState, given [][]byte) bool {
	if len(given) == 0 {
		return false
	}
	if s.carried == nil {
		s.carried = &carried{}
	}
	s.signals.waiting = append(s.signals.waiting, given...)
	for _, signal := range given {
		c.signalBytes += len(signal)
	}
	for len(s.signals.waiting) > maxSignals || c.signalBytes > maxSignalBytes && len(s.signals.waiting) > 0 {
		c.dropSignals(s, s.signals.before+1)
	}
	return true
}

// dropSignals drops the first signals: those that came before the one with that number.
// Controller.mu is held.
func (c *Controller) dropSignals(s *keyState, until int) {
	n := min(max(until-s.signals.before, 0), len(s.signals.waiting))
	for _, signal := range s.signals.waiting[:n] {
		c.signalBytes -= len(signal)
	}
	s.signals.waiting, s.signals.before = slices.Clone(s.signals.waiting[n:]), s.signals.before+n
}

// dropAllSignals drops the signals of a key. Controller.mu is held.
func (c *Controller) dropAllSignals(s *keyState) {
	if s.carried != nil {
		c.dropSignals(s, s.signals.before+len(s.signals.waiting))
	}
}

// takeSignals returns the signals for a run.
func (r *run) takeSignals() [][]byte {
	if !r.revision.Controller.IsSignalled() {
		return nil
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	s := &r.state.signals
	r.signalsUntil = s.before + len(s.waiting)
	return slices.Clone(s.waiting)
}

// endSignals drops the signals that the run was given, if it has ended well.
func (r *run) endSignals() {
	if !r.revision.Controller.IsSignalled() || !r.endedWell() {
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.dropSignals(r.state, r.signalsUntil)
}
