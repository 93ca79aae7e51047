package sdktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/with/timers/schedule"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/anyjson"
)

// World is a fake cluster with one controller, which runs when the test calls
// [World.Reconcile]. It belongs to one test and one goroutine. A call that is not
// possible, such as changing an object that does not exist, ends the test.
type World struct {
	tb         testing.TB
	runner     Runner
	plugin     string
	controller abi.Controller
	following

	user           sdk.User // who asks in reviews
	dryRun         bool     // of reviews
	now            time.Time
	started        time.Time // of the host
	config         []byte
	objects        map[id]*object
	clusterScoped  map[sdk.Kind]bool
	failedReads    map[sdk.Kind]int64     // the code that a read of the kind returns
	failedWrites   map[string]string      // the reason of the API server, by kind or by write
	crossNamespace bool                   // as in a policy
	wroteStatus    bool                   // a result had one
	intents        int                    // in one result, as in a policy
	applied        map[id]json.RawMessage // what the last apply of an object had
	created        map[id]id              // the primary that has created an object
	createdWith    map[id]json.RawMessage // what it was created with, by an apply that only creates
	immutable      map[sdk.Kind][]string  // fields
	keys           map[string]*key        // by UID of the primary
	entries        map[indexed]indexEntries
	daemons        map[id]*daemon // by primary
	http           http.Handler   // of all hosts; nil: they are unreachable
	failedHTTP     string         // the reason of requests that get no answer
	gone           []*object      // primaries for which [World.ReconcileGone] has a run
	serial         int            // the last UID, resource version and seed
}

// key is the state that the host keeps for a primary between its runs.
type key struct {
	tries     outcome.Tries
	previous  *abi.Previous
	memo      []byte
	timers    *schedule.Timers // nil before the first run, and without timers
	signals   [][]byte         // of the daemon, of scans and of events, for the next run
	signalled bool             // signals, or a scan without one, have made it due
	changes
}

// id identifies an object.
type id struct {
	kind            sdk.Kind
	namespace, name string
}

func idOf(ref sdk.Ref) id {
	return id{sdk.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}, ref.Namespace, ref.Name}
}

func (i id) ref() sdk.Ref   { return i.kind.Ref(i.namespace, i.name) }
func (i id) String() string { return i.ref().String() }

// object is an object as the API server would return it.
type object struct {
	id
	meta sdk.ObjectMeta // of raw
	raw  []byte
}

// ref returns the reference to the object, with its UID.
func (o *object) ref() sdk.Ref {
	ref := o.id.ref()
	ref.UID = o.meta.UID
	return ref
}

// startTime is the time at which a world begins. It is always the same, so that
// tests are repeatable.
var startTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New returns a world for the controller that the package under test has
// registered, which runs natively. For a plugin with several controllers, pass the
// name of one.
func New(tb testing.TB, controller ...string) *World {
	tb.Helper()
	return NewWith(tb, native{}, controller...)
}

// NewWith is [New] for a controller that is run by a [Runner].
func NewWith(tb testing.TB, runner Runner, controller ...string) *World {
	tb.Helper()
	manifest, err := abi.DecodeManifest(runner.Describe())
	if err != nil {
		tb.Fatalf("read manifest: %v", err)
	}
	w := &World{
		tb: tb, runner: runner, plugin: manifest.Name, now: startTime, started: startTime,
		objects: map[id]*object{}, clusterScoped: map[sdk.Kind]bool{}, failedReads: map[sdk.Kind]int64{},
		failedWrites: map[string]string{}, applied: map[id]json.RawMessage{}, created: map[id]id{}, createdWith: map[id]json.RawMessage{}, immutable: map[sdk.Kind][]string{}, keys: map[string]*key{},
		following: following{managed: manifest.Managed}, entries: map[indexed]indexEntries{}, daemons: map[id]*daemon{}, intents: abi.MaxIntents,
	}
	w.controller = w.choose(manifest.Controllers, controller)
	if d := w.daemon(); d != nil {
		if _, err := parseSelector(d.LabelSelector); err != nil {
			tb.Fatalf("controller %s has a daemon: %v", w.controller.Name, err)
		}
	}
	w.follow(manifest.Controllers)
	return w
}

// choose returns the controller that the test has named, or the only one.
func (w *World) choose(controllers []abi.Controller, names []string) abi.Controller {
	w.tb.Helper()
	if len(names) == 0 && len(controllers) == 1 {
		return controllers[0]
	}
	known := make([]string, 0, len(controllers))
	for _, c := range controllers {
		if len(names) == 1 && c.Name == names[0] {
			return c
		}
		known = append(known, c.Name)
	}
	w.tb.Fatalf("choose controller %q: pass one of %q", names, known)
	return abi.Controller{}
}

// Now returns the time of the world, which only [World.Advance] changes.
func (w *World) Now() time.Time { return w.now }

// Advance moves the time of the world forward. Nothing runs by itself: a timer of the
// controller that has become due is named by the next [World.Reconcile], and a daemon that
// waits for the time makes a step by the next [World.Step].
func (w *World) Advance(d time.Duration) { w.now = w.now.Add(d) }

// Configure sets the administrator's configuration of the plugin.
func (w *World) Configure(config any) { w.config = w.encode(config) }

// ClusterScoped makes a kind cluster-scoped. A kind is also cluster-scoped if an
// object of it was created without a namespace.
func (w *World) ClusterScoped(kind sdk.Kind) { w.clusterScoped[kind] = true }

// FailReads makes get and list of a kind return a negative code of package abi, such
// as [abi.CodeUnavailable]; 0 ends that.
func (w *World) FailReads(kind sdk.Kind, code int64) { w.failedReads[kind] = code }

// FailWrites makes apply and delete of a kind fail with a reason of the API server,
// such as Forbidden; "" ends that. For the kind of the primary its finalizer and
// patch fail. Conflict counts as a failure from the fifth in a row on, as in a host.
func (w *World) FailWrites(kind sdk.Kind, reason string) { w.failedWrites[kind.String()] = reason }

// FailWrite makes one write fail with a reason of the API server or the host, such as
// FieldConflict; "" ends that. The write has the form of [Run.Writes].
func (w *World) FailWrite(write, reason string) { w.failedWrites[write] = reason }

// CrossNamespace gives the plugin a policy that allows every namespace: namespaced
// primaries may read and write there.
func (w *World) CrossNamespace() { w.crossNamespace = true }

// LimitIntents sets limits.intents of the policy: how many entries release, apply, delete and
// events of one result have together at most.
func (w *World) LimitIntents(limit int) { w.intents = limit }

// Create creates an object as a user does. value is JSON as a string or bytes, or
// anything that encodes to it. The object gets a UID and the other metadata that an
// API server sets.
func (w *World) Create(value any) sdk.Ref {
	w.tb.Helper()
	raw := w.encode(value)
	o, err := parse(raw)
	if err != nil {
		w.tb.Fatalf("create: %v", err)
	}
	if w.objects[o.id] != nil {
		w.tb.Fatalf("create %s: it exists already", o.id)
	}
	if o.namespace == "" {
		w.clusterScoped[o.kind] = true
	}
	return w.create(o.id, raw).ref()
}

// create stores a new object with the metadata that an API server sets.
func (w *World) create(at id, raw []byte) *object {
	w.serial++
	return w.store(at, w.withMetadata(raw, map[string]any{
		"uid": fmt.Sprintf("uid-%d", w.serial), "generation": 1,
		"creationTimestamp": sdk.TimeOf(w.now), "resourceVersion": fmt.Sprint(w.serial),
	}))
}

// Change changes an object by a merge patch, as a user or another controller does.
// The patch may include the status.
func (w *World) Change(ref sdk.Ref, patch any) {
	w.tb.Helper()
	o := w.mustExist("change", ref)
	raw := w.merge(o.raw, w.encode(patch))
	if k := w.keys[o.meta.UID]; k != nil && !rawjson.Equal(w.withoutStatus(o.raw), w.withoutStatus(raw)) {
		k.tries = k.tries.Reset()
		if k.timers != nil {
			k.timers.Changed(w.now)
		}
	}
	w.update(o, raw)
}

// withoutStatus returns the parts of an object a change of which resets the tries.
func (w *World) withoutStatus(raw []byte) []byte {
	return w.merge(raw, []byte(`{"status":null,"metadata":{"finalizers":null,"ownerReferences":null}}`))
}

// update stores a new state of an object and reports whether it differs. A change of
// anything but metadata and status increments the generation.
func (w *World) update(o *object, raw []byte) bool {
	if rawjson.Equal(o.raw, raw) {
		return false
	}
	spec := func(raw []byte) []byte { return w.merge(raw, []byte(`{"metadata":null,"status":null}`)) }
	generation := o.meta.Generation
	if !rawjson.Equal(spec(o.raw), spec(raw)) {
		generation++
	}
	w.serial++
	before := o
	o = w.store(o.id, w.withMetadata(raw, map[string]any{"generation": generation, "resourceVersion": fmt.Sprint(w.serial)}))
	if !w.isPrimary(o) {
		w.leave(before)
	}
	if o.meta.Deleting() && len(o.meta.Finalizers) == 0 {
		w.remove(o)
	}
	return true
}

// withMetadata returns an object with fields of its metadata replaced.
func (w *World) withMetadata(raw []byte, fields map[string]any) []byte {
	return w.merge(raw, w.encode(map[string]any{"metadata": fields}))
}

// store replaces the object with that id.
func (w *World) store(at id, raw []byte) *object {
	o, err := parse(raw)
	if err != nil {
		w.tb.Fatalf("store %s: %v", at, err)
	}
	o.id = at
	w.objects[at] = o
	return o
}

// Delete deletes an object as a user does: it remains until its finalizers are
// removed.
func (w *World) Delete(ref sdk.Ref) {
	w.tb.Helper()
	w.delete(w.mustExist("delete", ref))
}

// delete deletes an object and reports whether that changed anything.
func (w *World) delete(o *object) bool {
	switch {
	case len(o.meta.Finalizers) == 0:
		w.remove(o)
		return true
	case o.meta.Deleting():
		return false
	}
	return w.update(o, w.withMetadata(o.raw, map[string]any{"deletionTimestamp": sdk.TimeOf(w.now)}))
}

// remove removes an object from the world and deletes the objects that it controls.
func (w *World) remove(o *object) {
	w.leave(o)
	delete(w.objects, o.id)
	delete(w.applied, o.id)
	delete(w.created, o.id)
	delete(w.createdWith, o.id)
	for _, child := range w.list(func(c *object) bool { return c.meta.ControlledBy(o.meta.UID) }) {
		if w.objects[child.id] == child {
			w.delete(child)
		}
	}
}

// Get reads an object into a struct, a map or an [sdk.Raw], and reports whether it
// exists.
func (w *World) Get(ref sdk.Ref, into any) bool {
	w.tb.Helper()
	o := w.objects[idOf(ref)]
	if o == nil {
		return false
	}
	if err := anyjson.Unmarshal(o.raw, into); err != nil {
		w.tb.Fatalf("get %s: %v", ref, err)
	}
	return true
}

// Exists reports whether there is such an object.
func (w *World) Exists(ref sdk.Ref) bool { return w.objects[idOf(ref)] != nil }

// ExpectGone fails the test if there is such an object.
func (w *World) ExpectGone(ref sdk.Ref) {
	w.tb.Helper()
	if o := w.objects[idOf(ref)]; o != nil {
		w.tb.Errorf("%s still exists: %s", ref, o.raw)
	}
}

// mustExist returns an object, or ends the test if it does not exist.
func (w *World) mustExist(verb string, ref sdk.Ref) *object {
	w.tb.Helper()
	o := w.objects[idOf(ref)]
	if o == nil {
		w.tb.Fatalf("%s %s: no such object", verb, ref)
	}
	return o
}

// list returns the objects that match, ordered by kind, namespace and name.
func (w *World) list(match func(*object) bool) []*object {
	sortKey := func(o *object) string { return strings.Join([]string{o.kind.String(), o.namespace, o.name}, "\x00") }
	all := slices.SortedFunc(maps.Values(w.objects), func(a, b *object) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return slices.DeleteFunc(all, func(o *object) bool { return !match(o) })
}
