package effect

import (
	"slices"
	"sync"
	"time"
	"unique"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file holds what is recorded of each primary, so that nothing is written
// twice. There is one of these records for each primary: what most primaries do not
// need is in [extraRecords].

// memory holds the records of all primaries. It is bounded by the intents of
// each primary's last run, and is lost when the host restarts.
type memory struct {
	mu    sync.Mutex
	byUID map[object.Hash]*records // the first of a list with one for each controller
}

// records is what is recorded of one primary and one controller. Only one
// goroutine uses it, because a key never runs twice at once.
type records struct {
	controller unique.Handle[string]
	next       *records      // of another controller; guarded by memory.mu
	applied    []applyRecord // no more than a result has intents, of which few have many
	extra      *extraRecords // nil: the zero value
}

// extraRecords are records that few primaries have at a time.
type extraRecords struct {
	absent    []objectID  // objects that were found absent, or deleted
	taken     []objectID  // objects that could not be created, because others have their names
	patch     patchRecord // the last patch of the primary
	status    patchRecord // the last patch of its status that led to something else
	events    []digest    // the guest's Events of the last run
	hostEvent digest      // the host's Event about the last run; zero for none
	refused   refusedPart // of its status
	reserved  time.Time   // when the limit of writes has a place for the next write; zero: none is reserved
}

// objectID stands for the name of an object, whatever version of its kind an
// intent is written in. It is a digest because records must not hold strings
// of a result or a reply, which would keep all of it in memory.
type objectID digest

func objectIDOf(kind abi.Kind, key object.Key) objectID {
	return objectID(sumStrings(kind.Group(), kind.Kind, key.Namespace, key.Name))
}

// applyRecord is the last apply of an object: the intent, and what the server made of
// it. As long as both are the same, an apply would change nothing.
type applyRecord struct {
	id      objectID
	intent  digest
	state   digest // of the object: see session.sumState
	version digest // of the latest resourceVersion at which the object was seen in that state
}

// patchRecord is the last merge patch of a primary, and the value that it led
// to. The same patch of the same value would lead to that value again.
type patchRecord struct {
	patch, result digest
	epoch         int // of a patch of status: see prunedFields.epoch
}

// of returns the records of a target. If there are none, it returns nil, or
// new ones if create is set.
func (m *memory) of(t Target, create bool) *records {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid, controller := t.Object.Identity(), unique.Make(t.Controller.Name)
	first := m.byUID[uid]
	for r := first; r != nil; r = r.next {
		if r.controller == controller {
			return r
		}
	}
	if !create {
		return nil
	}
	if m.byUID == nil {
		m.byUID = map[object.Hash]*records{}
	}
	r := &records{controller: controller, next: first}
	m.byUID[uid] = r
	return r
}

func (m *memory) forget(uid object.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byUID, uid)
}

// forgetAll drops all records. A run in progress goes on with those that it has.
func (m *memory) forgetAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byUID = nil
}

// extras returns the extra records to change them. [records.tidy] is to be called
// afterwards.
func (r *records) extras() *extraRecords {
	if r.extra == nil {
		r.extra = &extraRecords{}
	}
	return r.extra
}

// read returns a copy of the extra records.
func (r *records) read() (e extraRecords) {
	if r.extra != nil {
		e = *r.extra
	}
	return e
}

// tidy frees the extra records if there are none.
func (r *records) tidy() {
	e := r.read()
	none := patchRecord{}
	if len(e.absent)+len(e.taken)+len(e.events) == 0 && e.patch == none && e.status == none && e.hostEvent == (digest{}) && e.refused == (refusedPart{}) && e.reserved.IsZero() {
		r.extra = nil
	}
}

// drop drops the records of objects that match.
func (e *extraRecords) drop(match func(objectID) bool) {
	e.absent = clipped(slices.DeleteFunc(e.absent, match))
	e.taken = clipped(slices.DeleteFunc(e.taken, match))
}

// keep drops the records of objects that the last run did not name.
func (r *records) keep(named map[objectID]bool) {
	r.applied = clipped(slices.DeleteFunc(r.applied, func(a applyRecord) bool { return !named[a.id] }))
	if r.extra != nil {
		r.extra.drop(func(id objectID) bool { return !named[id] })
		r.tidy()
	}
}

// clipped returns a slice that takes no more than about what it has.
func clipped[T any](all []T) []T {
	switch {
	case len(all) == 0:
		return nil
	case cap(all) >= 2*len(all):
		return append(make([]T, 0, len(all)), all...)
	}
	return all
}

// lastApply returns the record of the last apply of an object, nil if there is none.
func (r *records) lastApply(id objectID) *applyRecord {
	if at := slices.IndexFunc(r.applied, func(a applyRecord) bool { return a.id == id }); at >= 0 {
		return &r.applied[at]
	}
	return nil
}

// setApplied records that an object exists as an intent wants it.
func (r *records) setApplied(a applyRecord) {
	if last := r.lastApply(a.id); last != nil {
		*last = a
	} else {
		r.applied = append(r.applied, a)
	}
	if r.isAbsent(a.id) || r.isTaken(a.id) {
		r.extra.drop(func(id objectID) bool { return id == a.id })
		r.tidy()
	}
}

// dropApplied drops the record of the last apply of an object.
func (r *records) dropApplied(id objectID) {
	r.applied = slices.DeleteFunc(r.applied, func(a applyRecord) bool { return a.id == id })
}

// setAbsent records that an object does not exist, or is being deleted.
func (r *records) setAbsent(id objectID) {
	if !r.isAbsent(id) {
		r.extras().absent = append(r.extras().absent, id)
	}
	r.dropApplied(id)
}

func (r *records) isAbsent(id objectID) bool {
	return r.extra != nil && slices.Contains(r.extra.absent, id)
}

// setTaken records that an object could not be created, and reports whether that is new: the
// run before did not name it, or has created it.
func (r *records) setTaken(id objectID) (first bool) {
	if r.isTaken(id) {
		return false
	}
	r.extras().taken = append(r.extras().taken, id)
	return true
}

func (r *records) isTaken(id objectID) bool {
	return r.extra != nil && slices.Contains(r.extra.taken, id)
}
