package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }

var (
	widget  = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}
	gadget  = abi.Kind{APIVersion: "v1", Kind: "Gadget"}
	testKey = object.Key{Namespace: "ns", Name: "w"}
)

// bench is a controller between ports that write down what it asks of them.
type bench struct {
	t *testing.T
	c *Controller

	log     []string
	store   map[abi.Kind]map[object.Key]*object.Object
	due     []Due    // what the queue hands out
	told    []string // messages of conditions and events
	settled []outcome.Next

	reconcile func(ctx context.Context, call Call) (Return, error)
	request   *abi.Request // of the last call

	fail    map[string]*Failure // by verb
	version int                 // of the last write
	lagging bool                // the cache does not show writes
	live    *object.Object
	liveErr error
	loops   int    // runs counted as in a write loop
	foreign string // a merge patch that somebody else makes just before the next write of status
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, store: map[abi.Kind]map[object.Key]*object.Object{widget: {}, gadget: {}}, fail: map[string]*Failure{}, version: 100}
	b.reconcile = func(context.Context, Call) (Return, error) { return returns(&abi.Result{}) }
	b.c = New(Config{
		Name: "c", Workers: 1, Barrier: 10 * time.Millisecond,
		Queue: testQueue{b}, Cache: testCache{b}, Metrics: testMetrics{b}, Logger: hclog.NewNullLogger(),
	}, &Generation{Number: 1, Guest: testGuest{b}, Effects: testEffects{b}, Controller: abi.Controller{
		Name: "c", For: widget, Owns: []abi.Kind{gadget}, Finalizer: true,
	}})
	return b
}

func returns(result *abi.Result) (Return, error) {
	result.Result = abi.OutcomeSuccess
	return Return{Output: abi.EncodeResult(result)}, nil
}

func (b *bench) note(format string, args ...any) { b.log = append(b.log, fmt.Sprintf(format, args...)) }

func (b *bench) expect(want ...string) {
	b.t.Helper()
	if got := strings.Join(b.log, "\n"); got != strings.Join(want, "\n") {
		b.t.Errorf("what happened:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	b.log = nil
}

// put stores an object as the API server would send it.
func (b *bench) put(text string) *object.Object {
	b.t.Helper()
	o, err := object.Parse([]byte(text), abi.Kind{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.store[o.Kind][o.Key()] = o
	return o
}

const aWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","generation":1,"resourceVersion":"1","finalizers":["f"]},"spec":{"x":1}}`

func (b *bench) run(reasons ...abi.Reason) {
	b.due = append(b.due, Due{Key: testKey, Reasons: reasons})
	b.c.work(b.t.Context(), b.t.Context())
}

type testQueue struct{ *bench }

func (q testQueue) Next() (due Due, ok bool) {
	if len(q.due) == 0 {
		return Due{}, false
	}
	due, q.due = q.due[0], q.due[1:]
	return due, true
}

func (q testQueue) Trigger(key object.Key, reason abi.Reason) {
	q.note("trigger %s %s", key, reason)
}
func (q testQueue) Settle(_ object.Key, next outcome.Next) { q.settled = append(q.settled, next) }
func (q testQueue) Return(due Due)                         { q.note("returned %s", due.Key) }
func (q testQueue) Forget(key object.Key)                  { q.note("queue forgets %s", key) }
func (q testQueue) ShutDown()                              {}

type testGuest struct{ *bench }

func (g testGuest) Reconcile(ctx context.Context, call Call) (Return, error) {
	request, err := abi.DecodeRequest(call.Request)
	if err != nil {
		g.t.Error(err)
	}
	g.bench.request = request
	return g.reconcile(ctx, call)
}

type testCache struct{ *bench }

func (c testCache) Get(key object.Key) (*object.Object, bool) {
	o, ok := c.store[widget][key]
	return o, ok
}

func (c testCache) Live(context.Context, object.Key) (*object.Object, error) {
	c.note("live read")
	return c.live, c.liveErr
}

func (c testCache) CaughtUp(ctx context.Context, w Write) error {
	if !c.lagging {
		c.note("cache shows %s %s", w.Verb, w.ResourceVersion)
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (c testCache) Begin(object.Key) Reads { return testReads(c) }
func (c testCache) Namespaced(context.Context, abi.Kind) (bool, error) {
	return true, nil
}
func (c testCache) Forget(key object.Key) { c.note("cache forgets %s", key) }

type testReads struct{ *bench }

func (r testReads) Get(_ context.Context, kind abi.Kind, key object.Key) (*object.Object, bool, error) {
	o, ok := r.store[kind][key]
	return o, ok, nil
}

func (r testReads) List(context.Context, abi.Kind, string, labels.Selector) ([]*object.Object, error) {
	return nil, ErrNotSynced
}
func (r testReads) Commit()  { r.note("commit reads") }
func (r testReads) Abandon() { r.note("abandon reads") }

type testEffects struct{ *bench }

func (e testEffects) HasFinalizer(o *object.Object, _ *abi.Controller) bool {
	return len(o.Finalizers) > 0
}

// write returns the object after a write of patch, as the server would.
func (e testEffects) write(o *object.Object, patch string) *object.Object {
	e.version++
	for _, p := range []string{e.foreign, patch, fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, e.version)} {
		if p != "" {
			o = patched(e.t, o, p)
		}
	}
	e.foreign = ""
	e.store[widget][o.Key()] = o
	return o
}

func (e testEffects) EnsureFinalizer(_ context.Context, o *object.Object, _ *abi.Controller) (*object.Object, bool, *Failure) {
	if len(o.Finalizers) > 0 {
		return o, false, nil
	}
	e.note("finalizer")
	return e.write(o, `{"metadata":{"finalizers":["f"]}}`), true, e.fail["finalizer"]
}

func (e testEffects) RemoveFinalizer(context.Context, *object.Object, *abi.Controller) (*object.Object, *Failure) {
	e.note("remove finalizer")
	delete(e.store[widget], testKey)
	return nil, e.fail["remove"]
}

func (e testEffects) Intents(_ context.Context, _ *object.Object, _ *abi.Controller, result *abi.Result) (Performed, *Failure) {
	var p Performed
	for range result.Apply {
		e.note("apply")
		if e.fail["apply"] != nil {
			return p, e.fail["apply"]
		}
		e.version++
		p.Writes = append(p.Writes, Write{Verb: "apply", Kind: gadget, ResourceVersion: fmt.Sprint(e.version)})
	}
	return p, nil
}

func (e testEffects) Status(_ context.Context, o *object.Object, _ *abi.Controller, change StatusChange) (*object.Object, bool, *Failure) {
	var conditions []string
	for _, c := range change.Set {
		conditions = append(conditions, c.Type+"="+c.Status+"/"+c.Reason)
		e.told = append(e.told, c.Message)
	}
	if len(change.Set)+len(change.Remove)+len(change.Patch) == 0 && change.ObservedGeneration == nil && change.HandledRequest == "" {
		return o, false, nil
	}
	if change.HandledRequest != "" {
		conditions = append(conditions, "handled="+change.HandledRequest)
	}
	e.note("status %s patch=%s", strings.Join(conditions, " "), change.Patch)
	if e.fail["status"] != nil {
		return nil, false, e.fail["status"]
	}
	return e.write(o, `{"status":{"written":true}}`), true, nil
}

func (e testEffects) Event(_ *object.Object, _ *abi.Controller, event *abi.Event) {
	if event != nil {
		e.note("event %s %s", event.Type, event.Reason)
	}
}
func (e testEffects) Forget(uid types.UID) { e.note("effects forget %s", uid) }

type testMetrics struct{ *bench }

func (m testMetrics) Started() func(string, abi.Class, float64) {
	return func(result string, class abi.Class, _ float64) { m.note("metric %s %s", result, class) }
}
func (m testMetrics) Wrote(string) {}
func (m testMetrics) Looped()      { m.loops++ }
func (m testMetrics) Dropped()     { m.note("line dropped") }

func (m testMetrics) Limited(limit string) { m.note("limited by %s", limit) }

func TestARunGoesFromTheKeyToTheKey(t *testing.T) {
	b := newBench(t)
	b.put(strings.Replace(aWidget, `"f"`, "", 1))
	b.reconcile = func(context.Context, Call) (Return, error) {
		return returns(&abi.Result{
			RequeueAfter: 60_000,
			Status:       []byte(`{"n":1}`),
			Apply:        []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}},
		})
	}
	b.run(abi.ReasonPrimary)
	b.expect("finalizer", "apply", `status Ready=True/Succeeded patch={"n":1}`, "commit reads", "metric requeue_after ")
	if next := b.settled[0]; next.Kind != outcome.After || next.After != time.Minute {
		t.Errorf("settled with %+v", next)
	}
	if string(b.request.Object) == "" || b.request.Reasons[0] != abi.ReasonPrimary {
		t.Errorf("request %+v", b.request)
	}
	// The next run waits for the cache to show what was written.
	b.run(abi.ReasonOwned)
	b.expect("cache shows finalizer 101", "cache shows apply 102", "cache shows status 103",
		"apply", `status Ready=True/Succeeded patch={"n":1}`, "commit reads", "metric requeue_after ")
}

func TestWhatIsNoneOfThePluginsBusinessGetsNoFinalizer(t *testing.T) {
	b := newBench(t)
	b.put(strings.Replace(aWidget, `"f"`, "", 1))
	b.run(abi.ReasonPrimary)
	b.expect("status Ready=True/Succeeded patch=", "commit reads", "metric success ")
}

func TestOwnWritesDoNotWakeTheKeyAndForeignOnesDo(t *testing.T) {
	b := newBench(t)
	before := b.put(aWidget)
	b.run()
	b.log = nil
	after := b.store[widget][testKey]
	b.c.Observe(before, after, false)
	b.expect() // its own status
	foreign := patched(t, after, `{"metadata":{"resourceVersion":"200"},"status":{"other":1}}`)
	b.c.Observe(after, foreign, false)
	b.expect("trigger ns/w status")
	edited := patched(t, foreign, `{"metadata":{"resourceVersion":"201","generation":2}}`)
	b.c.Observe(foreign, edited, false)
	b.expect("trigger ns/w primary")
	asked := patched(t, edited, `{"metadata":{"resourceVersion":"202","annotations":{"reconcile.thole.dev/requestedAt":"now"}}}`)
	b.c.Observe(edited, asked, false)
	b.expect("trigger ns/w request")
	b.c.Observe(asked, nil, false)
	b.expect("trigger ns/w primary")
}

func patched(t *testing.T, o *object.Object, patch string) *object.Object {
	t.Helper()
	raw := mergePatch(t, o.Raw, patch)
	out, err := object.Parse(raw, abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAForeignEditBehindAnOwnWriteWakes(t *testing.T) {
	b := newBench(t)
	before := b.put(aWidget)
	// Somebody edits the spec between the read and the status write: the
	// reply holds both, and may be the only event of the two.
	b.foreign = `{"metadata":{"generation":2},"spec":{"x":2}}`
	b.run()
	b.log = nil
	b.c.Observe(before, b.store[widget][testKey], false)
	b.expect("trigger ns/w primary")
}

func TestEventsDuringARunAreHeldUntilItsEnd(t *testing.T) {
	b := newBench(t)
	before := b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) {
		b.c.Observe(before, patched(t, before, `{"metadata":{"resourceVersion":"50","generation":2}}`), false)
		b.note("call ends")
		return returns(&abi.Result{})
	}
	b.run()
	b.expect("call ends", "status Ready=True/Succeeded patch=", "commit reads", "trigger ns/w primary", "metric success ")
}

func TestAFailedEffectIsDecidedAgain(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) {
		return returns(&abi.Result{Status: []byte(`{"n":1}`), Memo: []byte(`1`), Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
	}
	b.fail["apply"] = &Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassDenied, Reason: "Forbidden", Message: "no"}}
	b.run()
	if got := b.log[1]; !strings.HasPrefix(got, "status ") || !strings.Contains(got, "Ready=False/Forbidden") || !strings.HasSuffix(got, "patch=") {
		t.Errorf("after a failed effect: %s", got)
	}
	if next := b.settled[0]; next.Kind != outcome.Backoff {
		t.Errorf("settled with %+v", next)
	}
	delete(b.fail, "apply")
	b.run()
	if p := b.request.Previous; p == nil || p.Class != abi.ClassDenied || len(p.Failures) != 1 || p.Failures[0].Verb != "apply" {
		t.Errorf("previous is %+v", p)
	}
	if b.request.Attempt != 1 {
		t.Errorf("attempt %d", b.request.Attempt)
	}
	b.run()
	if b.request.Previous != nil || b.request.Attempt != 0 || string(b.request.Memo) != "1" {
		t.Errorf("after success: %+v", b.request)
	}
}

// TestARefusedStatusIsTold: what the guest wants in its status is refused, so
// the host says so without it.
func TestARefusedStatusIsTold(t *testing.T) {
	refused := func(reason string) *Failure {
		return &Failure{EffectFailure: abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: reason, Message: "status.n: must be a string"}}
	}
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) { return returns(&abi.Result{Status: []byte(`{"n":1}`)}) }
	b.fail["status"] = refused("Invalid")
	b.run()
	b.expect(`status Ready=True/Succeeded patch={"n":1}`,
		"status Reconciling=True/ProgressingWithRetry Ready=False/Invalid patch=",
		"commit reads", "event Warning Invalid", "metric error retry")
	b.fail["status"] = refused("Unavailable")
	b.run()
	b.expect(`status Ready=True/Succeeded patch={"n":1}`, "commit reads", "event Warning Unavailable", "metric error retry")
}

// TestACleanupThatCannotEndIsTold: the finalizer stays, and the object says why.
func TestACleanupThatCannotEndIsTold(t *testing.T) {
	b := newBench(t)
	b.put(strings.Replace(aWidget, `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1))
	b.fail["remove"] = &Failure{EffectFailure: abi.EffectFailure{Verb: "finalizer", Class: abi.ClassDenied, Reason: "Forbidden", Message: "no"}}
	b.run()
	b.expect("remove finalizer", "status Reconciling=True/ProgressingWithRetry Ready=False/Forbidden patch=",
		"commit reads", "event Warning Forbidden", "metric error denied")
}

func TestATrapWritesNothingButConditions(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) { return Return{}, &Fault{Class: abi.ClassPanic} }
	b.run()
	if !strings.HasPrefix(b.log[0], "status ") || b.log[1] != "abandon reads" {
		t.Errorf("what happened: %q", b.log)
	}
	if last := b.log[len(b.log)-1]; last != "metric error panic" {
		t.Error(last)
	}
}

func TestGarbageIsClassABI(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) { return Return{Output: []byte(`{"aply":[]}`)}, nil }
	b.run()
	if last := b.log[len(b.log)-1]; last != "metric error abi" {
		t.Error(last)
	}
}

func TestAFailureNeedsNoOutput(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) { return Return{Code: abi.CodeStalled}, nil }
	b.run()
	if last := b.log[len(b.log)-1]; last != "metric error stalled" {
		t.Error(last)
	}
}

func TestAReadBeforeTheSyncCostsNoAttempt(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(ctx context.Context, call Call) (Return, error) {
		if _, code := call.Host.List(ctx, abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Gadget"})); code != abi.CodeUnavailable {
			t.Errorf("code %d", code)
		}
		return Return{Code: abi.CodeRetry, Output: []byte(`{"error":{"reason":"Failed","message":"cannot read"}}`)}, nil
	}
	b.run()
	b.run()
	if b.request.Attempt != 0 {
		t.Errorf("attempt %d", b.request.Attempt)
	}
	for _, line := range b.log {
		if strings.HasPrefix(line, "status") {
			t.Errorf("wrote %s", line)
		}
	}
}

func TestReadsStayInTheirScope(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","uid":"g1"}}`)
	get := func(ref abi.Ref) (code int64) {
		b.reconcile = func(ctx context.Context, call Call) (Return, error) {
			_, code = call.Host.Get(ctx, abi.EncodeGetCall(&abi.GetCall{Ref: ref}))
			return returns(&abi.Result{})
		}
		clear(b.c.keys) // each run writes: without this they are a loop
		b.run()
		return code
	}
	for _, c := range []struct {
		ref  abi.Ref
		want int64
	}{
		{abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: "none"}, abi.CodeNotFound},
		{abi.Ref{APIVersion: "v1", Kind: "Gadget", Namespace: "ns", Name: "g", UID: "another"}, abi.CodeNotFound},
		{abi.Ref{APIVersion: "v1", Kind: "Gadget", Namespace: "other", Name: "g"}, abi.CodeDenied},
		{abi.Ref{APIVersion: "v1", Kind: "Secret", Name: "s"}, abi.CodeDenied},
	} {
		if got := get(c.ref); got != c.want {
			t.Errorf("get %+v: code %d, want %d", c.ref, got, c.want)
		}
	}
	mine := abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: "g"}
	if got := get(mine); got <= 0 {
		t.Errorf("get in the own namespace: code %d", got)
	}
	b.c.Generation().CrossNamespace = true
	if got := get(mine); got <= 0 {
		t.Errorf("get in the own namespace: code %d", got)
	}
	if got := get(abi.Ref{APIVersion: "v1", Kind: "Gadget", Namespace: "other", Name: "g"}); got != abi.CodeNotFound {
		t.Errorf("get across namespaces: code %d", got)
	}
}

type budget struct{ left int }

func (b *budget) Allow() bool {
	b.left--
	return b.left >= 0
}

func TestGuestLinesAreLimited(t *testing.T) {
	b := newBench(t)
	var log bytes.Buffer
	b.c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
	b.c.Lines = &budget{left: 1}
	b.put(aWidget)
	b.reconcile = func(_ context.Context, call Call) (Return, error) {
		for range 3 {
			call.Host.Log(abi.LogInfo, []byte(`{"message":"hello","n":1,"@level":"error","object":"other"}`))
		}
		return returns(&abi.Result{})
	}
	b.run()
	if got := strings.Count(log.String(), "hello"); got != 1 {
		t.Errorf("%d lines:\n%s", got, log.String())
	}
	if b.log[0] != "line dropped" || b.log[1] != "line dropped" {
		t.Errorf("what happened: %q", b.log)
	}
	if line := log.String(); !strings.Contains(line, `"object":"ns/w"`) || !strings.Contains(line, `"@level":"info"`) {
		t.Errorf("a guest line replaces the host's own fields: %s", line)
	}
}

// TestWhatAGuestMakesTheHostLogIsLimited: its mistakes are its lines, too. A
// run may make ten thousand calls.
func TestWhatAGuestMakesTheHostLogIsLimited(t *testing.T) {
	b := newBench(t)
	var log bytes.Buffer
	b.c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
	b.c.Lines = &budget{left: 2}
	b.put(aWidget)
	b.reconcile = func(ctx context.Context, call Call) (Return, error) {
		call.Host.Get(ctx, []byte(`garbage`))
		call.Host.Get(ctx, []byte(`{"apiVersion":"v1","kind":"Secret","name":"s"}`))
		call.Host.Get(ctx, []byte(`{"apiVersion":"example.dev/v1","kind":"Widget","name":"w","namespace":"other"}`))
		call.Host.List(ctx, []byte(`garbage`))
		call.Host.List(ctx, []byte(`{"apiVersion":"example.dev/v1","kind":"Widget","labelSelector":"((("}`))
		return returns(&abi.Result{})
	}
	b.run()
	if got := strings.Count(log.String(), `"@level":"warn"`); got != 2 {
		t.Errorf("%d lines:\n%s", got, log.String())
	}
	if got := strings.Count(strings.Join(b.log, "\n"), "line dropped"); got != 3 {
		t.Errorf("%d lines counted as dropped: %q", got, b.log)
	}
}

// TestAGuestSpeaksForItselfOnly: its line is one line, also in the text format,
// which writes message and names as they are.
func TestAGuestSpeaksForItselfOnly(t *testing.T) {
	b := newBench(t)
	var log bytes.Buffer
	b.c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	b.put(aWidget)
	b.reconcile = func(_ context.Context, call Call) (Return, error) {
		call.Host.Log(abi.LogInfo, []byte(`{"message":"hello\n2026-01-01T00:00:00Z [ERROR] thole: all is lost","a\n[ERROR] b":"\u001b[2J"}`))
		call.Host.Log(abi.LogInfo, []byte("plain\n[ERROR] text \x1b[2J\xff"))
		return returns(&abi.Result{})
	}
	b.run()
	if got := strings.Count(log.String(), "\n"); got != 2 || strings.Contains(log.String(), "\x1b") {
		t.Errorf("%d lines:\n%q", got, log.String())
	}
}

// TestAWaitIsALineOfTheGuest, which says when it comes again: a millisecond
// later, if it likes.
func TestAWaitIsALineOfTheGuest(t *testing.T) {
	b := newBench(t)
	var log bytes.Buffer
	b.c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
	b.c.Lines = &budget{left: 1}
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) { return Return{Code: abi.CodeWaiting}, nil }
	for range 3 {
		b.run()
	}
	if got := strings.Count(log.String(), "reconcile waits"); got != 1 {
		t.Errorf("%d lines:\n%s", got, log.String())
	}
}

func TestAReplacedGuestCostsNoAttempt(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) { return Return{}, ErrClosed }
	b.run()
	if next := b.settled[0]; next.Kind == outcome.AwaitChange {
		t.Errorf("the key is lost: %+v", next)
	}
	b.reconcile = func(context.Context, Call) (Return, error) { return returns(&abi.Result{}) }
	b.run()
	if b.request.Attempt != 0 || b.request.Previous != nil && b.request.Previous.Class == abi.ClassPanic {
		t.Errorf("attempt %d, previous %+v", b.request.Attempt, b.request.Previous)
	}
}

func TestSwapDropsWhatTheOldCodeTried(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) { return Return{}, errors.New("network") }
	b.run()
	b.log = nil
	b.c.Swap(&Generation{Number: 2, Guest: testGuest{b}, Effects: testEffects{b}, Controller: b.c.Generation().Controller}, []object.Key{testKey})
	b.expect("trigger ns/w plugin")
	b.run()
	if b.request.Attempt != 0 || b.request.Previous != nil {
		t.Errorf("attempt %d, previous %+v", b.request.Attempt, b.request.Previous)
	}
}

// TestMemosOutliveASwapThatKeepsTheirMeaning, and only such swaps.
func TestMemosOutliveASwapThatKeepsTheirMeaning(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) { return returns(&abi.Result{Memo: []byte(`"m"`)}) }
	swap := func(version string) {
		g := *b.c.Generation()
		g.Number++
		g.MemoVersion = version
		b.c.Swap(&g, nil)
	}
	for _, step := range []struct {
		versions []string // one swap each before the next run
		memo     string   // that it gets
	}{
		{nil, ""},
		{nil, `"m"`},
		{[]string{"1"}, ""},
		{[]string{"1"}, `"m"`},
		{[]string{"2", "1"}, ""},
	} {
		for _, version := range step.versions {
			swap(version)
		}
		b.run()
		if got := string(b.request.Memo); got != step.memo {
			t.Errorf("after swaps to %q the memo is %s, want %s", step.versions, got, step.memo)
		}
	}
}

func TestALaggingCacheIsReadAround(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	b.run()
	b.log, b.lagging = nil, true
	b.live = patched(t, b.store[widget][testKey], `{"metadata":{"resourceVersion":"300"},"spec":{"x":9}}`)
	b.run()
	if b.log[0] != "live read" || !strings.Contains(string(b.request.Object), `"x":9`) {
		t.Errorf("%q, object %s", b.log, b.request.Object)
	}
}

func TestCleanupEndsWithTheFinalizer(t *testing.T) {
	b := newBench(t)
	b.put(strings.Replace(aWidget, `"generation":1`, `"generation":1,"deletionTimestamp":"2026-01-01T00:00:00Z"`, 1))
	b.run()
	b.expect("remove finalizer", "commit reads", "metric success ")
	if !b.request.Deleting {
		t.Error("the guest was not told")
	}
	b.run()
	b.expect("cache forgets ns/w", "queue forgets ns/w", "effects forget u1")
}

func TestASuspendedObjectIsLeftAloneUntilItIsDeleted(t *testing.T) {
	b := newBench(t)
	o := b.put(strings.Replace(aWidget, `"uid"`, `"annotations":{"reconcile.thole.dev/suspend":"true"},"uid"`, 1))
	b.run()
	b.expect()
	if len(b.settled) != 1 || b.settled[0].Kind != outcome.AwaitChange {
		t.Errorf("settled with %+v", b.settled)
	}
	b.put(string(mergePatch(t, o.Raw, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)))
	b.run()
	b.expect("remove finalizer", "commit reads", "metric success ")
}

func TestADeletingObjectThatIsNotOursIsLeftAlone(t *testing.T) {
	b := newBench(t)
	b.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
	b.run()
	b.expect()
	if len(b.settled) != 1 {
		t.Error("the key was not settled")
	}
}

func TestOwnersAreWoken(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	gadgetOf := func(owner string) *object.Object {
		return b.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","uid":"g1","ownerReferences":[` + owner + `]}}`)
	}
	mine := gadgetOf(`{"apiVersion":"example.dev/v1beta1","kind":"Widget","name":"w","uid":"u1","controller":true}`)
	others := gadgetOf(`{"apiVersion":"other.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}`)
	uncontrolled := gadgetOf(`{"apiVersion":"example.dev/v1","kind":"Widget","name":"w","uid":"u1"}`)
	b.c.ObserveOwned(nil, mine)
	b.expect("trigger ns/w owned")
	b.c.ObserveOwned(mine, mine)
	b.expect("trigger ns/w owned")
	b.c.ObserveOwned(mine, uncontrolled) // released: it was ours before
	b.expect("trigger ns/w owned")
	b.c.ObserveOwned(others, uncontrolled)
	b.expect()
}
