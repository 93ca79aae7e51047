package dispatch

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// keyState is what is remembered of a key between its runs. It belongs to the
// object with one uid: an object that is created again starts anew.
//
// The run in progress owns the first group of fields without a lock;
// Controller.mu guards the others.
type keyState struct {
	uid      types.UID
	tries    outcome.Tries
	memo     []byte
	previous *abi.Previous
	unseen   []effect.Write // the next run waits until the cache contains them
	history  runHistory

	writeLoop writeLoop  // also read by the run, which alone changes it
	postponed queue.Item // what the key was due for while its write loop was paused

	// replaced is set when the revision of the last run was swapped: before the
	// next run tries and previous are dropped.
	replaced   bool
	wasHealthy bool // with replaced: whether the replaced revision was healthy
	dropMemo   bool // with replaced: memos of the new revision mean something else

	running        bool            // a run is in progress
	deferredEvents []primaryEvent  // of the primary, that came during the run
	ownVersions    map[string]bool // resourceVersions that writes of the last run led to
}

// primaryEvent is an event of the primary kind.
type primaryEvent struct{ old, updated *object.Object }

// beginRun returns the state of a key for a run of the object with that uid, and
// marks it as running. What the key was postponed for is merged into item. The
// state is nil if the revision was replaced since the key was taken: it is then
// prepared for the new revision, and a run of the old one must not change it.
func (c *Controller) beginRun(item queue.Item, uid types.UID, revision *Revision) (*keyState, queue.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision != c.revision.Load() {
		return nil, item
	}
	s := c.keys[item.Key]
	if s == nil || s.uid != uid {
		var deferred []primaryEvent
		if s != nil {
			deferred = s.deferredEvents
			revision.Effects.Forget(s.uid)
		}
		// The uid is cloned, since it outlives the object that it aliases.
		s = &keyState{uid: types.UID(strings.Clone(string(uid))), deferredEvents: deferred}
		c.keys[item.Key] = s
	}
	if s.replaced {
		s.startRevision()
	}
	item, s.postponed = merge(s.postponed, item), queue.Item{}
	if item.ResetTries {
		s.tries = outcome.Tries{}
	}
	s.running = true
	return s, item
}

// merge returns an item that is due for the reasons of both.
func merge(a, b queue.Item) queue.Item {
	for _, reason := range b.Reasons {
		if !slices.Contains(a.Reasons, reason) {
			a.Reasons = append(a.Reasons, reason)
		}
	}
	a.Key, a.ResetTries = b.Key, a.ResetTries || b.ResetTries
	return a
}

// revisionReplaced records that the next run uses another revision. Controller.mu
// is held. If a revision was replaced without having run for the key, the one
// before it counts.
func (s *keyState) revisionReplaced(healthy, keepMemo bool) {
	if !s.replaced {
		s.replaced, s.wasHealthy, s.dropMemo = true, healthy, false
	}
	s.dropMemo = s.dropMemo || !keepMemo
}

// startRevision drops what does not count for the revision of the next run.
func (s *keyState) startRevision() {
	s.replaced, s.tries, s.previous, s.writeLoop = false, outcome.Tries{}, nil, writeLoop{}
	if s.dropMemo {
		s.memo = nil
	}
	s.history.startRevision(s.wasHealthy)
}

// endRun records the end of a run, and handles the events of the primary that
// came during the run, except those that it caused itself.
func (c *Controller) endRun(key object.Key, s *keyState, loop writeLoop, ownVersions map[string]bool) {
	c.mu.Lock()
	s.running, s.ownVersions, s.writeLoop = false, ownVersions, loop
	deferred := s.deferredEvents
	s.deferredEvents = nil
	c.mu.Unlock()
	for _, e := range deferred {
		c.Observe(e.old, e.updated, false)
	}
}

// forget drops everything about a key whose object no longer exists.
func (c *Controller) forget(key object.Key) {
	c.mu.Lock()
	s := c.keys[key]
	delete(c.keys, key)
	c.mu.Unlock()
	c.Cache.Forget(key)
	c.Queue.Forget(key)
	if s != nil {
		c.revision.Load().Effects.Forget(s.uid)
	}
}
