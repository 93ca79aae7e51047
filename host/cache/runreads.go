package cache

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/edges"
	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/object"
)

// Owner is a key of a controller. It owns the edges to what it has read.
type Owner = edges.Owner

// Run is the view that one reconcile has of the cache. Each read is registered
// as an edge of its owner. A run is used by one goroutine, an owner has at most
// one open run at a time, and it must be ended by Commit or Abandon.
//
// Everything that a run reads of a kind is of one state: that of the first read, with
// the plugin's own writes until then. No read blocks.
type Run struct {
	cache     *Cache
	owner     Owner
	own       *OwnWrites
	informers func(abi.Kind) *Informer
	edges     *edges.Run // nil after the end
	views     map[abi.Kind]*view
	closed    bool
}

// Reading is a list of a run.
type Reading struct {
	Kind      abi.Kind
	Namespace string          // "" for a cluster-scoped kind and for all namespaces
	Selector  labels.Selector // nil for everything
	Fields    fieldpath.Selector
	Part      fieldpath.Set // what is read of the objects, which is kept: a change elsewhere does not wake the owner
	Limit     int           // how many objects at most; 0: all
	After     object.Key    // only what comes after it
	MaxBytes  int           // what the part of the objects may have together, with separators; 0: any
	// Look is that of [objects.Query]. It may panic, and be nil.
	Look func(cost int)
}

// List is what a list has found, ordered by namespace and name.
type List struct {
	Items []*object.Object
	Bytes int  // of the part of them that was asked for
	More  bool // there are more than Reading.Limit
}

var (
	// errEnded is returned for a read after Close, Commit or Abandon.
	errEnded = errors.New("the reads of the run have ended")
	// ErrNotFollowed is returned for a read of a kind that the plugin has no informer of.
	ErrNotFollowed = errors.New("the plugin does not follow the kind")
	// ErrTooLarge is returned for a list of more than Reading.MaxBytes.
	ErrTooLarge = errors.New("the objects are too large together")
	// ErrExpired is returned for a read of a kind of which much has changed since the
	// run began to read it. Another run will succeed.
	ErrExpired = objects.ErrExpired
)

// Begin opens a run for an owner. own are the writes of its plugin, which its
// reads contain, and informers those that the plugin reads.
func (c *Cache) Begin(o Owner, own *OwnWrites, informers func(abi.Kind) *Informer) *Run {
	return &Run{cache: c, owner: o, own: own, informers: informers, edges: c.edges.Begin(o), views: map[abi.Kind]*view{}}
}

// Get reads an object, of which only the part is used: a change elsewhere does not wake
// the owner. The part is kept. It returns nil if there is no such object. The error is
// [ErrNotSynced] if the informer of the kind has not synced, [ErrNotFollowed] or
// [ErrExpired]. The caller checks whether the owner may read the object.
func (r *Run) Get(kind abi.Kind, key object.Key, part fieldpath.Set) (o *object.Object, err error) {
	v, isFirst, err := r.read(kind, func(i *Informer) {
		key.Namespace = i.scope(key.Namespace)
		r.edges.Get(i.edges, key, part)
	})
	if err == nil {
		o, err = v.get(key)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind, key, err)
	}
	if !isFirst {
		v.wakeIf(func(now *view) bool {
			other, err := now.get(key)
			return err != nil || !isSame(part, o, other)
		})
	}
	return o, nil
}

// List reads the objects that match. Errors are those of Get, and [ErrTooLarge].
func (r *Run) List(l Reading) (found List, err error) {
	v, isFirst, err := r.read(l.Kind, func(i *Informer) {
		l.Namespace = i.scope(l.Namespace)
		r.edges.List(i.edges, l.Namespace, edges.Selection{Labels: l.Selector, Fields: l.Fields}, l.Part)
	})
	if err == nil {
		found, err = v.list(l)
	}
	if !isFirst && (err == nil || errors.Is(err, ErrTooLarge)) {
		v.wakeIf(func(now *view) bool {
			other, laterErr := now.list(l)
			return !errors.Is(laterErr, err) || !isSameList(l.Part, found, other)
		})
	}
	if err != nil {
		return List{}, fmt.Errorf("list %s in %q: %w", l.Kind, l.Namespace, err)
	}
	return found, nil
}

// read registers an edge and returns the view of its kind, and whether it is the
// first read of that.
func (r *Run) read(kind abi.Kind, addEdge func(*Informer)) (v *view, isFirst bool, err error) {
	if r.closed {
		return nil, false, errEnded
	}
	i := r.informers(kind)
	if i == nil {
		return nil, false, ErrNotFollowed
	}
	addEdge(i)
	if !r.edges.WaitForSync(i.edges, i.HasSynced) {
		return nil, false, ErrNotSynced
	}
	v = r.views[kind]
	if v != nil {
		return v, false, nil
	}
	v = r.open(i)
	r.views[kind] = v
	return v, true, nil
}

func (r *Run) open(i *Informer) *view {
	own := r.own.ofKind(i.Kind()) // before the snapshot, which then contains what was passed
	return &view{run: r, informer: i, own: own, shown: i.store.open()}
}

// Close ends the reads of the run, and frees what was kept for them. The run must be
// ended all the same.
func (r *Run) Close() {
	for _, v := range r.views {
		v.close()
	}
	r.views, r.closed = nil, true
}

// Commit ends a run that has returned a result. The edges to what it has read
// replace the edges of earlier runs.
func (r *Run) Commit() {
	if r.edges != nil {
		r.edges.Commit()
		r.Abandon()
	}
}

// Abandon ends a run that has not returned a result. The edges of the last run that
// has stay beside its own. After Commit it does nothing. A run that has ended keeps
// nothing of what it has read in memory.
func (r *Run) Abandon() {
	if r.edges == nil {
		return
	}
	r.edges.Abandon()
	r.edges = nil
	r.Close()
}

// view is the state of one kind that a run reads.
type view struct {
	run      *Run
	informer *Informer
	own      *ownTree // the plugin's own writes; nil if there are none
	shown    snapshot
}

func (v *view) close() { v.informer.store.close(v.shown) }

// wakeIf wakes the owner if the present state differs from that of the view: an edge
// that was added after the view was opened was not there when the change came.
func (v *view) wakeIf(differs func(now *view) bool) {
	if v.informer.store.isAt(v.shown) {
		return
	}
	now := v.run.open(v.informer)
	defer now.close()
	if differs(now) {
		v.run.cache.config.Wake(v.run.owner, Event{}, false)
	}
}

func (v *view) get(key object.Key) (*object.Object, error) {
	shown, err := v.shown.Get(key)
	if err != nil {
		return nil, err
	}
	return v.with(findIn(v.own, key), shown), nil
}

// with returns the object as the plugin left it, or as it is shown if that is newer.
// The owner is woken for a state that is not shown and that a list goes past.
func (v *view) with(own *ownWrite, shown *object.Object) *object.Object {
	if own == nil || own.passed(v.informer.informer, v.shown.position, shown) {
		return shown
	}
	o := own.over(shown)
	if o != nil && o != shown {
		v.informer.WakeIfSkipped(v.run.owner, own.version)
	}
	return o
}

func (v *view) list(l Reading) (List, error) {
	looked := 0
	q := objects.Query{Namespace: l.Namespace, Selector: l.Selector, Fields: l.Fields, After: l.After, Look: func(cost int) {
		if looked += cost; l.Look != nil {
			l.Look(cost)
		}
	}}
	own, err := v.ownIn(q)
	if err != nil {
		return List{}, err
	}
	shown, err := v.shown.List(q)
	if err != nil {
		return List{}, err
	}
	c := &collector{Reading: l}
	for o := range merged(shown, own) {
		if !c.add(o) {
			break
		}
	}
	v.indexAfter(q, looked, len(c.Items))
	return c.List, c.err
}

// indexAfter makes an index for a label or field of which a list requires a value, if it
// looked at much more than it has found.
func (v *view) indexAfter(q objects.Query, looked, found int) {
	now := v.run.cache.config.Clock.Now()
	for _, of := range v.shown.Unindexed(q, now) {
		if looked > 4*found+worthIndexing {
			v.informer.store.index(of, now, q.Look)
			return
		}
	}
}

// worthIndexing is how many objects a list may look at for each index it would need.
const worthIndexing = 1000
