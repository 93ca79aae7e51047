package dispatch

import (
	"hash/maphash"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
)

// change is what an event states about an object that a key depends on, which it does not
// keep in memory.
type change struct {
	queue.Cause
	uid     types.UID
	version string     // resourceVersion; "" for a deletion
	index   bool       // the object is one of an index
	turn    object.Key // of the turn that has read it; the zero value: a run has
}

// changeOf returns what an event states: updated is nil for a deletion of old.
func changeOf(why queue.Cause, old, updated *object.Object) change {
	if updated == nil {
		return change{Cause: why, uid: old.UID}
	}
	return change{Cause: why, uid: updated.UID, version: updated.ResourceVersion}
}

// and returns one change for two of one object. What others changed must not pass as the
// key's own: two that differ count as one of others.
func (c change) and(later change) change {
	if c.uid != later.uid || c.version != later.version {
		c.uid, c.version = later.uid, "several" // which no object has
	}
	c.Bulk = c.Bulk && later.Bulk
	return c
}

// ownChanges are the changes that the runs of a key made, in their order. Events may
// be late, and one may arrive by several ways, so that a change is kept until the
// event of a later one of the object has come, or for [keepOwnChanges].
type ownChanges []ownChange

type ownChange struct {
	id      object.Hash // of the object and its version
	object  uint64      // a hash of the uid
	at      uint32      // in Unix seconds
	ignored bool        // the event leads to nothing
	came    bool        // the event has come
}

// Two objects with the same hash make a key run that need not: a change of the one
// may then be forgotten at an event of the other.
func hashObject(uid types.UID) uint64 { return maphash.String(objectSeed, string(uid)) }

var objectSeed = maphash.MakeSeed()

func changeID(uid types.UID, version string) object.Hash { return object.HashOf(string(uid), version) }

// Bounds of what is remembered of a key. The event of a change that is forgotten
// counts as the work of others.
const (
	maxOwnChanges  = 512
	keepOwnChanges = int64(5 * time.Minute / time.Second) // in seconds
)

// add remembers a write. ignored is set if its event shows nothing that the run
// does not know. The event of a write is not found by an object without uid or
// resourceVersion, of an API server whose objects have none: it counts as the work of others.
func (c *ownChanges) add(w effect.Write, ignored bool) {
	version := w.ResourceVersion
	if w.Gone() {
		version = ""
	} else if version == "" {
		return
	}
	if w.UID == "" {
		return
	}
	made := ownChange{id: changeID(w.UID, version), object: hashObject(w.UID), at: uint32(time.Now().Unix()), ignored: ignored}
	first := max(0, len(*c)+1-maxOwnChanges)
	for first < len(*c) && int64(made.at)-int64((*c)[first].at) > keepOwnChanges {
		first++
	}
	*c = append(slices.Delete(*c, 0, first), made)
}

// find reports whether the key made a change, and whether its event is to be
// ignored. It forgets earlier changes of the object: an informer sends the events of
// an object in their order. One that has not come was left out, as when a watch is
// interrupted; this event is then the only one of both changes.
func (c *ownChanges) find(uid types.UID, version string) (own, ignored bool) {
	if len(*c) == 0 {
		return false, false
	}
	id, of := changeID(uid, version), hashObject(uid)
	at := slices.IndexFunc(*c, func(o ownChange) bool { return o.id == id })
	if at < 0 {
		return false, false
	}
	found := &(*c)[at]
	for _, o := range (*c)[:at] {
		found.ignored = found.ignored && (o.object != of || o.came || o.ignored)
	}
	found.came, ignored = true, found.ignored
	before := slices.DeleteFunc((*c)[:at], func(o ownChange) bool { return o.object == of })
	if *c = slices.Delete(*c, len(before), at); cap(*c) >= 2*len(*c) { // else it would take what it once took
		*c = slices.Clone(*c)
	}
	return true, ignored
}
