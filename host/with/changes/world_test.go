package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/with/changes/handled"
)

var (
	widget  = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}
	gadget  = abi.Kind{APIVersion: "v1", Kind: "Gadget"}
	testKey = object.Key{Namespace: "ns", Name: "w"}
)

const aWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","generation":1,"resourceVersion":"1","finalizers":["f"]},"spec":{"x":1}}`

// world is the worker of a controller with changes, whose other stages are those of the test: they record what the
// worker asks of them, and store what it writes.
type world struct {
	t testing.TB
	c *dispatch.Controller

	due     chan queue.Item // what the queue returns
	done    chan struct{}   // a key was given back
	started bool

	log       []string // what the controller asked of its stages, in order
	store     map[object.Key]*object.Object
	shown     func(object.Key) (*object.Object, bool) // by the informer; nil: what is stored
	reconcile reconcileFunc
	request   *abi.Request // of the last call
	next      outcome.Next // of the key that was given back last
	ended     events.RunEnded
	patches   []*object.Object           // the widget after each patch
	fail      map[string]*effect.Failure // by verb
	annotated func()                     // is called when an annotation is refused
	refuses   func(annotation string) *effect.Failure
	releasing func() // is called once, when the fields of an object that is gone are released
	foreign   string // a merge patch that somebody else makes just before the next write of status
	version   int    // resourceVersion of the last write
}

type reconcileFunc = func(context.Context, sandbox.Call) (sandbox.Return, error)

// newChanges returns a world whose controller has changes and no finalizer.
func newChanges(t testing.TB, mode contract.Mode) *world {
	f := &world{
		t: t, due: make(chan queue.Item), done: make(chan struct{}, 1),
		store: map[object.Key]*object.Object{}, fail: map[string]*effect.Failure{}, version: 100, reconcile: succeed,
	}
	c := abi.Controller{Name: "c", For: widget.All(), Owns: abi.AllOf(gadget), Sections: sections(mode)}
	follows, err := scope.OfManifest(&abi.Manifest{Name: "p", Controllers: []abi.Controller{c}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hooks := (&controller{"p", f}).hooks()
	hooks.Name = contract.Name
	f.c = dispatch.New(dispatch.Config{
		Plugin: "p", Name: "c", Workers: 1, Hooks: []dispatch.Hooks{{}, hooks},
		Cache: testCache{f}, Metrics: testMetrics{}, Logger: hclog.NewNullLogger(),
		Events: events.Func(func(e events.Event) {
			if ended, ok := e.(events.RunEnded); ok {
				f.ended = ended
			}
		}),
	}, testQueue{f}, &dispatch.Revision{Number: 1, Guest: testGuest{f}, Effects: testEffects{f}, Controller: c, Scopes: follows.Controllers[0]})
	return f
}

func sections(mode contract.Mode) []abi.Section {
	return []abi.Section{{Name: contract.Name, Value: mode.Encode()}}
}

// progress returns the sections of a result.
func progress(value []byte) []abi.Section {
	return []abi.Section{{Name: contract.Name, Value: (&contract.Result{Progress: value}).Encode()}}
}

// Shown and ChangeState are those of a [runner.Handle].
func (f *world) Shown(key object.Key) (*object.Object, bool) { return testCache{f}.Shown(key) }

func (f *world) ChangeState(o *object.Object, do func(state any)) { f.c.ChangeState(1, o, do) }

// state returns what is remembered of the widget.
func (f *world) state() (s *state) {
	f.ChangeState(f.store[testKey], func(has any) { s = has.(*state) })
	return s
}

// run runs the widget. It returns when the key was given back to the queue.
func (f *world) run(reasons ...abi.Reason) {
	f.t.Helper()
	if !f.started {
		f.started = true
		ctx, stop := context.WithCancel(context.Background())
		var worker sync.WaitGroup
		worker.Go(func() { f.c.Run(ctx) })
		f.t.Cleanup(func() { stop(); worker.Wait() })
	}
	f.due <- queue.Item{Key: testKey, Reasons: reasons}
	select {
	case <-f.done:
	case <-time.After(time.Minute):
		f.t.Fatal("the run does not end")
	}
}

// swap replaces the revision by a copy of it with the next number, which change may change further.
func (f *world) swap(change func(*dispatch.Revision)) {
	next := *f.c.Revision()
	next.Number++
	change(&next)
	f.c.Swap(&next, nil)
}

// put stores an object as the API server would send it.
func (f *world) put(text string) *object.Object {
	f.t.Helper()
	o, err := object.Parse([]byte(text), abi.Kind{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.store[o.Key()] = o
	return o
}

// remove removes the widget, and delivers the event.
func (f *world) remove() {
	o := f.store[testKey]
	delete(f.store, testKey)
	f.c.Observe(o, nil, false)
}

// edit changes the widget as somebody else does, and delivers the event.
func (f *world) edit(patch string) {
	f.t.Helper()
	f.version++
	old := f.store[testKey]
	updated := patched(f.t, patched(f.t, old, patch), fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, f.version))
	f.store[testKey] = updated
	f.c.Observe(old, updated, false)
}

// change returns the change of the last request, nil if there was none.
func (f *world) change() *contract.Change {
	f.t.Helper()
	if f.request == nil {
		f.t.Fatal("no run has begun")
	}
	c, err := contract.DecodeChange(f.request.Section(contract.Name))
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *world) expectChange(want contract.Type, old string) {
	f.t.Helper()
	got := f.change()
	if got == nil {
		f.t.Fatal("the request has no change")
	}
	if got.Type != want || (old == "") != (got.Old == nil) || old != "" && !rawjson.Equal(got.Old, []byte(old)) {
		f.t.Errorf("the change is %s from %s, want %s from %s", got.Type, got.Old, want, old)
	}
}

// ends makes the next runs end with an outcome, or a code if that is not 0.
func (f *world) ends(code abi.Code, result abi.Result) {
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Code: code, Output: abi.EncodeResult(&result)}, nil
	}
}

func (f *world) given() string { return string(f.request.Object) }

func (f *world) note(format string, args ...any) { f.log = append(f.log, fmt.Sprintf(format, args...)) }

func (f *world) expect(want ...string) {
	f.t.Helper()
	if !slices.Equal(f.log, want) {
		f.t.Errorf("what happened: %q, want %q", f.log, want)
	}
}

func succeed(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(&abi.Result{}) }

func panics(context.Context, sandbox.Call) (sandbox.Return, error) {
	return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
}

func returns(result *abi.Result) (sandbox.Return, error) {
	result.Result = abi.OutcomeSuccess
	return sandbox.Return{Output: abi.EncodeResult(result)}, nil
}

func patched(t testing.TB, o *object.Object, patch string) *object.Object {
	t.Helper()
	raw, err := rawjson.MergePatch(o.Raw, []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	out, err := object.Parse(raw, abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// versionOf returns the resourceVersion as a number.
func versionOf(o *object.Object) int {
	n, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		panic(err)
	}
	return n
}

type testQueue struct{ *world }

func (q testQueue) Next() (item queue.Item, shutdown bool) {
	item, ok := <-q.due
	return item, !ok
}
func (q testQueue) giveBack(next outcome.Next) { q.next = next; q.done <- struct{}{} }

func (q testQueue) Add(key object.Key, why queue.Cause) {
	if !why.Own && !why.Bulk && why.Reason != abi.ReasonPlugin {
		q.note("add %s %s", key, why.Reason)
	}
}

func (q testQueue) Done(_ object.Key, next outcome.Next)          { q.giveBack(next) }
func (q testQueue) PutBack(queue.Item)                            { q.giveBack(outcome.Next{}) }
func (q testQueue) Hold(queue.Item, string) bool                  { return false }
func (q testQueue) ReleaseFirst(string) (key object.Key, ok bool) { return key, false }
func (q testQueue) ReleaseAll()                                   {}
func (q testQueue) Forget(object.Key)                             {}
func (q testQueue) OutageEnded()                                  {}
func (q testQueue) ShutDown()                                     { close(q.due) }

type testGuest struct{ *world }

func (g testGuest) Reconcile(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
	request, err := abi.DecodeRequest(slices.Concat(call.Request...))
	if err != nil {
		g.t.Error(err)
	}
	g.world.request = request
	return g.reconcile(ctx, call)
}

func (g testGuest) Call(context.Context, string, sandbox.Call) (sandbox.Return, error) {
	return sandbox.Return{}, errors.New("the guest has no other export")
}

type testCache struct{ *world }

func (c testCache) Get(key object.Key) (*object.Object, bool) {
	o, ok := c.store[key]
	return o, ok
}

func (c testCache) Shown(key object.Key) (*object.Object, bool) {
	if c.shown != nil {
		return c.shown(key)
	}
	return c.Get(key)
}

func (c testCache) LastKnown(shown *object.Object) *object.Object                 { return shown }
func (c testCache) Exists(context.Context, object.Key, object.Hash) (bool, error) { return false, nil }
func (c testCache) Wrote(object.Key, effect.Write)                                {}
func (c testCache) Full() bool                                                    { return false }
func (c testCache) Refresh(context.Context, object.Key, abi.Ref) error            { return nil }
func (c testCache) Begin(object.Key, map[abi.Kind]scope.Reads) dispatch.Reads     { return noReads{} }

func (c testCache) BeginUnrecorded(object.Key, map[abi.Kind]scope.Reads) dispatch.Reads {
	return noReads{}
}
func (c testCache) Namespaced(abi.Kind) (bool, error)                       { return true, nil }
func (c testCache) PrimariesBy(string, fieldpath.Path, string) []object.Key { return nil }
func (c testCache) Forget(object.Key)                                       {}

type noReads struct{}

func (noReads) Get(abi.Kind, object.Key, fieldpath.Set) (*object.Object, error) { return nil, nil }
func (noReads) List(cache.Reading) (cache.List, error)                          { return cache.List{}, cache.ErrNotSynced }
func (noReads) Close()                                                          {}
func (noReads) Commit()                                                         {}
func (noReads) Abandon()                                                        {}

type testEffects struct{ *world }

// write reports the write of a patch to the widget, as the server would.
func (e testEffects) write(verb string, o *object.Object, patch string) effect.Report {
	e.version++
	if e.foreign != "" {
		o = patched(e.t, o, e.foreign)
	}
	report := effect.Report{Before: o}
	o = patched(e.t, patched(e.t, o, patch), fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, e.version))
	e.foreign, e.store[o.Key()] = "", o
	report.Writes, report.Primary = []effect.Write{{
		Verb: verb, Kind: o.Kind, Object: o, Key: o.Key(), UID: o.UID, ResourceVersion: o.ResourceVersion,
	}}, o
	return report
}

func (e testEffects) HasFinalizer(t effect.Target) bool { return len(t.Object.Finalizers) > 0 }

func (e testEffects) EnsureFinalizer(context.Context, effect.Target) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (e testEffects) RemoveFinalizer(context.Context, effect.Target) (effect.Report, *effect.Failure) {
	e.note("remove finalizer")
	delete(e.store, testKey)
	return effect.Report{Writes: []effect.Write{{Verb: abi.VerbFinalizer, Kind: widget, Key: testKey, UID: "u1"}}}, nil
}

func (e testEffects) PerformIntents(_ context.Context, t effect.Target, in *abi.Result) (report effect.Report, failure *effect.Failure) {
	if len(in.Patch) > 0 {
		if failure := e.refusal(in.Patch); failure != nil {
			return report, failure
		}
		report = e.write(abi.VerbPatch, t.Object, string(in.Patch))
		e.patches = append(e.patches, report.Primary)
	}
	for range in.Apply {
		e.note("apply")
		if failure := e.fail["apply"]; failure != nil {
			return report, failure
		}
	}
	return report, nil
}

func (e testEffects) WriteStatus(_ context.Context, t effect.Target, want effect.Status) (effect.Report, *effect.Failure) {
	for _, c := range want.Set {
		e.note("status %s=%s", c.Type, c.Status)
	}
	if len(want.Set)+len(want.Remove)+len(want.Patch) == 0 && want.ObservedGeneration == nil {
		return effect.Report{}, nil
	}
	if failure := e.fail["status"]; failure != nil {
		return effect.Report{}, failure
	}
	return e.write(abi.VerbStatus, t.Object, `{"status":{"written":true}}`), nil
}

func (e testEffects) Annotate(_ context.Context, t effect.Target, name, value string) (effect.Report, *effect.Failure) {
	e.note("annotate")
	if failure := e.fail["annotate"]; failure != nil {
		if e.annotated != nil {
			e.annotated()
		}
		return effect.Report{}, failure
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			w.Name("annotations").Object(func() { w.Name(name).String(value) })
		})
	})
	if failure := e.refusal(w.Bytes()); failure != nil {
		return effect.Report{}, failure
	}
	return e.write(abi.VerbPatch, t.Object, string(w.Bytes())), nil
}

// refusal returns why a patch is refused that has the annotation.
func (e testEffects) refusal(patch []byte) *effect.Failure {
	value, ok := rawjson.Lookup(patch, "metadata", "annotations", handled.Annotation("p", "c"))
	if !ok || e.refuses == nil {
		return nil
	}
	return e.refuses(rawjson.NewReader(value).String())
}

func (e testEffects) Release(context.Context, effect.Target, bool) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (e testEffects) ReleaseGone(context.Context, *abi.Controller, object.Key) (effect.Report, *effect.Failure) {
	if releasing := e.releasing; releasing != nil {
		e.world.releasing = nil
		releasing()
	}
	return effect.Report{}, nil
}

func (e testEffects) EmitEvent(_ effect.Target, event *abi.Event) {
	if event != nil {
		e.note("event %s %s", event.Type, event.Reason)
	}
}

func (e testEffects) Live(context.Context, abi.Kind, object.Key) (*object.Object, error) {
	return nil, nil
}
func (e testEffects) Forget(object.Hash) {}

type testMetrics struct{}

func (testMetrics) Started() func(outcome.Decision, float64) {
	return func(outcome.Decision, float64) {}
}
func (testMetrics) Wrote(string)                 {}
func (testMetrics) Looped()                      {}
func (testMetrics) Dropped()                     {}
func (testMetrics) Limited(string)               {}
func (testMetrics) Vanished(outcome.LateCleanup) {}

// lease is that of the plugin.
type lease struct {
	mu      sync.Mutex
	leading chan struct{}
}

func (l *lease) Leading() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading
}

func (l *lease) Leads() bool {
	select {
	case <-l.Leading():
		return true
	default:
		return false
	}
}

func (l *lease) BeginWrite() (end func(), err error) { return func() {}, nil }

func (l *lease) lead() { close(l.leading) }

func (l *lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = make(chan struct{})
}
