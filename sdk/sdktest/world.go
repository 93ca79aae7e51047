package sdktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
)

// World is a fake cluster with one controller, which runs when the test says
// so. It belongs to one test and one goroutine. Whatever it is asked that
// makes no sense ends the test.
type World struct {
	tb         testing.TB
	runner     Runner
	plugin     string
	controller abi.Controller

	now     time.Time
	config  []byte
	objects map[id]*object
	cluster map[sdk.Kind]bool      // cluster-scoped kinds
	reads   map[sdk.Kind]int64     // kinds that cannot be read, and the code that says so
	writes  map[sdk.Kind]string    // kinds that cannot be written, and the server's reason
	refused map[string]string      // likewise single writes, by verb and object
	crosses bool                   // the policy says crossNamespace
	applied map[id]json.RawMessage // the last intent for an object
	keys    map[string]*key        // what the host remembers of a primary, by UID
	serial  int                    // of UIDs and resource versions
}

// key is what the host remembers of a primary between its runs.
type key struct {
	tries    outcome.Tries
	previous *abi.Previous
	memo     []byte
}

// id names an object.
type id struct {
	kind            sdk.Kind
	namespace, name string
}

func (i id) String() string { return i.kind.Ref(i.namespace, i.name).String() }

// object is an object as the API server would return it.
type object struct {
	id
	meta sdk.ObjectMeta // of raw
	raw  []byte
}

// epoch is when a world begins: any time will do, as long as it is always the
// same.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New makes a world for the controller that the package under test has
// registered, natively. A plugin with several controllers is told which.
func New(tb testing.TB, controller ...string) *World {
	tb.Helper()
	return NewWith(tb, native{}, controller...)
}

// NewWith makes a world for a controller that something else runs.
func NewWith(tb testing.TB, runner Runner, controller ...string) *World {
	tb.Helper()
	manifest, err := abi.DecodeManifest(runner.Describe())
	if err != nil {
		tb.Fatalf("read manifest: %v", err)
	}
	w := &World{
		tb: tb, runner: runner, plugin: manifest.Name, now: epoch,
		objects: map[id]*object{}, cluster: map[sdk.Kind]bool{}, reads: map[sdk.Kind]int64{},
		writes: map[sdk.Kind]string{}, refused: map[string]string{}, applied: map[id]json.RawMessage{}, keys: map[string]*key{},
	}
	w.controller = w.choose(manifest.Controllers, controller)
	return w
}

// choose finds the controller that is meant.
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
	w.tb.Fatalf("choose controller %q: name one of %q", names, known)
	return abi.Controller{}
}

// Now is the world's time. It stands still but for [World.Advance].
func (w *World) Now() time.Time { return w.now }

// Advance lets time pass.
func (w *World) Advance(d time.Duration) { w.now = w.now.Add(d) }

// Configure sets the administrator's configuration of the plugin.
func (w *World) Configure(config any) { w.config = w.encode(config) }

// ClusterScoped says that a kind has no namespaces. Kinds have, unless this,
// or an object that was created without one, says otherwise.
func (w *World) ClusterScoped(kind sdk.Kind) { w.cluster[kind] = true }

// FailReads lets get and list of a kind answer with a negative code of package
// abi, such as [abi.CodeUnavailable]; 0 ends that.
func (w *World) FailReads(kind sdk.Kind, code int64) { w.reads[kind] = code }

// FailWrites lets apply and delete of a kind fail with a reason of the API
// server, such as Forbidden; "" ends that. The kind of the primary lets its
// finalizer and patch fail.
func (w *World) FailWrites(kind sdk.Kind, reason string) { w.writes[kind] = reason }

// FailWrite lets one write fail with a reason of the API server or the host,
// such as FieldConflict; "" ends that. The write is named as in [Run.Writes].
func (w *World) FailWrite(write, reason string) { w.refused[write] = reason }

// CrossNamespace gives the plugin a policy with crossNamespace: namespaced
// primaries read and write in every namespace.
func (w *World) CrossNamespace() { w.crosses = true }

// Create creates an object, as a user does: JSON as a string or bytes, or
// anything that encodes to it. It gets a UID and the other things that an API
// server gives.
func (w *World) Create(value any) sdk.Ref {
	w.tb.Helper()
	raw := w.encode(value)
	at, err := identify(raw)
	if err != nil {
		w.tb.Fatalf("create: %v", err)
	}
	if w.objects[at] != nil {
		w.tb.Fatalf("create %s: exists already", at)
	}
	if at.namespace == "" {
		w.cluster[at.kind] = true
	}
	return w.create(at, raw).ref()
}

func (w *World) create(at id, raw []byte) *object {
	w.serial++
	given := map[string]any{
		"uid": fmt.Sprintf("uid-%d", w.serial), "generation": 1,
		"creationTimestamp": sdk.TimeOf(w.now), "resourceVersion": fmt.Sprint(w.serial),
	}
	raw = w.merge(raw, w.encode(map[string]any{"metadata": given}))
	return w.store(at, raw)
}

// Change changes an object by a merge patch, as a user or another controller
// does, its status included.
func (w *World) Change(ref sdk.Ref, patch any) {
	w.tb.Helper()
	o := w.must("change", ref)
	raw := w.merge(o.raw, w.encode(patch))
	if k := w.keys[o.meta.UID]; k != nil && !rawjson.Equal(w.input(o.raw), w.input(raw)) {
		k.tries = outcome.Tries{}
	}
	w.update(o, raw)
}

// input is what of an object a user changes to get another outcome: a change
// of it resets the tries.
func (w *World) input(raw []byte) []byte {
	return w.merge(raw, []byte(`{"status":null,"metadata":{"finalizers":null,"ownerReferences":null}}`))
}

// update stores a new state of an object and says whether it is one. A change
// of anything but metadata and status is a new generation.
func (w *World) update(o *object, raw []byte) bool {
	if rawjson.Equal(o.raw, raw) {
		return false
	}
	generation := o.meta.Generation
	if !rawjson.Equal(w.spec(o.raw), w.spec(raw)) {
		generation++
	}
	w.serial++
	given := map[string]any{"generation": generation, "resourceVersion": fmt.Sprint(w.serial)}
	o = w.store(o.id, w.merge(raw, w.encode(map[string]any{"metadata": given})))
	if o.meta.Deleting() && len(o.meta.Finalizers) == 0 {
		w.remove(o)
	}
	return true
}

// spec is everything of an object but metadata and status.
func (w *World) spec(raw []byte) []byte {
	return w.merge(raw, []byte(`{"metadata":null,"status":null}`))
}

func (w *World) store(at id, raw []byte) *object {
	o := &object{id: at, raw: raw}
	var parsed struct {
		Metadata *sdk.ObjectMeta `json:"metadata"`
	}
	parsed.Metadata = &o.meta
	if err := json.Unmarshal(raw, &parsed); err != nil {
		w.tb.Fatalf("store %s: %v", at, err)
	}
	w.objects[at] = o
	return o
}

// Delete deletes an object, as a user does: one with finalizers stays until
// they are gone.
func (w *World) Delete(ref sdk.Ref) {
	w.tb.Helper()
	w.end(w.must("delete", ref))
}

// end deletes an object and says whether that changed anything.
func (w *World) end(o *object) bool {
	switch {
	case len(o.meta.Finalizers) == 0:
		w.remove(o)
		return true
	case o.meta.Deleting():
		return false
	}
	patch := map[string]any{"metadata": map[string]any{"deletionTimestamp": sdk.TimeOf(w.now)}}
	return w.update(o, w.merge(o.raw, w.encode(patch)))
}

// remove makes an object gone, and what it controls with it.
func (w *World) remove(o *object) {
	delete(w.objects, o.id)
	delete(w.applied, o.id)
	for _, child := range w.sorted(func(c *object) bool { return c.meta.ControlledBy(o.meta.UID) }) {
		if w.objects[child.id] == child {
			w.end(child)
		}
	}
}

// Get reads an object into a struct, a map or an [sdk.Raw], and says whether
// it exists.
func (w *World) Get(ref sdk.Ref, into any) bool {
	w.tb.Helper()
	o := w.objects[idOf(ref)]
	if o == nil {
		return false
	}
	if err := json.Unmarshal(o.raw, into); err != nil {
		w.tb.Fatalf("get %s: %v", ref, err)
	}
	return true
}

// Exists says whether there is such an object.
func (w *World) Exists(ref sdk.Ref) bool { return w.objects[idOf(ref)] != nil }

// ExpectGone fails the test if there is such an object.
func (w *World) ExpectGone(ref sdk.Ref) {
	w.tb.Helper()
	if o := w.objects[idOf(ref)]; o != nil {
		w.tb.Errorf("%s is still there: %s", ref, o.raw)
	}
}

func (w *World) must(verb string, ref sdk.Ref) *object {
	w.tb.Helper()
	o := w.objects[idOf(ref)]
	if o == nil {
		w.tb.Fatalf("%s %s: no such object", verb, ref)
	}
	return o
}

// sorted lists the objects that are wanted by kind, namespace and name.
func (w *World) sorted(wanted func(*object) bool) []*object {
	var all []*object
	for _, o := range w.objects {
		if wanted(o) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *object) int { return strings.Compare(a.order(), b.order()) })
	return all
}

func (i id) order() string {
	return strings.Join([]string{i.kind.String(), i.namespace, i.name}, "\x00")
}

func (o *object) ref() sdk.Ref {
	ref := o.kind.Ref(o.namespace, o.name)
	ref.UID = o.meta.UID
	return ref
}

func idOf(ref sdk.Ref) id {
	return id{sdk.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}, ref.Namespace, ref.Name}
}

// encode returns a value as JSON.
func (w *World) encode(value any) []byte {
	w.tb.Helper()
	var data []byte
	var err error
	switch v := value.(type) {
	case string:
		data, err = []byte(v), rawjson.Valid([]byte(v), abi.MaxDepth)
	case []byte:
		data, err = v, rawjson.Valid(v, abi.MaxDepth)
	default:
		data, err = json.Marshal(value)
	}
	if err != nil {
		w.tb.Fatalf("encode %T: %v", value, err)
	}
	return data
}

func (w *World) merge(target, patch []byte) []byte {
	w.tb.Helper()
	merged, err := rawjson.MergePatch(target, patch)
	if err != nil {
		w.tb.Fatalf("merge: %v", err)
	}
	return merged
}

// identify reads what names an object.
func identify(raw []byte) (id, error) {
	var o struct {
		sdk.TypeMeta
		Metadata sdk.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return id{}, err
	}
	if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" {
		return id{}, fmt.Errorf("apiVersion, kind and metadata.name are required")
	}
	return id{sdk.Kind(o.TypeMeta), o.Metadata.Namespace, o.Metadata.Name}, nil
}
