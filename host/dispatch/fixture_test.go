package dispatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }

var (
	widget  = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}
	gadget  = abi.Kind{APIVersion: "v1", Kind: "Gadget"}
	testKey = object.Key{Namespace: "ns", Name: "w"}
)

const aWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","generation":1,"resourceVersion":"1","finalizers":["f"]},"spec":{"x":1}}`

type reconcileFunc = func(context.Context, sandbox.Call) (sandbox.Return, error)

// fixture is a controller whose stages are fakes that record what it asks of
// them.
type fixture struct {
	managed bool // the children of the plugin
	t       *testing.T
	c       *Controller

	log       []string // what the controller asked of its stages, in order
	store     map[abi.Kind]map[object.Key]*object.Object
	list      cache.List // that a guest reads when listError is nil
	listError error
	reading   cache.Reading           // the last list
	closed    func()                  // called when the reads of a run are closed; may be nil
	due       []queue.Item            // what the queue returns
	held      map[string][]queue.Item // by group
	messages  []string                // of written conditions
	done      []outcome.Next
	events    []events.Event

	reconcile reconcileFunc
	turns     *turnLog     // of newTurnFixture
	request   *abi.Request // of the last call

	fail      map[string]*effect.Failure              // by verb
	guestOnly bool                                    // fail["status"] is of a status with a part of the guest's
	groups    map[string]*effect.Failure              // by the name of the group
	version   int                                     // resourceVersion of the last write
	patches   []*object.Object                        // the widget after each patch
	refresh   func(abi.Ref) error                     // of the cache
	wrote     []effect.Write                          // made visible in the cache
	full      bool                                    // the cache can remember no more writes
	shown     func(object.Key) (*object.Object, bool) // by the informer; nil: what is stored
	annotated func()                                  // is called when an annotation is refused
	failed    func(verb string)                       // is called when a write fails
	refuses   func(annotation string) *effect.Failure // a write with the annotation of a capability
	released  func()                                  // is called once, when fields are released
	seconds   float64                                 // that the last run took
	meanwhile func()                                  // is called once, after the primary was read and before its run begins
	loops     int                                     // runs counted as in a write loop
	foreign   string                                  // a merge patch that somebody else makes just before the next write of status
	live      *object.Object                          // what the API server has, for reads of what is not followed
	liveError error
	lastKnown *object.Object // of one that is gone; nil: what was shown
	edge      string         // what the last edge to an object depends on
	entries   rights.Entries // of the policy
	shares    bool           // the primary has applied fields of an object that it does not own
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{
		t: t, store: map[abi.Kind]map[object.Key]*object.Object{widget: {}, gadget: {}},
		held: map[string][]queue.Item{}, fail: map[string]*effect.Failure{}, version: 100, reconcile: succeed, listError: cache.ErrNotSynced,
	}
	f.c = New(Config{
		Plugin: "p", Name: "c", Workers: 1,
		Cache: testCache{f}, Metrics: testMetrics{f}, Logger: hclog.NewNullLogger(),
		Events: events.Func(func(e events.Event) { f.events = append(f.events, e) }),
	}, testQueue{f}, &Revision{Number: 1, Guest: testGuest{f}, Effects: testEffects{f}, Controller: abi.Controller{
		Name: "c", For: widget.All(), Owns: abi.AllOf(gadget), Finalizer: true,
	}})
	f.follow()
	return f
}

// follow makes the revision follow what its controller states.
func (f *fixture) follow() {
	f.t.Helper()
	rev := f.c.revision.Load()
	follows, err := scope.OfManifest(&abi.Manifest{Name: "p", Managed: f.managed, Controllers: []abi.Controller{rev.Controller}}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	rev.Scopes, rev.Reads = follows.Controllers[0], f.entries.ReadsOf(&rev.Controller)
}

// allow gives the revision a policy with an entry for every kind, in the namespaces.
func (f *fixture) allow(namespaces ...string) {
	all := []string{rights.Any}
	f.entries = rights.Entries{{Groups: all, Kinds: all, Verbs: all, Namespaces: namespaces}}
	f.follow()
}

// The results of a reconcile that tests use most.

func succeed(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(&abi.Result{}) }

func panics(context.Context, sandbox.Call) (sandbox.Return, error) {
	return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
}

func returns(result *abi.Result) (sandbox.Return, error) {
	result.Result = abi.OutcomeSuccess
	return sandbox.Return{Output: abi.EncodeResult(result)}, nil
}

func returnsCode(code abi.Code) reconcileFunc {
	return func(context.Context, sandbox.Call) (sandbox.Return, error) { return sandbox.Return{Code: code}, nil }
}

// left returns what the last run has left for the next one.
func (s *keyState) left() carried {
	if s.carried == nil {
		return carried{}
	}
	return *s.carried
}

func (f *fixture) note(format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *fixture) expect(want ...string) {
	f.t.Helper()
	if got := strings.Join(f.log, "\n"); got != strings.Join(want, "\n") {
		f.t.Errorf("what happened:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	f.log = nil
}

// put stores an object as the API server would send it. The informer has shown that another one of
// the name is gone.
func (f *fixture) put(text string) *object.Object {
	f.t.Helper()
	o := f.putUnseen(text)
	if s := f.c.keys[o.Key()]; o.Kind == widget && s != nil && s.uid != o.Identity() {
		s.last.inTerm = false
	}
	return o
}

// putUnseen is put before the informer has shown that another one is gone.
func (f *fixture) putUnseen(text string) *object.Object {
	f.t.Helper()
	o, err := object.Parse([]byte(text), abi.Kind{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.store[o.Kind][o.Key()] = o
	return o
}

// run runs the widget of the key testKey for these reasons.
func (f *fixture) run(reasons ...abi.Reason) { f.runKey(testKey, reasons...) }

// runNamed runs the widget of that name.
func (f *fixture) runNamed(name string) { f.runKey(object.Key{Namespace: "ns", Name: name}) }

func (f *fixture) runKey(key object.Key, reasons ...abi.Reason) {
	f.due = append(f.due, queue.Item{Key: key, Reasons: reasons})
	f.c.work(f.t.Context(), f.t.Context())
}

// swap replaces the revision by a copy of it with the next number, which change
// may change further.
func (f *fixture) swap(change func(*Revision)) {
	next := *f.c.Revision()
	next.Number++
	change(&next)
	f.c.Swap(&next, nil)
}

type testQueue struct{ *fixture }

func (q testQueue) Next() (item queue.Item, shutdown bool) {
	if len(q.due) == 0 {
		return queue.Item{}, true
	}
	item, q.due = q.due[0], q.due[1:]
	return item, false
}

func (q testQueue) Add(key object.Key, why queue.Cause) {
	switch {
	case why.Own:
		q.note("add own %s %s after %s", key, why.Reason, why.Pause)
	case why.Bulk:
		q.note("add in the background %s %s", key, why.Reason)
	default:
		q.note("add %s %s", key, why.Reason)
	}
}

func (q testQueue) Done(_ object.Key, next outcome.Next) { q.done = append(q.done, next) }
func (q testQueue) PutBack(item queue.Item)              { q.note("put back %s", item.Key) }
func (q testQueue) Hold(item queue.Item, group string) bool {
	q.note("hold %s", item.Key)
	q.held[group] = append(q.held[group], item)
	return true
}

func (q testQueue) ReleaseFirst(group string) (key object.Key, ok bool) {
	if len(q.held[group]) == 0 {
		return key, false
	}
	item := q.held[group][0]
	q.held[group] = q.held[group][1:]
	q.due = append(q.due, item)
	return item.Key, true
}

func (q testQueue) ReleaseAll() {
	for _, items := range q.held {
		q.due = append(q.due, items...)
	}
	clear(q.held)
}

func (q testQueue) Forget(key object.Key) { q.note("queue forgets %s", key) }
func (q testQueue) OutageEnded()          { q.note("outage ended") }
func (q testQueue) ShutDown()             {}

type testGuest struct{ *fixture }

func (g testGuest) Reconcile(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
	request, err := abi.DecodeRequest(slices.Concat(call.Request...))
	if err != nil {
		g.t.Error(err)
	}
	g.fixture.request = request
	if o, err := object.Parse(request.Object, abi.Kind{}); err == nil && o.Namespace != call.Namespace {
		g.t.Errorf("a call for an object in namespace %q is made in %q", o.Namespace, call.Namespace)
	}
	return g.reconcile(ctx, call)
}

func (g testGuest) Call(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error) {
	return g.turns.Call(ctx, export, call)
}

type testCache struct{ *fixture }

func (c testCache) Get(key object.Key) (*object.Object, bool) {
	o, ok := c.store[widget][key]
	return o, ok
}

func (c testCache) Shown(key object.Key) (*object.Object, bool) {
	if c.shown != nil {
		return c.shown(key)
	}
	return c.Get(key)
}

func (c testCache) Refresh(_ context.Context, _ object.Key, ref abi.Ref) error {
	c.note("refresh %s", ref.Kind)
	if c.refresh == nil {
		return nil
	}
	return c.refresh(ref)
}

func (c testCache) LastKnown(shown *object.Object) *object.Object {
	if c.lastKnown != nil {
		return c.lastKnown
	}
	return shown
}

func (c testCache) Exists(_ context.Context, key object.Key, uid object.Hash) (bool, error) {
	c.note("exists %s", key)
	return c.live != nil && c.live.Identity() == uid, c.liveError
}

func (c testCache) Wrote(_ object.Key, w effect.Write) { c.wrote = append(c.wrote, w) }

func (c testCache) Full() bool {
	if meanwhile := c.meanwhile; meanwhile != nil {
		c.meanwhile = nil
		meanwhile()
	}
	return c.full
}

func (c testCache) Begin(object.Key, map[abi.Kind]scope.Reads) Reads { return testReads(c) }

func (c testCache) BeginUnrecorded(object.Key, map[abi.Kind]scope.Reads) Reads { return testReads(c) }
func (c testCache) Namespaced(abi.Kind) (bool, error)                          { return true, nil }
func (c testCache) PrimariesBy(namespace string, field fieldpath.Path, value string) (keys []object.Key) {
	for key, o := range c.store[widget] {
		if (namespace == "" || key.Namespace == namespace) && slices.Contains(field.Values(o.Raw), value) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (c testCache) ForgetStep(key object.Key) { c.note("cache forgets the step of %s", key) }
func (c testCache) Forget(key object.Key)     { c.note("cache forgets %s", key) }

// message is a read of a guest.
func message(text []byte) sandbox.ReadCall { return sandbox.ReadCall{Message: text} }

type testReads struct{ *fixture }

func (r testReads) Get(kind abi.Kind, key object.Key, part fieldpath.Set) (*object.Object, error) {
	r.edge = part.String()
	return r.store[kind][key], nil
}

func (r testReads) List(l cache.Reading) (cache.List, error) {
	r.reading = l
	return r.list, r.listError
}

func (r testReads) Close() {
	if r.closed != nil {
		r.closed()
	}
}

func (r testReads) Commit()  { r.note("commit reads") }
func (r testReads) Abandon() { r.note("abandon reads") }

type testEffects struct{ *fixture }

func (e testEffects) HasFinalizer(t effect.Target) bool { return len(t.Object.Finalizers) > 0 }

// write reports the write of a patch to an object, as the server would.
func (e testEffects) write(verb string, o *object.Object, patch string) effect.Report {
	e.version++
	if e.foreign != "" {
		o = patched(e.t, o, e.foreign)
	}
	report := effect.Report{Before: o}
	for _, p := range []string{patch, fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, e.version)} {
		o = patched(e.t, o, p)
	}
	e.foreign = ""
	e.store[widget][o.Key()] = o
	report.Writes, report.Primary = []effect.Write{e.written(verb, o)}, o
	return report
}

// written describes a write of an object. The strings of a report are its own, those
// of the object are not.
func (e testEffects) written(verb string, o *object.Object) effect.Write {
	return effect.Write{
		Verb: verb, Kind: o.Kind, Object: o,
		Key: object.Key{Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name)},
		UID: types.UID(strings.Clone(string(o.UID))), ResourceVersion: strings.Clone(o.ResourceVersion),
	}
}

func (e testEffects) EnsureFinalizer(_ context.Context, t effect.Target) (effect.Report, *effect.Failure) {
	if len(t.Object.Finalizers) > 0 {
		return effect.Report{}, nil
	}
	e.note("finalizer")
	if failure := e.fail["finalizer"]; failure != nil {
		return effect.Report{}, failure
	}
	return e.write(abi.VerbFinalizer, t.Object, `{"metadata":{"finalizers":["f"]}}`), nil
}

func (e testEffects) RemoveFinalizer(context.Context, effect.Target) (effect.Report, *effect.Failure) {
	e.note("remove finalizer")
	if failure := e.fail["remove"]; failure != nil {
		return effect.Report{}, failure
	}
	delete(e.store[widget], testKey)
	return effect.Report{Writes: []effect.Write{{Verb: abi.VerbFinalizer, Kind: widget, Key: testKey, UID: "u1"}}}, nil
}

func (e testEffects) PerformIntents(_ context.Context, t effect.Target, in *abi.Result) (report effect.Report, failure *effect.Failure) {
	if len(in.Patch) > 0 {
		if failure := e.refusal(in.Patch); failure != nil {
			return report, failure
		}
		report = e.write(abi.VerbPatch, t.Object, string(in.Patch))
		e.patches = append(e.patches, report.Primary)
		report.Writes[0].Content[0] = byte(len(e.patches))
	}
	if in.Prune {
		e.note("prune")
	}
	for _, intent := range in.Apply {
		if failure := e.groups[intent.Group]; failure != nil {
			failure.Group = intent.Group
			report.Groups = append(report.Groups, failure)
			continue
		}
		e.note("apply")
		if failure := e.failure("apply", t); failure != nil {
			return report, failure
		}
		e.version++
		child, err := object.Parse(mergePatch(e.t, intent.Object, fmt.Sprintf(`{"metadata":{"namespace":"ns","uid":"child","resourceVersion":"%d"}}`, e.version)), abi.Kind{})
		if err != nil {
			e.t.Fatal(err)
		}
		w := e.written(abi.VerbApply, child)
		sum := sha256.Sum256(intent.Object)
		copy(w.Content[:], sum[:])
		report.Writes = append(report.Writes, w)
	}
	return report, failure
}

// failure returns how an effect fails, nil if it does not. An internal error is no outage for a target
// that has none.
func (e testEffects) failure(verb string, t effect.Target) *effect.Failure {
	failure := e.fail[verb]
	if failure == nil || !failure.Internal || !t.NoOutage {
		return failure
	}
	its := *failure
	its.Outage, its.Reason = false, "Invalid"
	return &its
}

func (e testEffects) WriteStatus(_ context.Context, t effect.Target, want effect.Status) (effect.Report, *effect.Failure) {
	var conditions []string
	for _, c := range want.Set {
		conditions = append(conditions, c.Type+"="+c.Status+"/"+c.Reason)
		e.messages = append(e.messages, c.Message)
	}
	if len(want.Set)+len(want.Remove)+len(want.Patch) == 0 && want.ObservedGeneration == nil && want.HandledRequest == "" {
		return effect.Report{}, nil
	}
	if want.HandledRequest != "" {
		conditions = append(conditions, "handled="+want.HandledRequest)
	}
	full := ""
	if want.Full {
		full = " full"
	}
	e.note("status %s patch=%s%s", strings.Join(conditions, " "), want.Patch, full)
	if len(want.Patch) == 0 {
		t.NoOutage = false
	}
	if failure := e.failure("status", t); failure != nil && (len(want.Patch) > 0 || !e.guestOnly) {
		if e.failed != nil {
			e.failed("status")
		}
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

// knownAnnotation is that of a capability.
const knownAnnotation = "c.p.thole.dev/known"

// refusal returns why a patch is refused that has the annotation of a capability.
func (e testEffects) refusal(patch []byte) *effect.Failure {
	value, ok := rawjson.Lookup(patch, "metadata", "annotations", knownAnnotation)
	if !ok || e.refuses == nil {
		return nil
	}
	return e.refuses(rawjson.NewReader(value).String())
}

func (e testEffects) Release(_ context.Context, _ effect.Target, all bool) (effect.Report, *effect.Failure) {
	return e.release(fmt.Sprintf("release all=%v", all))
}

func (e testEffects) ReleaseGone(_ context.Context, _ *abi.Controller, primary object.Key) (effect.Report, *effect.Failure) {
	return e.release("release gone " + primary.String())
}

// release is noted only if the test shares an object.
func (e testEffects) release(what string) (effect.Report, *effect.Failure) {
	if !e.shares {
		return effect.Report{}, nil
	}
	e.note("%s", what)
	if released := e.released; released != nil {
		e.released = nil
		released()
	}
	if e.fail[what] != nil {
		return effect.Report{}, e.fail[what]
	}
	return effect.Report{Writes: []effect.Write{{Verb: abi.VerbApply, Kind: gadget}}}, nil
}

func (e testEffects) EmitEvent(_ effect.Target, event *abi.Event) {
	if event != nil {
		e.note("event %s %s", event.Type, event.Reason)
	}
}

func (e testEffects) Live(_ context.Context, kind abi.Kind, key object.Key) (*object.Object, error) {
	e.note("live %s %s", kind.Kind, key)
	return e.live, e.liveError
}

func (e testEffects) Forget(uid object.Hash) {
	for _, known := range []string{"u1", "u2"} {
		if uid == object.HashOf(known) {
			e.note("effects forget %s", known)
		}
	}
}

type testMetrics struct{ *fixture }

func (m testMetrics) Started() func(outcome.Decision, float64) {
	return func(d outcome.Decision, seconds float64) {
		m.seconds = seconds
		m.note("metric %s %s", d.Metric, d.Class)
	}
}
func (m testMetrics) Wrote(string)        {}
func (m testMetrics) Looped()             { m.loops++ }
func (m testMetrics) Stepped(failed bool) { m.note("stepped failed=%t", failed) }
func (m testMetrics) Dropped()            { m.note("line dropped") }
func (m testMetrics) Vanished(end outcome.LateCleanup) {
	m.note("vanished: %s", end)
}
func (m testMetrics) Limited(limit string) { m.note("limited by %s", limit) }

// budget is an [Allowance] of a fixed number.
type budget struct {
	left  int
	bytes []int // of each line
}

func (b *budget) Allow(bytes int) bool {
	b.bytes = append(b.bytes, bytes)
	b.left--
	return b.left >= 0
}

func mergePatch(t *testing.T, raw []byte, patch string) []byte {
	t.Helper()
	out, err := rawjson.MergePatch(raw, []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func patched(t *testing.T, o *object.Object, patch string) *object.Object {
	t.Helper()
	out, err := object.Parse(mergePatch(t, o.Raw, patch), abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
