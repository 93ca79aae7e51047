package effect

import (
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file holds what is recorded of each primary, so that nothing is written
// twice.

// memory holds the records of all primaries. It is bounded by the intents of
// each primary's last run, and is lost when the host restarts.
type memory struct {
	mu    sync.Mutex
	byUID map[types.UID][]*records // one for each controller of the primary
}

// records is what is recorded of one primary and one controller. Only one
// goroutine uses it, because a key never runs twice at once.
type records struct {
	controller string

	applied   map[objectID]applyRecord
	absent    map[objectID]bool // objects that were found absent, or deleted
	patch     patchRecord       // the last patch of the primary
	status    patchRecord       // the last patch of its status
	events    map[digest]bool   // the guest's Events of the last run
	hostEvent digest            // the host's Event about the last run; zero for none
	reserved  time.Time         // when the limit of writes has a place for the next write; zero: none is reserved
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
	intent digest
	state  digest // of the object: see session.sumState
	// resourceVersion is the latest at which the object was seen in that state.
	resourceVersion string
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
	for _, r := range m.byUID[t.Object.UID] {
		if r.controller == t.Controller.Name {
			return r
		}
	}
	if !create {
		return nil
	}
	if m.byUID == nil {
		m.byUID = map[types.UID][]*records{}
	}
	r := &records{controller: strings.Clone(t.Controller.Name)}
	uid := types.UID(strings.Clone(string(t.Object.UID)))
	m.byUID[uid] = append(m.byUID[uid], r)
	return r
}

func (m *memory) forget(uid types.UID) {
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

// keep drops the records of objects that the last run did not name.
func (r *records) keep(named map[objectID]bool) {
	maps.DeleteFunc(r.applied, func(id objectID, _ applyRecord) bool { return !named[id] })
	maps.DeleteFunc(r.absent, func(id objectID, _ bool) bool { return !named[id] })
}

// setApplied records that an object exists as an intent wants it. The maps are
// made when they are needed: most primaries have no children, and there is one
// of these records for each primary.
func (r *records) setApplied(id objectID, a applyRecord) {
	if r.applied == nil {
		r.applied = map[objectID]applyRecord{}
	}
	a.resourceVersion = strings.Clone(a.resourceVersion)
	r.applied[id] = a
	delete(r.absent, id)
}

// setAbsent records that an object does not exist, or is being deleted.
func (r *records) setAbsent(id objectID) {
	if r.absent == nil {
		r.absent = map[objectID]bool{}
	}
	r.absent[id] = true
	delete(r.applied, id)
}
