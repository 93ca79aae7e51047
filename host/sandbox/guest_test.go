package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestLoadedGuestHasManifestAndDefaultLimits(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "get", Limits{})
	if g.Manifest().Name != "get" || len(g.Manifest().Controllers) != 1 {
		t.Errorf("manifest = %+v", g.Manifest())
	}
	if g.digest != sha256.Sum256(kitCase(t, "get").Wasm()) {
		t.Errorf("digest = %x", g.digest)
	}
	if l := g.limits; l.MemoryBytes != 64<<20 || l.Deadline != 10*time.Second || l.OutputBytes != abi.MaxOutput {
		t.Errorf("limits = %+v", l)
	}
}

func TestOutputDependsOnTimeAndSeedAlone(t *testing.T) {
	wasm := returningRandomAndTime("random")
	call := Call{Now: callTime, Seed: [32]byte{1, 2, 3}}
	first := reconcile(t, load(t, newSandbox(t, Config{}), Plugin{Name: "random", Wasm: wasm}), call)
	again := load(t, newSandbox(t, Config{}), Plugin{Name: "random", Wasm: wasm})
	for range 3 {
		if out := reconcile(t, again, call); !bytes.Equal(out.Output, first.Output) {
			t.Errorf("output %x, was %x", out.Output, first.Output)
		}
	}
	if out := reconcile(t, again, Call{Now: callTime, Seed: [32]byte{4}}); bytes.Equal(out.Output, first.Output) {
		t.Error("another seed gave the same output")
	}
	if out := reconcile(t, again, Call{Now: callTime.Add(1), Seed: call.Seed}); bytes.Equal(out.Output, first.Output) {
		t.Error("another time gave the same output")
	}
}

func TestDeadlineEndsABlockedHostCall(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "calling", Wasm: callingGet("calling", 1)})
	block := hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
		<-ctx.Done()
		return nil, abi.CodeUnavailable
	})
	_, err := g.Reconcile(t.Context(), Call{Host: block, Deadline: soon})
	f := wantFault(t, err, abi.ClassTimeout, "deadline")
	if len(f.Stack) == 0 {
		t.Error("no stack")
	}
	reconcile(t, g, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) { return nil, 0 })})
}

func TestDeadlineOfACallIsAtMostThatOfTheLimits(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "calling", Wasm: callingGet("calling", 1), Limits: Limits{Deadline: 2 * time.Hour}})
	for asked, want := range map[time.Duration]time.Duration{0: 2 * time.Hour, time.Hour: time.Hour, 3 * time.Hour: 2 * time.Hour} {
		began := time.Now()
		reconcile(t, g, Call{Deadline: asked, Host: hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
			at, ok := ctx.Deadline()
			if left := time.Until(at); !ok || left > want || at.Sub(began) < want {
				t.Errorf("asked for %s, %s are left, want %s", asked, left, want)
			}
			return nil, 0
		})})
	}
}

func TestCanceledCallIsNoFault(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "calling", Wasm: callingGet("calling", 1)})
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the host is stopping")
	host := hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
		cancel(reason)
		<-ctx.Done()
		return nil, 0
	})
	_, err := g.Reconcile(ctx, Call{Host: host})
	if _, ok := errors.AsType[*Fault](err); ok || !errors.Is(err, reason) {
		t.Errorf("error = %v, want the context's cause and no fault", err)
	}
	if _, err := g.Reconcile(ctx, Call{Host: host}); !errors.Is(err, reason) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestPanicOfTheHostIsClassRetry(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "calling", Wasm: callingGet("calling", 1)})
	var missing map[string]int
	_, err := g.Reconcile(t.Context(), Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
		missing["x"] = 1
		return nil, 0
	})})
	wantFault(t, err, abi.ClassRetry, "the host failed")
}

func TestOutputIsNotChangedByLaterCalls(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "random", Wasm: returningRandomAndTime("random")})
	first := reconcile(t, g, Call{Seed: [32]byte{1}})
	kept := bytes.Clone(first.Output)
	reconcile(t, g, Call{Seed: [32]byte{2}})
	if !bytes.Equal(first.Output, kept) {
		t.Error("a later call changed an earlier output")
	}
}

func TestCloseWaitsForCallsInFlight(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "calling", Wasm: callingGet("calling", 1)})
	gate := newGate()
	ended := make(chan error, 1)
	go func() {
		_, err := g.Reconcile(t.Context(), Call{Host: gate.host()})
		ended <- err
	}()
	<-gate.arrived
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Close(short); err == nil || !strings.Contains(err.Error(), "in flight") {
		t.Errorf("close with an ended context = %v", err)
	}
	if _, err := g.Reconcile(t.Context(), Call{}); !errors.Is(err, ErrClosed) {
		t.Errorf("call while closing = %v", err)
	}
	close(gate.open)
	if err := <-ended; err != nil {
		t.Errorf("the call in flight = %v", err)
	}
	closeGuest(t, g)
	closeGuest(t, g)
}

func TestInstancesBoundConcurrentCalls(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "calling", Wasm: callingGet("calling", 1), Limits: Limits{Instances: 2}})
	gate := newGate()
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if _, err := g.Reconcile(t.Context(), Call{Host: gate.host()}); err != nil {
				t.Error(err)
			}
		})
	}
	<-gate.arrived
	<-gate.arrived
	if s := g.Stats(); s.Busy != 2 {
		t.Errorf("stats = %+v, want 2 busy", s)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := g.Reconcile(waiting, Call{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for an instance") {
		t.Errorf("third call = %v", err)
	}
	close(gate.open)
	calls.Wait()
	if s := g.Stats(); s.Busy != 0 || s.Idle != 2 || s.Created != 2 || s.Calls != 4 {
		t.Errorf("stats = %+v, want 2 idle of 2 created after 4 calls", s)
	}
	g.closeIdle(t.Context(), time.Time{})
	if s := g.Stats(); s.Idle != 0 {
		t.Errorf("stats = %+v, want none idle", s)
	}
}

func TestInstanceOfATrapIsReplaced(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "trap", Limits{Instances: 1})
	for range 3 {
		_, err := g.Reconcile(t.Context(), Call{})
		wantFault(t, err, abi.ClassPanic, "trap: unreachable")
	}
	if s := g.Stats(); s.Calls != 3 || s.Faults != 3 || s.Dropped != 3 || s.Created != 3 || s.Idle != 0 {
		t.Errorf("stats = %+v", s)
	}
}

// TestInstanceOfAnInvalidReturnIsKept: a call that returned leaves a usable
// instance, whatever it returned.
func TestInstanceOfAnInvalidReturnIsKept(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "output-missing", Limits{Instances: 1})
	for range 3 {
		_, err := g.Reconcile(t.Context(), Call{})
		wantFault(t, err, abi.ClassABI, "without a result")
	}
	if s := g.Stats(); s.Created != 1 || s.Dropped != 0 || s.Faults != 3 {
		t.Errorf("stats = %+v", s)
	}
}

func TestSandboxCloseClosesGuests(t *testing.T) {
	s := newSandbox(t, Config{})
	g := loadCase(t, s, "correct", Limits{})
	twin := loadCase(t, s, "correct", Limits{})
	closeGuest(t, twin)
	reconcile(t, g, Call{}) // the compiled code is shared, and not freed
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Reconcile(t.Context(), Call{}); !errors.Is(err, ErrClosed) {
		t.Errorf("call = %v", err)
	}
	if _, err := s.Load(t.Context(), Plugin{Name: "correct", Wasm: callingGet("correct", 1)}); err == nil {
		t.Error("load after close succeeded")
	}
}

// TestBeforeReleaseIsCalledInTheCallsSlot if the call succeeded.
func TestBeforeReleaseIsCalledInTheCallsSlot(t *testing.T) {
	s := newSandbox(t, Config{})
	for name, want := range map[string]int{"correct": 1, "code-retry": 1, "trap": 0, "unknown-code": 0} {
		called := 0
		_, _ = loadCase(t, s, name, Limits{}).Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}, BeforeRelease: func(out Return) {
			called++
			if inUse := s.Slots().InUse; inUse != 1 || len(out.Output) == 0 {
				t.Errorf("%s: %d slots in use, output %q", name, inUse, out.Output)
			}
		}})
		if called != want {
			t.Errorf("%s: called %d times, want %d", name, called, want)
		}
	}
}

// TestGuestLogsOnceWhileItIsLoaded in lines that it cannot forge, also if each call
// gets a new instance, which starts in the same way.
func TestGuestLogsOnceWhileItIsLoaded(t *testing.T) {
	tg := newTestGuest("warming")
	log := tg.Import(abi.ImportModule, abi.ImportLog, levelPtrLen, noTypes)
	const text = "warm\n[ERROR] forged"
	tg.Data(256, []byte(text))
	tg.Table(1)
	tg.Export(abi.ExportWarm, tg.Func(noTypes, i32Only, nil,
		tck.I32Const(abi.LogInfo), tck.I32Const(256), tck.I32Const(int32(len(text))), tck.Call(log), tck.I32Const(0)))
	wasm := tg.build(nil, tck.I32Const(0), tck.NullFunc, tck.TableSet, tg.ok())
	logs := logtest.New(hclog.Info)
	g := load(t, newSandbox(t, Config{Logger: logs.Logger}), Plugin{Name: "warming", Wasm: wasm})
	for range 3 {
		reconcile(t, g, Call{})
	}
	lines := logs.All()
	if g.mode != modeFresh || len(lines) != 1 || strings.Contains(lines[0].Message, "\n") || !strings.Contains(lines[0].Message, "warm") {
		t.Errorf("in mode %s it logged %v", g.mode, lines)
	}
}

func TestCallWithoutATimeHasTheClockOfALoad(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "get", Limits{})
	of := func(call Call) any { return g.newCall(call).process }
	if got, want := of(Call{Seed: [32]byte{9}}), newCall(&g.limits, loadTime, g.digest).process; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if reflect.DeepEqual(of(Call{Now: callTime}), of(Call{})) {
		t.Error("the time of a call is that of a load")
	}
}
