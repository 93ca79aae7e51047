package dispatch

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// keyState is what is remembered of a key between its runs. It belongs to the
// object with one uid: an object that is created again starts anew. There is one for
// each primary: what most keys do not need is in [carried] and [writeLoop].
//
// The run in progress owns history without a lock; Controller.mu guards the others.
type keyState struct {
	uid     object.Hash
	history runHistory
	own     ownChanges

	*carried             // never nil during a run
	writeLoop *writeLoop // nil: the zero value
	hooks     *hookState // of capabilities that keep something
	last      lastRun

	// wokenByOthers is set if something else than the key's own writes has made it
	// due since its last run began.
	wokenByOthers bool

	// replaced is set when the revision of the last run was swapped.
	replaced     bool
	wasHealthy   bool // with replaced: whether the replaced revision was healthy
	dropTries    bool // with replaced: the new revision has other code
	dropMemo     bool // with replaced: memos of the new revision mean something else
	otherAccount bool // with replaced: the new revision acts as another one

	outageEnded bool // since the last run began
	running     bool // a run is in progress
}

// carried is what a run leaves to the next one of its key: nothing, if it has
// succeeded and the plugin uses no memo.
//
// The run in progress owns the first group of fields without a lock;
// Controller.mu guards the others.
type carried struct {
	tries     outcome.Tries
	memo      []byte
	previous  *abi.Previous
	uncertain []abi.Ref // objects that a lost write may have changed: read before the next run
	internal  time.Time // from when on a write that is answered with the code 500 is no outage; zero: none of the last run was
	notBefore time.Time // when effects may be performed that were postponed
	postponed int       // times in a row, without a write in between, that the API server has postponed them
	repeated  int       // times in a row that a write was postponed whose outcome is not known

	signals  signals      // for the next run
	parked   *run         // the run whose effects are postponed; nil: none
	deferred []change     // that came during the run
	awaited  int          // times that the key had to wait for the event that its object is gone
	failed   *LastFailure // of the latest run that has ended; nil: it has succeeded
}

// isEmpty reports whether nothing is carried over.
func (c *carried) isEmpty() bool {
	return c.tries == (outcome.Tries{}) && c.memo == nil && c.previous == nil && len(c.uncertain) == 0 &&
		c.internal.IsZero() && !c.notBefore.After(time.Now()) && c.postponed+c.repeated+c.awaited == 0 && c.parked == nil && c.failed == nil && len(c.deferred)+len(c.signals.waiting) == 0
}

// stateFor returns the state of the run that is to begin for an object. It is nil if the revision was replaced since
// the key was taken: the state is then prepared for the new revision, and a run of the old one must not change it. It
// is also nil if the object was replaced: the event of that change may have come already, and would count as one that
// the run has seen. Controller.mu is held.
func (c *Controller) stateFor(item workItem, given *object.Object, gone *goneObject) *keyState {
	current, exists := c.Cache.Get(item.Key)
	s := c.keys[item.Key]
	switch {
	case item.revision != c.revisionFor(item.Key):
		return nil
	case gone != nil && !slices.Contains(c.goneObjects.byKey[item.Key], gone):
		return nil
	case gone != nil:
		s = gone.state
	case !exists || !current.IsStateOf(given):
		return nil
	case s == nil || s.uid != given.Identity():
		s = c.newState(item, s, given.Identity())
	}
	if c.created[item.Key] == s.uid {
		s.last.seen |= created
		delete(c.created, item.Key)
	}
	return s
}

// newState returns the state of an object that has none, in the place of that of another one of its name, nil for none.
// Controller.mu is held.
func (c *Controller) newState(item workItem, before *keyState, uid object.Hash) *keyState {
	var moved *carried
	if before != nil {
		c.unpark(before)
		moved = c.moveSignals(before, uid)
		item.revision.Effects.Forget(before.uid)
		if before.last.seen&begun != 0 { // this one was created since, and its run may be faster than the event
			c.created[item.Key] = uid
		}
	}
	s := &keyState{uid: uid, wokenByOthers: true, carried: moved}
	c.keys[item.Key] = s
	return s
}

// observeCreation records that the informer has shown the creation of an object. While another replica leads the
// plugin, that may handle it.
func (c *Controller) observeCreation(o *object.Object) {
	if !c.lead() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.keys[o.Key()]; s != nil && s.uid == o.Identity() {
		s.last.seen |= created // the first run was faster than the event
	} else {
		c.created[o.Key()] = o.Identity()
	}
}

// isTimed reports whether a reason is that a time has come.
func isTimed(r abi.Reason) bool {
	return r == abi.ReasonRequeue || r == abi.ReasonRetry || r == abi.ReasonTimer
}

// addUncertain makes the next run read an object from the API server before it begins.
func (s *keyState) addUncertain(ref abi.Ref) {
	if !slices.Contains(s.uncertain, ref) {
		s.uncertain = append(s.uncertain, ref)
	}
}

// revisionReplaced records that the next run uses another revision. Controller.mu
// is held. If a revision was replaced without having run for the key, the one
// before it counts.
func (s *keyState) revisionReplaced(healthy bool, before, next *Revision) {
	s.wokenByOthers = true
	if !s.replaced {
		s.replaced, s.wasHealthy, s.dropTries, s.dropMemo, s.otherAccount = true, healthy, false, false, false
	}
	s.dropTries = s.dropTries || before.Digest != next.Digest
	s.otherAccount = s.otherAccount || before.Account != next.Account
	s.dropMemo = s.dropMemo || before.MemoVersion != next.MemoVersion || before.Account != next.Account
}

// startRevision drops what does not count for the revision of the next run.
func (s *keyState) startRevision() {
	s.replaced, s.writeLoop, s.notBefore = false, nil, time.Time{}
	if s.dropTries {
		s.tries, s.previous = outcome.Tries{}, nil
	}
	if s.dropMemo { // which is so for another account; its failures may tell what it has met
		s.memo, s.previous = nil, nil
	}
	s.history.startRevision(s.wasHealthy)
}
