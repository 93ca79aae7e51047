package cache

import (
	"errors"
	"fmt"
	"slices"

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
	edges     *edges.Run           // nil after the end, and if it records nothing
	shown     map[*informer]*state // that the run reads
	closed    bool
}

// Reading is a list of a run.
type Reading struct {
	Kind       abi.Kind
	Namespaces []string        // nil for all that are followed; a cluster-scoped kind has none
	Selector   labels.Selector // nil for everything
	Fields     fieldpath.Selector
	Controller string        // the UID of the controller of the objects; "" for any
	Part       fieldpath.Set // what is read of the objects, which is kept: a change elsewhere does not wake the owner
	Limit      int           // how many objects at most; 0: all
	After      object.Key    // only what comes after it
	MaxBytes   int           // what the part of the objects may have together, with separators; 0: any
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
	// ErrNotFollowed is returned for a read of a kind that the plugin has no informer of, or
	// of a namespace of the kind.
	ErrNotFollowed = errors.New("the plugin does not follow the kind there")
	// ErrTooLarge is returned for a list of more than Reading.MaxBytes.
	ErrTooLarge = errors.New("the objects are too large together")
	// ErrExpired is returned for a read of a kind of which much has changed since the
	// run began to read it. Another run will succeed.
	ErrExpired = objects.ErrExpired
)

// Begin opens a run for an owner. own are the writes of its plugin, which its
// reads contain, and informers those that the plugin reads.
func (c *Cache) Begin(o Owner, own *OwnWrites, informers func(abi.Kind) *Informer) *Run {
	return &Run{cache: c, owner: o, own: own, informers: informers, edges: c.edges.Begin(o), shown: map[*informer]*state{}}
}

// BeginUnrecorded opens a run that registers no edges: nothing wakes the owner for what it has
// read. An owner may have any number of them. It is ended by Close.
func (c *Cache) BeginUnrecorded(o Owner, own *OwnWrites, informers func(abi.Kind) *Informer) *Run {
	return &Run{cache: c, owner: o, own: own, informers: informers, shown: map[*informer]*state{}}
}

// Get reads an object, of which only the part is used: a change elsewhere does not wake
// the owner. The part is kept. It returns nil if there is no such object in the scope of
// the informer. The error is [ErrNotSynced] if the informer of the kind has not synced,
// [ErrNotFollowed] or [ErrExpired]. The caller checks whether the owner may read the object.
func (r *Run) Get(kind abi.Kind, key object.Key, part fieldpath.Set) (o *object.Object, err error) {
	v, err := r.viewOf(kind, key.Namespace)
	if err == nil {
		key.Namespace = v.only
		r.recordGet(v, key, part)
		err = r.open(v)
	}
	if err == nil {
		o, err = v.get(key)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind, key, err)
	}
	r.wakeIf([]*view{v}, func(now []*view) bool {
		other, err := now[0].get(key)
		return err != nil || !isSame(part, o, other)
	})
	return o, nil
}

// List reads the objects that match. Errors are those of Get, and [ErrTooLarge].
func (r *Run) List(l Reading) (found List, err error) {
	views, err := r.viewsOf(l)
	for _, v := range views {
		r.recordList(v, l)
	}
	for _, v := range views {
		if err == nil {
			err = r.open(v)
		}
	}
	if err == nil {
		found, err = collect(l, views)
		if err == nil || errors.Is(err, ErrTooLarge) {
			r.wakeIf(views, func(now []*view) bool {
				other, laterErr := collect(l, now)
				return !errors.Is(laterErr, err) || !isSameList(l.Part, found, other)
			})
		}
	}
	if err != nil {
		return List{}, fmt.Errorf("list %s: %w", l.Kind, err)
	}
	return found, nil
}

func (r *Run) recordGet(v *view, key object.Key, part fieldpath.Set) {
	if r.edges != nil {
		r.edges.Get(v.part.edges, key, part)
	}
}

func (r *Run) recordList(v *view, l Reading) {
	if r.edges != nil {
		r.edges.List(v.part.edges, v.only, edges.Selection{Labels: l.Selector, Fields: l.Fields, Controller: l.Controller}, l.Part)
	}
}

// waitForSync reports whether an informer has synced. If not, the owner is woken when it has.
func (r *Run) waitForSync(i *informer) bool {
	if r.edges == nil {
		return i.HasSynced()
	}
	return r.edges.WaitForSync(i.edges, i.HasSynced)
}

// viewOf returns the view of a namespace of a kind. It may have to be opened.
func (r *Run) viewOf(kind abi.Kind, namespace string) (*view, error) {
	if r.closed {
		return nil, errEnded
	}
	i := r.informers(kind)
	if i == nil {
		return nil, ErrNotFollowed
	}
	p := i.in(namespace)
	if p == nil {
		return nil, ErrNotFollowed
	}
	return &view{run: r, part: p, only: p.namespace(namespace)}, nil
}

// viewsOf returns the views of a list, in the order of their namespaces.
func (r *Run) viewsOf(l Reading) (all []*view, err error) {
	if r.closed {
		return nil, errEnded
	}
	i := r.informers(l.Kind)
	switch {
	case i == nil:
		return nil, ErrNotFollowed
	case l.Namespaces == nil || !i.Namespaced():
		for n := range i.parts {
			p := &i.parts[n]
			all = append(all, &view{run: r, part: p, only: p.onlyNamespace()})
		}
		return all, nil
	}
	for _, namespace := range l.Namespaces {
		v, err := r.viewOf(l.Kind, namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// open makes a view show the state of its informer that the run reads. If the run did
// so before it is a late read: see wakeIf.
func (r *Run) open(v *view) error {
	i := v.part.informer
	if !r.waitForSync(i) {
		return ErrNotSynced
	}
	if shown := r.shown[i]; shown != nil {
		v.state, v.late = shown, true
		return nil
	}
	v.state = r.read(i)
	r.shown[i] = v.state
	return nil
}

// read returns the present state of an informer.
func (r *Run) read(i *informer) *state {
	own := r.own.ofKind(i.Kind()) // before the snapshot, which then contains what was passed
	return &state{informer: i, own: own, snapshot: i.store.open()}
}

// wakeIf wakes the owner if the present states differ from those of views: an edge
// that was added after a state was read was not there when the change came.
func (r *Run) wakeIf(views []*view, differs func(now []*view) bool) {
	if r.edges == nil || !slices.ContainsFunc(views, func(v *view) bool { return v.late && !v.informer.store.isAt(v.snapshot) }) {
		return
	}
	now := make([]*view, len(views))
	for n, v := range views {
		now[n] = &view{run: r, part: v.part, only: v.only, state: r.read(v.informer)}
		defer now[n].close()
	}
	if differs(now) {
		r.cache.hooks.Wake(r.owner, Event{}, false)
	}
}

// Close ends the reads of the run, and frees what was kept for them. The run must be
// ended all the same.
func (r *Run) Close() {
	for _, s := range r.shown {
		s.close()
	}
	r.shown, r.closed = nil, true
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

// state is a state of an informer.
type state struct {
	informer *informer
	own      *ownTree // the plugin's own writes; nil if there are none
	snapshot
}

func (s *state) close() { s.informer.store.close(s.snapshot) }

// view is what a read has of a state.
type view struct {
	run  *Run
	part *part
	only string // the namespace; "" for all
	*state
	late bool // the run has read the state before
}

func (v *view) get(key object.Key) (*object.Object, error) {
	shown, err := v.Get(key)
	if err != nil {
		return nil, err
	}
	return v.part.shows(v.with(findIn(v.own, key), shown)), nil
}

// with returns the object as the plugin left it, or as it is shown if that is newer.
// The owner is woken for a state that is not shown and that a list goes past.
func (v *view) with(own *ownWrite, shown *object.Object) *object.Object {
	if own == nil || own.passed(v.informer, v.position, shown) {
		return shown
	}
	o := own.over(shown)
	hidden := o == nil && shown != nil && v.informer.poller != nil // a list may show another object of the name
	if (o != nil && o != shown || hidden) && v.run.edges != nil {
		v.informer.wakeIfSkipped(v.run.owner, own.reach)
	}
	return o
}

// collect lists what views have, one after the other.
func collect(l Reading, views []*view) (List, error) {
	c := &collector{Reading: l}
	for _, v := range views {
		if err := v.list(c); err != nil {
			return List{}, err
		}
		if c.err != nil || c.More {
			break
		}
	}
	return c.List, c.err
}

func (v *view) list(c *collector) error {
	looked, before := 0, len(c.Items)
	q := objects.Query{Namespace: v.only, Selector: c.Selector, Fields: c.Fields, Controller: c.Controller, After: c.After, By: v.run.owner.Plugin(), Look: func(cost int) {
		if looked += cost; c.Look != nil {
			c.Look(cost)
		}
	}}
	own, err := v.ownIn(q)
	if err != nil {
		return err
	}
	shown, err := v.List(q)
	if err != nil {
		return err
	}
	for o := range merged(shown, own) {
		if !c.add(o) {
			break
		}
	}
	v.informer.listed(v.run.owner, v.informer.store.indexAfter(v.snapshot, q, looked, len(c.Items)-before, v.run.cache.config.Clock.Now()))
	return nil
}
