package effect

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// memory is what a performer remembers, per primary and controller. It is
// bounded by the intents of each primary's last run, and lost on a restart.
type memory struct {
	mu    sync.Mutex
	byUID map[types.UID][]*memo // one for each controller of the primary
}

type memoKey struct {
	uid        types.UID
	controller string
}

// memo is what is remembered of one primary. The caller runs one key at a
// time, so one goroutine uses it.
type memo struct {
	controller string

	applied map[child]record
	absent  map[child]bool // seen to be absent, or deleted
	patch   trial          // of the primary
	status  trial
	events  map[digest]bool // of the guest's last run
	said    digest          // of the host about the last run
}

// child stands for the name of an object that an intent is about, whatever
// version of its kind the intent is written in. What is remembered holds no
// strings of a result or a reply: they would keep all of it in memory.
type child digest

func childOf(kind abi.Kind, key object.Key) child {
	return child(sumStrings(kind.Group(), kind.Kind, key.Namespace, key.Name))
}

// record is the last apply of an object: what was wanted, and the body that
// the server made of it. As long as both are the same there is nothing to do.
type record struct {
	intent digest
	body   digest
	// resourceVersion is the latest at which the object had this body.
	resourceVersion string
}

// trial is the last merge patch of a primary: the patch, and the value that
// it led to. The same patch of the same value would lead there again.
type trial struct {
	patch, result digest
	epoch         int // of the schema, for a patch of status
}

// of returns the memo of a primary, a new one if there is none.
func (m *memory) of(key memoKey) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.find(key); found != nil {
		return found
	}
	if m.byUID == nil {
		m.byUID = map[types.UID][]*memo{}
	}
	fresh := &memo{controller: strings.Clone(key.controller)}
	uid := types.UID(strings.Clone(string(key.uid)))
	m.byUID[uid] = append(m.byUID[uid], fresh)
	return fresh
}

// find returns the memo of a primary, nil if there is none. m.mu is held.
func (m *memory) find(key memoKey) *memo {
	for _, found := range m.byUID[key.uid] {
		if found.controller == key.controller {
			return found
		}
	}
	return nil
}

// unsay forgets what the host said about a primary, if anything is known of
// it at all.
func (m *memory) unsay(key memoKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.find(key); found != nil {
		found.said = digest{}
	}
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byUID, uid)
}

// keep drops what is remembered of objects that the last run did not name.
func (m *memo) keep(named map[child]bool) {
	for c := range m.applied {
		if !named[c] {
			delete(m.applied, c)
		}
	}
	for c := range m.absent {
		if !named[c] {
			delete(m.absent, c)
		}
	}
}

func (m *memo) setApplied(c child, r record) {
	if m.applied == nil {
		m.applied = map[child]record{}
	}
	r.resourceVersion = strings.Clone(r.resourceVersion)
	m.applied[c] = r
	delete(m.absent, c)
}

func (m *memo) setAbsent(c child) {
	if m.absent == nil {
		m.absent = map[child]bool{}
	}
	m.absent[c] = true
	delete(m.applied, c)
}
