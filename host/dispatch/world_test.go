package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// world is an API server with an informer that is late, and a plugin that makes as
// many gadgets for a widget as its spec wants. Their names come from the seed, so
// that a run that does not see the gadgets of the last one makes too many.
type world struct {
	noTurns
	c *Controller

	mu      sync.Mutex
	random  *rand.Rand
	chaos   bool // requests fail at random
	gapless bool // the watch is never interrupted
	version int
	objects map[id]*entity        // on the server
	shown   map[id]*object.Object // by the informer
	seen    int                   // the version up to which the informer has seen everything
	own     map[id]ownWrite
	ahead   map[object.Key]int // the latest version that a key's runs wrote
	pending []event
	saw     map[object.Key]string // by the last call
	model   *ledgerModel          // nil unless the controller has the ledger

	vanished int                         // how many widgets were deleted in spite of the finalizer
	cleaned  map[outcome.LateCleanup]int // what became of them

	delivering sync.Mutex
}

type id struct {
	kind abi.Kind
	key  object.Key
}

// entity is a widget or a gadget.
type entity struct {
	id
	uid              string
	version          int
	owner            *entity // of a gadget
	want, generation int
	note, copied     string // annotations: somebody's, and that of the plugin
	status           string
	finalizer        bool
	deleting         bool
}

type event struct {
	of  id
	now *entity // nil: deleted
	at  int     // version
	due time.Time
}

type ownWrite struct {
	object  *object.Object // nil: deleted
	uid     types.UID
	version int
}

func (e *entity) object() *object.Object {
	owners, finalizers, deletion := "[]", "[]", ""
	if e.owner != nil {
		owners = fmt.Sprintf(`[{"apiVersion":"example.dev/v1","kind":"Widget","name":%q,"uid":%q,"controller":true}]`, e.owner.key.Name, e.owner.uid)
	}
	if e.finalizer {
		finalizers = `["f"]`
	}
	if e.deleting {
		deletion = `"deletionTimestamp":"2026-01-01T00:00:00Z",`
	}
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{%s"namespace":"ns","name":%q,"uid":%q,"generation":%d,"resourceVersion":"%d",
		"finalizers":%s,"ownerReferences":%s,"annotations":{"note":%q,"copied":%q}},"spec":{"want":%d},"status":{"x":%q}}`,
		e.kind.APIVersion, e.kind.Kind, deletion, e.key.Name, e.uid, e.generation, e.version, finalizers, owners, e.note, e.copied, e.want, e.status), abi.Kind{})
	if err != nil {
		panic(err)
	}
	return o
}

// change changes an entity of the server, creates it, or deletes it. w.mu is held.
func (w *world) change(of id, how func(*entity)) *entity {
	w.version++
	e := &entity{id: of, uid: fmt.Sprint("uid-", w.version), generation: 1}
	if before := w.objects[of]; before != nil {
		*e = *before
	}
	if how != nil {
		how(e)
	}
	e.version = w.version
	if w.objects[of] = e; how == nil || e.deleting && !e.finalizer {
		delete(w.objects, of)
		e = nil
	}
	lag := []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 30 * time.Second}[w.random.IntN(5)]
	w.pending = append(w.pending, event{of, e, w.version, time.Now().Add(lag)})
	time.AfterFunc(lag, w.deliver)
	return e
}

// deliver delivers the events that are due, in their order. Now and then, as after
// an interruption of the watch, those of one object are one.
func (w *world) deliver() {
	w.delivering.Lock()
	defer w.delivering.Unlock()
	w.mu.Lock()
	n := 0
	for n < len(w.pending) && !w.pending[n].due.After(time.Now()) {
		n++
	}
	due := w.pending[:n:n]
	w.pending = w.pending[n:]
	relist := w.random.IntN(4) == 0 && !w.gapless
	var missed []object.Key
	for key, version := range w.ahead {
		if relist && version > w.seen {
			missed = append(missed, key)
		}
	}
	w.mu.Unlock()
	for i, e := range due {
		later := false
		for _, other := range due[i+1:] {
			later = later || other.of == e.of
		}
		if !relist || !later {
			w.show(e)
		}
	}
	slices.SortFunc(missed, func(a, b object.Key) int { return strings.Compare(a.Name, b.Name) })
	for _, key := range missed {
		w.c.ObserveRead(key, nil, nil, false)
	}
}

func (w *world) show(e event) {
	w.mu.Lock()
	before := w.shown[e.of]
	var now *object.Object
	if delete(w.shown, e.of); e.now != nil {
		now = e.now.object()
		w.shown[e.of] = now
	}
	w.seen = e.at
	w.model.shows(before, now)
	w.mu.Unlock()
	switch {
	case before == nil && now == nil:
	case before != nil && now != nil && before.UID != now.UID:
		w.notify(e.of.kind, before, nil)
		w.notify(e.of.kind, nil, now)
	default:
		w.notify(e.of.kind, before, now)
	}
}

func (w *world) notify(kind abi.Kind, before, now *object.Object) {
	if kind == widget {
		w.c.Observe(before, now, false)
	} else {
		w.c.ObserveOwned(before, now)
	}
}

// read returns an object as the plugin left it, or as the informer shows it. w.mu is
// held.
func (w *world) read(of id) *object.Object {
	own, ok := w.own[of]
	shown := w.shown[of]
	switch {
	case !ok:
		return shown
	case own.version <= w.seen && (own.object != nil || shown == nil || shown.UID != own.uid):
		delete(w.own, of)
		return shown
	case shown != nil && shown.UID == own.uid && own.object == nil:
		return nil
	case shown != nil && versionOf(shown) > own.version:
		return shown
	}
	return own.object
}

func versionOf(o *object.Object) (version int) {
	fmt.Sscan(o.ResourceVersion, &version)
	return version
}

// gadgets returns those that a widget controls. w.mu is held.
func (w *world) gadgets(of types.UID) (all []*object.Object) {
	for _, from := range []func(func(id)){
		func(yield func(id)) {
			for i := range w.shown {
				yield(i)
			}
		},
		func(yield func(id)) {
			for i := range w.own {
				if w.shown[i] == nil {
					yield(i)
				}
			}
		},
	} {
		from(func(i id) {
			if o := w.read(i); o != nil && i.kind == gadget && o.Controller().UID == of {
				all = append(all, o)
			}
		})
	}
	return all
}

// The cache of the controller.
type worldCache struct {
	Cache
	*world
}

func (c worldCache) Get(key object.Key) (*object.Object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.read(id{widget, key})
	return o, o != nil
}

func (c worldCache) Shown(key object.Key) (*object.Object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.shown[id{widget, key}]
	return o, o != nil
}

func (c worldCache) LastKnown(shown *object.Object) *object.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.own[id{widget, shown.Key()}]
	if own.object == nil || own.uid != shown.UID || own.version < versionOf(shown) {
		return shown
	}
	return own.object
}

func (c worldCache) Exists(_ context.Context, key object.Key, uid object.Hash) (bool, error) {
	c.request()
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.objects[id{widget, key}]
	return live != nil && live.object().Identity() == uid, nil
}

func (c worldCache) Wrote(key object.Key, w effect.Write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var version int
	fmt.Sscan(w.ResourceVersion, &version)
	if before, ok := c.own[id{w.Kind, w.Key}]; !ok || before.version <= version {
		c.own[id{w.Kind, w.Key}] = ownWrite{w.Object, w.UID, version}
	}
	c.ahead[key] = max(c.ahead[key], version)
}

func (c worldCache) Refresh(_ context.Context, key object.Key, ref abi.Ref) error {
	c.request()
	c.mu.Lock()
	defer c.mu.Unlock()
	of := id{abi.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}, object.Key{Namespace: "ns", Name: ref.Name}}
	if live := c.objects[of]; live != nil {
		c.own[of] = ownWrite{live.object(), types.UID(live.uid), live.version}
		c.ahead[key] = max(c.ahead[key], live.version)
	} else if o := c.read(of); o != nil {
		c.own[of] = ownWrite{nil, o.UID, versionOf(o)}
	}
	return nil
}

func (worldCache) Full() bool                                                 { return false }
func (worldCache) Begin(object.Key, map[abi.Kind]scope.Reads) Reads           { return noReads{} }
func (worldCache) BeginUnrecorded(object.Key, map[abi.Kind]scope.Reads) Reads { return noReads{} }
func (worldCache) Forget(object.Key)                                          {}

func (worldCache) PrimariesBy(string, fieldpath.Path, string) []object.Key { return nil }

// Reconcile is the plugin.
func (w *world) Reconcile(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
	request, err := abi.DecodeRequest(slices.Concat(call.Request...))
	if err != nil {
		panic(err)
	}
	primary, err := object.Parse(request.Object, abi.Kind{})
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	children := w.gadgets(primary.UID)
	if !request.Gone {
		w.saw[primary.Key()] = state(primary, len(children))
	}
	w.model.called(primary, request)
	w.mu.Unlock()
	w.request() // the time that the call takes

	var want int
	_, spec, _ := strings.Cut(string(primary.Raw), `"want":`)
	fmt.Sscan(spec[:1], &want)
	if primary.Deleting() || request.Gone {
		want = 0
	}
	result := &abi.Result{Status: fmt.Appendf(nil, `{"x":"%d of %d"}`, len(children), want)}
	for n := len(children); n < want; n++ {
		result.Apply = append(result.Apply, abi.Apply{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g%x-%d"}}`, call.Seed[:6], n)})
	}
	for _, surplus := range children[min(want, len(children)):] {
		result.Delete = append(result.Delete, abi.Delete{Ref: surplus.Ref()})
	}
	if note := primary.Annotations["note"]; note != primary.Annotations["copied"] && !primary.Deleting() {
		result.Patch = fmt.Appendf(nil, `{"metadata":{"annotations":{"copied":%q}}}`, note)
	}
	if request.Gone && !request.Deleting {
		result.Status, result.Patch = nil, nil
	}
	return returns(result)
}

// state describes what a run depends on.
func state(primary *object.Object, children int) string {
	return fmt.Sprintf("%s generation %d, note %q, copied %q, %d children", primary.UID, primary.Generation, primary.Annotations["note"], primary.Annotations["copied"], children)
}
