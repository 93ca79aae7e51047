package cache

import (
	"sync"
	"time"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// OwnWrites holds what one plugin has written and its informers do not show yet.
// Reads through it return objects as the plugin left them, so that a run sees the
// writes of the runs before it, however late the informers are. An entry is
// dropped once the informer has passed the write. It is safe for concurrent use;
// the zero value is empty.
type OwnWrites struct {
	mu      sync.Mutex
	byKind  map[abi.Kind]*ownTree
	count   int // of entries
	bytes   int // of their objects
	sweepAt int // the count at which the next write drops what was passed
	swept   time.Time
}

// Bounds of the entries of one plugin. While they are reached, see
// [OwnWrites.Full], no run of the plugin may begin.
const (
	maxOwnWrites     = 10_000
	maxOwnWriteBytes = 32 << 20
	minSweep         = 64
	sweepInterval    = 50 * time.Millisecond // between those that reads of the size need
)

// ownTree has the writes of one kind, ordered by namespace and name. A clone of it is
// made in constant time.
type ownTree = btree.BTreeG[*ownWrite]

func newOwnTree() *ownTree {
	return btree.NewG(16, func(a, b *ownWrite) bool { return a.key.Compare(b.key) < 0 })
}

// ownWrite is the last write of an object.
type ownWrite struct {
	informer *informer
	key      object.Key
	object   *object.Object // as the API server returned it; nil if it was deleted, or has left the scope
	uid      types.UID      // "" if it has left the scope, or the API has none
	left     bool           // it has left the scope
	// version is the resourceVersion of the write or, of a deletion, the last one
	// that the object is known to have had.
	version string
	// reach is the position of the store that has the write: see informer.positionOf.
	reach string
	// restores is the number of [informer.Restores] at the time of the write, which
	// an API server that has gone back since may have lost.
	restores uint64
	// shown is the resourceVersion that the informer showed when the object was
	// written. It decides where versions cannot be compared.
	shown string
}

// Wrote records a write of an object that the informer follows, with the object as
// the API server returned it.
//
// An object that is not in the scope of the informer is not shown from then on.
func (w *OwnWrites) Wrote(i *Informer, o *object.Object) {
	p := i.in(o.Namespace)
	if p == nil {
		return
	}
	e := &ownWrite{informer: p.informer, key: o.Key(), version: o.ResourceVersion, left: true}
	if i.scope.HasWritten(o, p.store.get(e.key)) {
		e.object, e.uid, e.left = o, o.UID, false
		if i.scope.MetadataOnly {
			e.object = o.Metadata()
		}
	}
	w.add(e)
}

// Deleted records that the object of that uid does not exist any more. version is
// the last resourceVersion that it is known to have had. An object that waits for
// finalizers or for the end of its grace period still exists: that is a write. The
// strings are kept.
func (w *OwnWrites) Deleted(i *Informer, key object.Key, uid types.UID, version string) {
	if p := i.in(key.Namespace); p != nil {
		w.add(&ownWrite{informer: p.informer, key: key, uid: uid, version: version})
	}
}

func (w *OwnWrites) add(e *ownWrite) {
	e.restores, e.reach = e.informer.Restores(), e.informer.positionOf(e.version)
	shown := e.informer.store.get(e.key)
	if shown != nil {
		e.shown = shown.ResourceVersion
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := e.informer.Kind()
	switch before := w.find(kind, e.key); {
	case before == nil && shown == nil && e.left:
		return // it was not and is not in the scope
	case before == nil:
	case before.isNewerThan(e):
		return // the reply of a write that came later was faster
	default:
		w.drop(kind, before)
	}
	if w.byKind == nil {
		w.byKind = map[abi.Kind]*ownTree{}
	}
	if w.byKind[kind] == nil {
		w.byKind[kind] = newOwnTree()
	}
	w.byKind[kind].ReplaceOrInsert(e)
	w.count++
	w.bytes += e.size()
	if w.count > max(w.sweepAt, minSweep) {
		w.sweep()
	}
}

// find returns the write of an object, nil if there is none.
func (w *OwnWrites) find(kind abi.Kind, key object.Key) *ownWrite {
	return findIn(w.byKind[kind], key)
}

func findIn(tree *ownTree, key object.Key) *ownWrite {
	if tree == nil || tree.Len() == 0 {
		return nil
	}
	e, _ := tree.Get(&ownWrite{key: key})
	return e
}

func (w *OwnWrites) drop(kind abi.Kind, e *ownWrite) {
	w.byKind[kind].Delete(e)
	w.count--
	w.bytes -= e.size()
}

// sweep drops every entry that its informer has passed, or whose informer has
// stopped. The next sweep follows when there are twice as many entries as are left,
// which makes the cost of a write constant.
func (w *OwnWrites) sweep() {
	for kind, tree := range w.byKind {
		tree.Clone().Ascend(func(e *ownWrite) bool {
			if e.isPassed(e.informer) || e.informer.ctx.Err() != nil {
				w.drop(kind, e)
			}
			return true
		})
	}
	w.sweepAt, w.swept = 2*w.count, time.Now()
}

// Full reports whether there are so many entries that no more writes may follow
// before the informers have passed some.
func (w *OwnWrites) Full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	full := func() bool { return w.count >= maxOwnWrites || w.bytes >= maxOwnWriteBytes }
	w.sweepIf(full())
	return full()
}

// Clear drops all entries.
func (w *OwnWrites) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byKind, w.count, w.bytes, w.sweepAt = nil, 0, 0, 0
}

// sweepIf sweeps, but not too often.
func (w *OwnWrites) sweepIf(condition bool) {
	if condition && time.Since(w.swept) >= sweepInterval {
		w.sweep()
	}
}

// Len returns the number of entries.
func (w *OwnWrites) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepIf(w.count > 0)
	return w.count
}

// Get returns an object as the plugin left it, or as the informer shows it if that
// is newer; nil if there is none.
func (w *OwnWrites) Get(i *Informer, key object.Key) *object.Object {
	p := i.in(key.Namespace)
	if p == nil {
		return nil
	}
	own := w.pending(p.informer, key) // before the read, which then contains what was passed
	return p.shows(own.over(p.store.get(key)))
}

// LastKnown returns the last state of an object that does not exist any more: the plugin's own
// write, if that is newer than what the informer has shown until then. A write that the informer
// has passed, as by a list without the object, is known until it is dropped.
func (w *OwnWrites) LastKnown(i *Informer, shown *object.Object) *object.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.find(i.Kind(), shown.Key())
	if e == nil || e.object == nil || e.uid != shown.UID || e.isBefore(shown.ResourceVersion) {
		return shown
	}
	return e.object
}

// pending returns the write of an object that the informer has not passed, nil if
// there is none.
func (w *OwnWrites) pending(i *informer, key object.Key) *ownWrite {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := i.Kind()
	e := w.find(kind, key)
	if e == nil {
		return nil
	}
	if e.isPassed(i) {
		w.drop(kind, e)
		return nil
	}
	return e
}

// ofKind returns the writes of a kind, nil if there are none.
func (w *OwnWrites) ofKind(kind abi.Kind) *ownTree {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepIf(w.count > 0)
	if tree := w.byKind[kind]; tree != nil && tree.Len() > 0 {
		return tree.Clone()
	}
	return nil
}

// passed reports whether a state of the informer, in which the object is shown, has
// the write, or what came after it, or what came back instead. A deletion has no
// resourceVersion that the client knows: it has been passed when the informer has seen
// the object and does not show it any more.
func (e *ownWrite) passed(i *informer, at position, shown *object.Object) bool {
	if e.informer == i && e.restores != at.restores {
		return true
	}
	reached, err := atLeast(at.version, e.reach)
	switch {
	case i.poller != nil && e.object == nil: // uids may be missing, and versions begin again
		return reached && (shown == nil || e.uid == "" || shown.UID != e.uid)
	case e.object == nil:
		return (reached || err != nil) && (shown == nil || shown.UID != e.uid && !isBefore(shown.ResourceVersion, e.version))
	case err != nil: // of a server whose versions have no order: the first change counts
		return shown != nil && shown.ResourceVersion != e.shown
	}
	return reached
}

// isPassed reports whether an informer has passed the write.
func (e *ownWrite) isPassed(i *informer) bool {
	at := i.store.position() // before the read
	return e.passed(i, at, i.store.get(e.key))
}

// over returns what is newer: the write, or the object as the informer shows it.
// Either may be nil.
func (e *ownWrite) over(shown *object.Object) *object.Object {
	switch {
	case e == nil:
		return shown
	case shown == nil:
		return e.object
	case e.object == nil && shown.UID == e.uid: // a deleted object has no later state
		return nil
	case e.isBefore(shown.ResourceVersion):
		return shown
	}
	return e.object
}

// isBefore reports whether the write is older than a resourceVersion. Those of a kind that is polled may
// have no order: a write of it is replaced by the next one that is recorded, and by a list that has passed it.
func (e *ownWrite) isBefore(version string) bool {
	return e.informer.poller == nil && isBefore(e.version, version)
}

// isNewerThan reports whether the write came after another one of the same object.
// Nothing but a deletion follows on another one of the same uid, unless it is "".
func (e *ownWrite) isNewerThan(other *ownWrite) bool {
	if e.object == nil && e.uid == other.uid && e.uid != "" {
		return true
	}
	return other.isBefore(e.version)
}

func (e *ownWrite) size() int {
	if e.object == nil {
		return 0
	}
	return len(e.object.Raw)
}
