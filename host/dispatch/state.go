package dispatch

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// keyState is what the host remembers of a key between runs. It belongs to
// the object of one uid: an object that was created again starts anew.
//
// The run of the key owns every field but missed and the last six, which c.mu
// guards.
type keyState struct {
	uid      types.UID
	tries    outcome.Tries
	memo     []byte
	previous *abi.Previous
	writes   []Write // the next run waits for the cache to show them
	fared    fared
	guard    guard // against write loops; read under c.mu
	missed   Due   // what the key was due for while it was held; under c.mu

	stale   bool            // the plugin was swapped: tries and previous do not count
	passed  bool            // with stale: the generation of the last run has passed its trial
	noMemo  bool            // with stale: the memo means something else by now
	running bool            // changes of the primary are held until the run ends
	held    []change        // what happened to the primary during the run
	own     map[string]bool // resourceVersions that the last run's writes gave the primary
}

// change is one event of the primary kind.
type change struct {
	before, after *object.Object
}

// state returns the key's state for a run of the object with that uid, and
// marks it as running. What the key was held from is added to what it is due
// for. It returns nil if g was replaced since the key was handed out: what the
// key remembers is for the new code, and the run would mix the two.
func (c *Controller) state(due Due, uid types.UID, g *Generation) (*keyState, Due) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g != c.generation.Load() {
		return nil, due
	}
	s := c.keys[due.Key]
	if s == nil || s.uid != uid {
		held := []change(nil)
		if s != nil {
			held = s.held
			g.Effects.Forget(s.uid)
		}
		// Cloned: it is kept for longer than the object that it is part of.
		s = &keyState{uid: types.UID(strings.Clone(string(uid))), held: held}
		c.keys[due.Key] = s
	}
	if s.stale {
		s.refresh()
	}
	due, s.missed = s.missed.merge(due), Due{}
	if due.Reset {
		s.tries = outcome.Tries{}
	}
	s.running = true
	return s, due
}

// swapped notes that the next run is another generation's. c.mu is held.
func (s *keyState) swapped(passed, keepMemo bool) {
	if !s.stale {
		s.stale, s.passed, s.noMemo = true, passed, false
	}
	s.noMemo = s.noMemo || !keepMemo
}

// refresh drops what the generation before has tried.
func (s *keyState) refresh() {
	s.stale, s.tries, s.previous, s.guard = false, outcome.Tries{}, nil, guard{}
	if s.noMemo {
		s.memo = nil
	}
	s.fared.next(s.passed)
}

// finish ends a run and lets the changes that happened meanwhile wake the key,
// but for the run's own.
func (c *Controller) finish(key object.Key, s *keyState, g guard, own map[string]bool) {
	c.mu.Lock()
	s.running, s.own, s.guard = false, own, g
	held := s.held
	s.held = nil
	c.mu.Unlock()
	for _, e := range held {
		c.Observe(e.before, e.after, false)
	}
}

// forget drops everything about a key whose object is gone.
func (c *Controller) forget(key object.Key) {
	c.mu.Lock()
	s := c.keys[key]
	delete(c.keys, key)
	c.mu.Unlock()
	c.Cache.Forget(key)
	c.Queue.Forget(key)
	if s != nil {
		c.generation.Load().Effects.Forget(s.uid)
	}
}
