package changes

import (
	"bytes"
	"time"

	contract "github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
)

// This file keeps handled states in memory, as their differences to the objects that the informer shows.

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

// isOf reports whether the object can be told by another one.
func (k *kept) isOf(base *object.Object) bool {
	return k.base == "" || base != nil && base.ResourceVersion == k.base
}

// of returns the object by what it was kept with, nil if that is another one.
func (k *kept) of(base *object.Object) []byte {
	switch {
	case !k.isOf(base):
		return nil
	case k.base == "":
		return k.patch
	case k.patch == nil:
		return base.Raw
	}
	text, err := rawjson.MergePatch(base.Raw, k.patch)
	if err != nil { // cannot happen for objects that were parsed
		return nil
	}
	return text
}

// changed makes the handled state differ from what the informer shows now, if it differed from
// what the informer has shown until now.
func (c *controller) changed(rev *dispatch.Revision, old, updated *object.Object) {
	if old == nil || updated == nil || contract.Of(&rev.Controller) != contract.Memory {
		return
	}
	if rev.Controller.For.MetadataOnly {
		old, updated = old.Metadata(), updated.Metadata()
	}
	var before *kept
	c.objects.ChangeState(updated, func(has any) { before = has.(*state).kept })
	if before == nil || before.base != old.ResourceVersion {
		return
	}
	after := keptAs(before.of(old), updated)
	c.objects.ChangeState(updated, func(has any) {
		if s := has.(*state); s.kept == before {
			s.kept = after
		}
	})
}

const (
	// eventPause is how long a run waits for an event that the informer has stored and not
	// delivered yet, and maxBehind how often. After that the handled state counts as lost.
	eventPause = 10 * time.Millisecond
	maxBehind  = 500
)

// wait makes a run wait for the event that shows its handled state.
func (c *controller) wait(has any, run *dispatch.BeginningRun) time.Duration {
	s, _ := has.(*state)
	if s == nil || contract.Of(&run.Revision.Controller) != contract.Memory {
		return 0
	}
	if _, found := c.baseOf(s.kept, run); found {
		return 0
	}
	if s.behind++; s.behind <= maxBehind {
		return eventPause
	}
	s.kept = nil
	return 0
}

// baseOf returns the object by which a handled state can be told, nil if it needs none. found is false if there is
// none yet: that of an object that is gone does not come.
func (c *controller) baseOf(k *kept, run *dispatch.BeginningRun) (base *object.Object, found bool) {
	switch {
	case run.Gone && run.Object.MetadataOnly != run.Revision.Controller.For.MetadataOnly: // there is no room for more of it
		return nil, true
	case k == nil || k.isOf(run.Object) || run.Gone:
		return run.Object, true
	}
	shown, _ := c.objects.Shown(run.Object.Key())
	return shown, k.isOf(shown)
}

// keepTries is how often an object is compared with what the informer shows, which changes
// meanwhile.
const keepTries = 3

// keepHandled makes what the run was given the handled state: by its difference to what the informer shows, whose next
// event then leads to the next difference. If that fails, it is kept whole.
func (c *controller) keepHandled(run dispatch.EndedRun) {
	o := run.Given
	for range keepTries {
		shown, _ := c.objects.Shown(o.Key())
		if shown == nil || shown.UID != o.UID {
			break
		}
		k, done := keptAs(o.Raw, shown), false
		run.State(func(has any) {
			now, _ := c.objects.Shown(o.Key()) // with the lock held: an event that comes after this read finds what is kept
			if done = now != nil && k.isOf(now); done {
				has.(*state).kept = k
			}
		})
		if done {
			return
		}
	}
	run.State(func(has any) { has.(*state).kept = &kept{patch: bytes.Clone(o.Raw)} })
}
