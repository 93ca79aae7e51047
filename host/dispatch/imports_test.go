package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sandbox"
)

// outside is a fixture with a capability that does something outside of the cluster, which is noted with its name.
type outside struct {
	*fixture
	by     events.Run // of the last call
	during func()     // is called when it has been done once, and something is left to do; may be nil
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{fixture: newFixture(t)}
	o.c.Hooks = []Hooks{{}, {Imports: map[string]func(context.Context, *ImportCall) ([]byte, int64){"act": o.act}}}
	return o
}

func (o *outside) act(ctx context.Context, call *ImportCall) ([]byte, int64) {
	if len(call.Message) == 0 {
		return call.Invalid(errors.New("no message"))
	}
	o.by = call.Run
	end, code := call.BeginEffect(ctx)
	if code != 0 {
		return nil, code
	}
	defer end()
	o.note("act %s", call.Message)
	if o.during != nil {
		o.during()
	}
	if err := call.MayGoOn(); err != nil {
		call.Warn("did a half", "error", err)
		return nil, abi.CodeUnavailable
	}
	o.note("acted %s", call.Message)
	return []byte(fmt.Sprint(call.Kept, " of ", call.Revision.Number)), 0
}

func act(ctx context.Context, c sandbox.Call) (sandbox.Reply, int64) {
	return c.Host.Import(ctx, "act", sandbox.ReadCall{Message: []byte("a")})
}

// acts makes the runs of the fixture call the capability, and fail if that does. The codes of the calls are returned.
func (o *outside) acts() (codes *[]int64) {
	codes = &[]int64{}
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		reply, code := act(ctx, c)
		*codes = append(*codes, code)
		if code < 0 {
			return sandbox.Return{Code: abi.CodeRetry}, nil
		}
		return returns(&abi.Result{Status: fmt.Appendf(nil, `{"answer":%q}`, readText(reply))})
	}
	return codes
}

// didNothing fails if the capability has done something.
func (o *outside) didNothing() {
	o.t.Helper()
	if slices.Contains(o.log, "act a") {
		o.t.Errorf("the run did %q", o.log)
	}
}

const acted = `status Ready=True/Succeeded patch={"answer":"<nil> of 1"}`

func TestCapabilityAnswersItsImport(t *testing.T) {
	o := newOutside(t)
	o.put(aWidget)
	o.c.Revision().Kept = []any{"other", "kept"}
	o.acts()
	o.run()
	o.expect("act a", "acted a", `status Ready=True/Succeeded patch={"answer":"kept of 1"}`, "commit reads", "metric success ")
	if ended := o.events[len(o.events)-1].(events.RunEnded); o.by != ended.Run {
		t.Errorf("the call is of %+v, the run is %+v", o.by, ended.Run)
	}
	var codes []int64
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		_, unknown := c.Host.Import(ctx, "other", sandbox.ReadCall{Message: []byte("a")})
		_, invalid := c.Host.Import(ctx, "act", sandbox.ReadCall{})
		codes = append(codes, unknown, invalid)
		return returns(&abi.Result{})
	}
	if o.run(); !slices.Equal(codes, []int64{abi.CodeDenied, abi.CodeInvalid}) {
		t.Errorf("codes %d", codes)
	}
}

const freshWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","generation":1,"resourceVersion":"1"},"spec":{"x":1}}`

// TestFinalizerPrecedesTheFirstEffectOutside: the cleanup must be able to undo it.
func TestFinalizerPrecedesTheFirstEffectOutside(t *testing.T) {
	o := newOutside(t)
	o.put(freshWidget)
	o.acts()
	o.run()
	o.expect("finalizer", "act a", "acted a", acted, "commit reads", "metric success ")
	o.run()
	o.expect("act a", "acted a", acted, "commit reads", "metric success ")
}

// TestNothingIsDoneOutsideWithoutTheFinalizer: the run fails by the failure to add it, and not by what the
// plugin makes of that.
func TestNothingIsDoneOutsideWithoutTheFinalizer(t *testing.T) {
	o := newOutside(t)
	o.put(freshWidget)
	o.fail["finalizer"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: abi.VerbFinalizer, Class: abi.ClassDenied, Reason: "Forbidden", Message: "no right"}}
	twice := func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		for range 2 {
			if _, code := act(ctx, c); code != abi.CodeUnavailable {
				t.Errorf("code %d", code)
			}
		}
		return returns(&abi.Result{})
	}
	o.reconcile = twice
	o.run()
	o.expect("finalizer", "status Reconciling=True/ProgressingWithRetry Ready=False/Forbidden patch=", "commit reads", "event Warning Forbidden", "metric error denied")
	if failures := o.c.keys[testKey].left().previous.Failures; len(failures) != 1 || failures[0].Reason != "Forbidden" {
		t.Errorf("the next run is told of %+v", failures)
	}
	delete(o.fail, "finalizer")
	o.acts()
	o.run()
	o.expect("finalizer", "act a", "acted a", acted, "commit reads", "metric success ")
}

// TestRunIsRepeatedWhenTheFinalizerIsPostponed, however the plugin has ended it: it was told that
// nothing was done.
func TestRunIsRepeatedWhenTheFinalizerIsPostponed(t *testing.T) {
	o := newOutside(t)
	o.put(freshWidget)
	o.fail["finalizer"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: abi.VerbFinalizer, Reason: "TooManyRequests"}, Later: time.Hour}
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		if _, code := act(ctx, c); code != abi.CodeUnavailable {
			t.Errorf("code %d", code)
		}
		return returns(&abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
	}
	o.run()
	if next := o.done[0]; slices.Contains(o.log, "act a") || slices.ContainsFunc(o.log, func(s string) bool { return strings.HasPrefix(s, "status") || strings.HasPrefix(s, "intents") }) || next.After != time.Hour {
		t.Errorf("the run did %q, next %+v", o.log, next)
	}
	delete(o.fail, "finalizer")
	o.acts()
	if o.run(); !slices.Contains(o.log, "act a") {
		t.Errorf("the runs did %q", o.log)
	}
}

// TestLeaseIsKeptDuringAnEffectOutside: the next leader must do nothing before it has ended.
func TestLeaseIsKeptDuringAnEffectOutside(t *testing.T) {
	l := &lease{leading: make(chan struct{})}
	l.lead()
	writes := func() (n int) { l.change(func() { n = l.writes }); return n }
	during := -1
	o := newOutside(t)
	o.during = func() { during = writes() }
	o.put(aWidget)
	o.c.Lease = l
	o.acts()
	if o.run(); during != 1 || writes() != 0 {
		t.Errorf("%d writes during the effect, %d after it", during, writes())
	}
}

// TestEffectThatWaitsEndsWithTheLeadership, which was lost while it waited for its turn.
func TestEffectThatWaitsEndsWithTheLeadership(t *testing.T) {
	l := &lease{leading: make(chan struct{})}
	l.lead()
	o := newOutside(t)
	o.during = func() { l.change(func() { l.late = true }) }
	o.put(aWidget)
	o.c.Lease = l
	codes := o.acts()
	acts := o.reconcile
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		defer l.change(func() { l.late = false }) // else the worker waits for it
		return acts(ctx, c)
	}
	if o.run(); slices.Contains(o.log, "acted a") || !slices.Equal(*codes, []int64{abi.CodeUnavailable}) {
		t.Errorf("codes %d, the run did %q", *codes, o.log)
	}
}

// TestCleanupHasEffectsOutside without adding the finalizer anew.
func TestCleanupHasEffectsOutside(t *testing.T) {
	o := newOutside(t)
	o.put(strings.Replace(aWidget, `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1))
	o.acts()
	o.run()
	if !slices.Contains(o.log, "act a") || slices.Contains(o.log, "finalizer") {
		t.Errorf("the run did %q", o.log)
	}
}

// TestNothingIsDoneOutsideForARunThatIsRepeated because something could not be read.
func TestNothingIsDoneOutsideForARunThatIsRepeated(t *testing.T) {
	o := newOutside(t)
	o.put(aWidget)
	o.listError = cache.ErrNotSynced
	o.follow()
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		_, list := c.Host.List(ctx, encoded(someGadgets))
		_, done := act(ctx, c)
		if list != abi.CodeUnavailable || done != abi.CodeUnavailable {
			t.Errorf("codes %d and %d", list, done)
		}
		return returns(&abi.Result{})
	}
	o.run()
	o.didNothing()
}

// TestNothingIsDoneOutsideWithoutLeadership: another replica may do it for the object.
func TestNothingIsDoneOutsideWithoutLeadership(t *testing.T) {
	o := newOutside(t)
	o.put(aWidget)
	l := &lease{leading: make(chan struct{})}
	l.lead()
	o.c.Lease = l
	codes := &[]int64{}
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		for _, late := range []bool{false, true} {
			l.change(func() { l.late = late })
			_, code := act(ctx, c)
			*codes = append(*codes, min(code, 0))
		}
		l.change(func() { l.late = false }) // else the worker waits for it
		return returns(&abi.Result{})
	}
	o.run()
	if n := strings.Count(strings.Join(o.log, "\n"), "act a"); !slices.Equal(*codes, []int64{0, abi.CodeUnavailable}) || n != 1 {
		t.Errorf("codes %d, done %d times", *codes, n)
	}
}
