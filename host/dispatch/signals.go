package dispatch

import (
	"cmp"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file keeps signals until a run that was given them has ended well.

// signals are payloads for the runs of a key, in their order. Controller.mu guards them.
type signals struct {
	waiting [][]byte    // JSON
	before  int         // how many came before them
	bytes   int         // of those that wait
	of      object.Hash // the uid of the object that they are for: the state may be that of the one before it
}

// maxSignals bounds the signals that wait for a run of one key: beyond that its oldest are lost, for a
// signal is never the only truth. maxSignalBytes bounds those of a controller: see dropFromLargest.
const (
	maxSignals     = 4 * abi.MaxSignals
	maxSignalBytes = 32 << 20
)

// Signal makes a primary due and keeps signals for its next run, as JSON. It reports whether there is
// such a primary. The plugin must be led by this replica.
func (c *Controller) Signal(key object.Key, given ...[]byte) bool {
	if !c.keepSignals(key, given) {
		return false
	}
	c.due(signalled, key)
	return true
}

// keepSignals keeps signals for the next run of a primary. It reports whether there is one.
func (c *Controller) keepSignals(key object.Key, given [][]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	primary, exists := c.Cache.Get(key) // with mu held, so that no run of a later object of the name has begun
	if !exists {
		return false
	}
	s, uid := c.keys[key], primary.Identity()
	if s == nil {
		s = &keyState{uid: uid}
		c.keys[key] = s
	}
	c.addSignalsFor(s, uid, given)
	return true
}

// addSignals keeps signals for the next run of a key, and reports whether there are any.
// Controller.mu is held.
func (c *Controller) addSignals(s *keyState, given [][]byte) bool {
	return c.addSignalsFor(s, s.uid, given)
}

// addSignalsFor is addSignals for the object with that uid, which may have been created again since the
// last run of the key. What waits is for one object: the latest. Controller.mu is held.
func (c *Controller) addSignalsFor(s *keyState, uid object.Hash, given [][]byte) bool {
	if len(given) == 0 {
		return false
	}
	if s.carried == nil {
		s.carried = &carried{}
	}
	if s.signals.of != uid {
		if uid == s.uid && len(s.signals.waiting) > 0 {
			return false // it is gone
		}
		c.dropAllSignals(s)
		s.signals.of = uid
	}
	s.signals.waiting = append(s.signals.waiting, given...)
	for _, signal := range given {
		s.signals.bytes += len(signal)
		c.signalBytes += len(signal)
	}
	if more := len(s.signals.waiting) - maxSignals; more > 0 {
		c.dropSignals(s, s.signals.before+more)
	}
	if c.signalBytes > maxSignalBytes {
		c.dropFromLargest()
	}
	return true
}

// dropFromLargest makes room for signals: of the keys that have the most bytes it drops the older half.
// The senders of one object cannot take the room of others, whose runs may fail or be suspended for any
// time. An eighth is made free at once, since all keys are looked at. Controller.mu is held.
func (c *Controller) dropFromLargest() {
	var all []*keyState
	for _, s := range c.keys {
		if s.carried != nil && s.signals.bytes > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *keyState) int { return cmp.Compare(b.signals.bytes, a.signals.bytes) })
	for _, s := range all {
		for half := s.signals.bytes / 2; s.signals.bytes > half; {
			c.dropSignals(s, s.signals.before+1)
		}
		if c.signalBytes <= maxSignalBytes/8*7 {
			return
		}
	}
}

// dropSignals drops the first signals: those that came before the one with that number.
// Controller.mu is held.
func (c *Controller) dropSignals(s *keyState, until int) {
	n := min(max(until-s.signals.before, 0), len(s.signals.waiting))
	for _, signal := range s.signals.waiting[:n] {
		s.signals.bytes -= len(signal)
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

// moveSignals takes the signals for the object with that uid out of the state of the one before it, and
// drops others. It returns what a new state carries, nil if there are none. Controller.mu is held.
func (c *Controller) moveSignals(s *keyState, uid object.Hash) *carried {
	if s.carried == nil || s.signals.of != uid || len(s.signals.waiting) == 0 {
		c.dropAllSignals(s)
		return nil
	}
	moved := &carried{signals: s.signals}
	s.signals = signals{}
	return moved
}

// keepSignalsOf drops the signals of a state that is forgotten, but for those of an object that was
// created again meanwhile, nil for none. Controller.mu is held.
func (c *Controller) keepSignalsOf(key object.Key, s *keyState, again *object.Object) {
	if again == nil {
		c.dropAllSignals(s)
		return
	}
	uid := again.Identity()
	if moved := c.moveSignals(s, uid); moved != nil {
		c.keys[key] = &keyState{uid: uid, wokenByOthers: true, carried: moved}
	}
}

// takeSignals returns the signals for a run.
func (r *run) takeSignals() [][]byte {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	s := &r.state.signals
	if r.origin.signals = s.before; s.of != r.state.uid {
		return nil
	}
	r.origin.signals += len(s.waiting)
	return slices.Clone(s.waiting)
}

// endSignals drops the signals that the run was given, if it has ended well.
func (r *run) endSignals() {
	if !r.endedWell() {
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.dropSignals(r.state, r.origin.signals)
}
