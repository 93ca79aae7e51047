package objects

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/thole-dev/thole/host/object"
)

// ErrExpired is returned by a snapshot of which so much was replaced since that it
// is not kept in memory.
var ErrExpired = errors.New("too much has changed since the run began to read the kind")

// maxReplaced is how many bytes of objects snapshots keep that the set has not any
// more.
const maxReplaced = 32 << 20

// Snapshot is the state of a set at one time. It is safe for concurrent use, and
// kept until [Set.Close].
type Snapshot struct {
	changes  uint64
	state    atomic.Pointer[state] // nil when the snapshot has expired
	users    int
	replaced int // of snapshots, when the snapshot was taken
}

// state is what a snapshot shares with the set.
type state struct {
	all     *tree
	indexes map[string]*index
}

// Open returns the present state, for one user.
func (s *Set) Open() *Snapshot {
	if s.latest == nil {
		s.latest = &Snapshot{changes: s.changes}
		s.latest.state.Store(s.share())
	}
	s.open.add(s.latest)
	return s.latest
}

func (s *Set) share() *state {
	shared := &state{all: s.all.Clone(), indexes: make(map[string]*index, len(s.indexes))}
	for label, x := range s.indexes {
		shared.indexes[label] = x.clone()
	}
	return shared
}

// Close ends one use of a snapshot.
func (s *Set) Close(n *Snapshot) { s.open.remove(n) }

// IsOf reports whether the snapshot is the present state of the set.
func (n *Snapshot) IsOf(s *Set) bool { return n.changes == s.changes }

// Get returns an object, nil if there is none. The error is [ErrExpired].
func (n *Snapshot) Get(key object.Key) (*object.Object, error) {
	shared := n.state.Load()
	if shared == nil {
		return nil, ErrExpired
	}
	return find(shared.all, key).Object(), nil
}

// Keys returns the keys of the wanted entries, in order. It reads no object. The error is
// [ErrExpired].
func (n *Snapshot) Keys(wanted func(*Entry) bool) (keys []object.Key, err error) {
	shared := n.state.Load()
	if shared == nil {
		return nil, ErrExpired
	}
	shared.all.Ascend(func(e *Entry) bool {
		if wanted(e) {
			keys = append(keys, e.key)
		}
		return true
	})
	return keys, nil
}

// snapshots are those in use, oldest first.
type snapshots struct {
	list     []*Snapshot
	replaced int // bytes of objects that were replaced or removed
}

func (o *snapshots) add(n *Snapshot) {
	if n.users++; n.users == 1 {
		n.replaced = o.replaced
		o.list = append(o.list, n)
	}
}

func (o *snapshots) remove(n *Snapshot) {
	if n.users--; n.users == 0 { // it must not stay in unused capacity
		o.list = slices.DeleteFunc(o.list, func(other *Snapshot) bool { return other == n })
	}
}

// replace counts an object that the set does not have any more. The oldest
// snapshots expire when they keep too much.
func (o *snapshots) replace(bytes int) {
	o.replaced += bytes
	for len(o.list) > 0 && o.replaced-o.list[0].replaced > maxReplaced {
		o.list[0].state.Store(nil)
		o.list = o.list[1:]
	}
}
