package dispatch

import (
	"bytes"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome/handled"
)

// This file keeps the handled state of objects, which is what the last run that ended well was
// given, for controllers that ask for it, and states in each request how the object differs
// from it (abi/SPEC.md, "Changes"). In memory it is kept as its difference to the
// object that the informer shows; annotation.go keeps it on the object.

// changes is what is remembered of a key for its changes. Controller.mu guards it.
type changes struct {
	// begun is set if a run has ended since the state was made: progress is then known here.
	begun bool
	// endedWell is set if a run has ended well since the host began to reconcile the
	// object, or to lead, or since the code of the plugin was replaced.
	endedWell bool
	everWell  bool // a run has ended well, whoever led and whatever the plugin was
	created   bool // the informer has shown the creation, and no run has ended well since
	unhandled bool // the annotation has shown that no run has ended well

	// What has changed since the last run began. The next one begins with what counts for it:
	// what a run in progress leaves is of before, too.
	otherTerm    bool // the replica leads again: another one may have led meanwhile
	otherAccount bool // the plugin acts as another one
	otherCode    bool // of the plugin

	progress []byte
	kept     *kept // the handled state in memory; nil if it is not known
	// digest is that of the content which was handled, where the annotation should have it:
	// somebody may remove or edit that, and progress is not that of another one.
	digest string
	// behind counts how often in a row a run had to wait for the events of the informer.
	behind int
}

// kept is an object as it was, by its difference to an object that the informer shows. It
// is immutable.
type kept struct {
	base  string // the resourceVersion of the object that the informer shows; "" for none
	patch []byte // a merge patch of that object; without base the object itself
}

// keptAs returns an object, which is text, by its difference to one that the informer shows.
func keptAs(text []byte, shown *object.Object) *kept {
	switch {
	case shown.ResourceVersion == "": // as of an API server whose objects have none
		return &kept{patch: bytes.Clone(text)}
	case bytes.Equal(shown.Raw, text):
		return &kept{base: shown.ResourceVersion}
	}
	patch, err := rawjson.Diff(shown.Raw, text)
	if err != nil { // cannot happen for objects that were parsed
		return &kept{patch: bytes.Clone(text)}
	}
	return &kept{base: shown.ResourceVersion, patch: bytes.Clone(patch)}
}

// of returns the object if it can be told by what it was kept with, else nil.
func (k *kept) of(shown *object.Object) []byte {
	switch {
	case k.base == "":
		return k.patch
	case shown == nil || shown.ResourceVersion != k.base:
		return nil
	case k.patch == nil:
		return shown.Raw
	}
	text, err := rawjson.MergePatch(shown.Raw, k.patch)
	if err != nil { // cannot happen for objects that were parsed
		return nil
	}
	return text
}

// observeChange handles an event of the primary kind for the handled state. It must be called
// before the key is made due. old is nil for an object that was created.
func (c *Controller) observeChange(old, updated *object.Object) {
	rev := c.revision.Load()
	switch {
	case rev.Controller.Changes != abi.ChangesMemory:
	case old == nil:
		c.observeCreation(updated)
	case rev.Controller.For.MetadataOnly:
		c.rebase(old.Metadata(), updated.Metadata())
	default:
		c.rebase(old, updated)
	}
}

// observeCreation records that an object was created, and not found. While another replica
// leads the plugin, that may have handled it.
func (c *Controller) observeCreation(o *object.Object) {
	if !c.lead() {
		return
	}
	uid := o.Identity()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[o.Key()]
	switch {
	case s == nil || s.uid != uid || s.changes == nil:
		c.created[o.Key()] = uid
	default:
		s.changes.created = !s.changes.everWell // the first run was faster than the event
	}
}

// createdAgain records that the object of a key is another one than that of the last run: it was
// created since, and its run may be faster than the event. Controller.mu is held.
func (c *Controller) createdAgain(key object.Key, before *keyState, uid object.Hash) {
	if before.changes != nil && !before.changes.otherTerm {
		c.created[key] = uid
	}
}

// rebase makes the handled state differ from what the informer shows now, if it differed from
// what the informer has shown until now.
func (c *Controller) rebase(old, updated *object.Object) {
	before := c.keptFor(updated)
	if before == nil || before.base != old.ResourceVersion {
		return
	}
	after := keptAs(before.of(old), updated)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.keys[updated.Key()]; s != nil && s.changes != nil && s.changes.kept == before {
		s.changes.kept = after
	}
}

// keptFor returns what is kept for an object, nil if there is nothing.
func (c *Controller) keptFor(o *object.Object) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[o.Key()]
	switch {
	case s == nil, s.changes == nil, s.uid != o.Identity():
		return nil
	case s.changes.otherTerm, s.changes.otherAccount:
		return nil // it is about to be dropped
	}
	return s.changes.kept
}

const (
	// eventPause is how long a key waits for an event that the informer has stored and not
	// delivered yet, and maxBehind how often. After that the handled state counts as lost.
	eventPause = 10 * time.Millisecond
	maxBehind  = 500
)

// findOld returns what the handled state in memory is, nil if it is not known. ready is
// false if the event that shows it has not come yet.
func (c *Controller) findOld(rev *Revision, primary *object.Object) (old []byte, ready bool) {
	if rev.Controller.Changes != abi.ChangesMemory {
		return nil, true
	}
	for range 2 { // an event may come between the two reads
		k := c.keptFor(primary)
		if k == nil {
			return nil, true
		}
		if old = k.of(primary); old == nil {
			old = k.of(c.shown(primary.Key()))
		}
		if old != nil {
			return old, true
		}
	}
	return nil, false
}

// shown returns the primary as the informer shows it, nil if there is none.
func (c *Controller) shown(key object.Key) *object.Object {
	o, _ := c.Cache.Shown(key)
	return o
}

// awaitEvent reports whether a key is to wait for an event that shows its handled state.
func (c *Controller) awaitEvent(key object.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[key]
	if s == nil || s.changes == nil {
		return false
	}
	s.changes.behind++
	if s.changes.behind <= maxBehind {
		return true
	}
	s.changes.behind, s.changes.kept = 0, nil
	return false
}

// beginChanges prepares what is remembered for a run of a revision. Controller.mu is held.
func (s *keyState) beginChanges(rev *Revision, created bool) {
	if rev.Controller.Changes == "" && !rev.Controller.Gone {
		s.changes = nil
		return
	}
	if s.changes == nil {
		s.changes = &changes{created: created}
	}
	s.changes.begin()
	if rev.Controller.Changes != abi.ChangesMemory {
		s.changes.kept = nil
	}
}

// begin drops what does not count for the next run, which is what another account has read,
// and what was known before another replica led. Controller.mu is held.
func (ch *changes) begin() {
	switch {
	case ch.otherTerm:
		*ch = changes{everWell: ch.everWell}
	case ch.otherAccount:
		*ch = changes{everWell: ch.everWell, created: ch.created}
	case ch.otherCode:
		ch.endedWell = false
	}
	ch.otherCode, ch.behind = false, 0
}

// replaced records that the next run uses another revision. Controller.mu is held.
func (ch *changes) replaced(before, next *Revision) {
	ch.otherCode = ch.otherCode || before.Digest != next.Digest
	ch.otherAccount = ch.otherAccount || before.Account != next.Account
}

// change returns the change that the request states, nil if the controller asks for none.
func (r *run) change() *abi.Change {
	if r.revision.Controller.Changes == "" && (r.gone == nil || !r.revision.Controller.Gone) {
		return nil
	}
	state, resumed := r.handledState()
	c := &abi.Change{
		Type:     state.Change(r.given.Raw, r.given.Deleting() || r.gone != nil, resumed),
		Progress: state.Progress,
	}
	var err error
	if c.Old, err = state.Old(r.given.Raw); err != nil {
		r.warn("the handled state cannot be read: the object counts as changed", "error", err)
	}
	return c
}

// handledState returns the handled state that the run begins with, and whether the run is the
// first one of its kind.
func (r *run) handledState() (state handled.State, resumed bool) {
	if r.revision.Controller.Changes == abi.ChangesAnnotation {
		return r.annotatedState()
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	ch := r.state.changes
	state = handled.State{Known: !ch.created, Whole: true}
	if ch.kept != nil {
		state.Object = r.old
	}
	if ch.begun {
		state.Progress = ch.progress
	}
	return state, !ch.endedWell
}

// endedWell reports whether the run has led to what it was for, so that its object is handled.
func (r *run) endedWell() bool { return r.result != nil && r.decision.EndedWell() }

// endChanges records what the next run of the key has to know of this one.
func (r *run) endChanges() {
	ch := r.state.changes
	if ch == nil {
		return
	}
	well, digest := r.endedWell(), r.since
	switch mode := r.revision.Controller.Changes; {
	case !well:
	case mode == abi.ChangesMemory && r.gone == nil:
		r.c.keepHandled(ch, r.given)
	case mode == abi.ChangesAnnotation:
		digest = r.handledNow().WithoutObject().Digest // without the lock: it reads the whole object
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	switch {
	case well:
		ch.endedWell, ch.everWell, ch.created, ch.begun, ch.progress, ch.digest = true, true, false, true, nil, digest
	case r.decision.Intents: // which were performed: what the guest notes as done is done
		ch.begun, ch.progress, ch.digest = true, r.result.Progress, digest
	}
}

// keepTries is how often an object is compared with what the informer shows, which changes
// meanwhile.
const keepTries = 3

// keepHandled makes an object the handled state in memory: by its difference to what the informer
// shows, whose next event then leads to the next difference. If that fails, it is kept whole.
func (c *Controller) keepHandled(ch *changes, o *object.Object) {
	for range keepTries {
		shown := c.shown(o.Key())
		if shown == nil || shown.UID != o.UID {
			break
		}
		if c.keepAs(ch, keptAs(o.Raw, shown), o.Key()) {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ch.kept = &kept{patch: bytes.Clone(o.Raw)}
}

// keepAs keeps a handled state, unless the informer does not show its base any more.
func (c *Controller) keepAs(ch *changes, k *kept, key object.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.shown(key) // with mu held: an event that comes after this read finds what is kept
	if now == nil || k.base != "" && now.ResourceVersion != k.base {
		return false
	}
	ch.kept = k
	return true
}
