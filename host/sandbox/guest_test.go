package sandbox

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

func TestGuestTellsItself(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "get", Limits{})
	if g.Manifest().Name != "get" || g.Name() != "get" || len(g.Manifest().Controllers) != 1 {
		t.Errorf("manifest = %+v", g.Manifest())
	}
	if want := []string{"thole/v1.input", "thole/v1.output", "thole/v1.get"}; !slices.Equal(g.Imports(), want) {
		t.Errorf("imports = %q", g.Imports())
	}
	if len(g.Digest()) != 64 {
		t.Errorf("digest = %q", g.Digest())
	}
	if l := g.Limits(); l.MemoryBytes != 64<<20 || l.Deadline != 10*time.Second || l.OutputBytes != abi.MaxOutput {
		t.Errorf("limits = %+v", l)
	}
}

func TestSameCallSameOutput(t *testing.T) {
	wasm := reporting("reporting")
	call := Call{Now: callTime, Seed: [32]byte{1, 2, 3}}
	first := reconcile(t, load(t, newSandbox(t, Config{}), Plugin{Name: "reporting", Wasm: wasm}), call)
	again := load(t, newSandbox(t, Config{}), Plugin{Name: "reporting", Wasm: wasm})
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

// reporting is a guest whose output is 16 random bytes and the time.
func reporting(name string) []byte {
	h := newHand(name)
	random := h.Import(wasi.ImportModule, "random_get", two, one)
	clock := h.Import(wasi.ImportModule, "clock_time_get", []tck.Type{tck.I32, tck.I64, tck.I32}, one)
	const at = 64 << 10
	return h.wasm(nil,
		tck.I32Const(at), tck.I32Const(16), tck.Call(random), tck.Drop,
		tck.I32Const(0), tck.I64Const(0), tck.I32Const(at+16), tck.Call(clock), tck.Drop,
		h.say(at, 24), tck.I32Const(0))
}

func reconcile(tb testing.TB, g *Guest, call Call) Return {
	tb.Helper()
	out, err := g.Reconcile(tb.Context(), call)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestDeadlineReachesHostCalls(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "asking", Wasm: asking("asking", 1)})
	block := hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
		<-ctx.Done()
		return nil, abi.CodeUnavailable
	})
	_, err := g.Reconcile(t.Context(), Call{Host: block, Deadline: 200 * time.Millisecond})
	f := wantFault(t, err, abi.ClassTimeout, "deadline")
	if len(f.Stack) == 0 {
		t.Error("no stack")
	}
	reconcile(t, g, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) { return nil, 0 })})
}

func TestCancelledCallIsNotTheGuestsFault(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "asking", Wasm: asking("asking", 1)})
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the host is stopping")
	host := hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
		cancel(reason)
		<-ctx.Done()
		return nil, 0
	})
	_, err := g.Reconcile(ctx, Call{Host: host})
	var f *Fault
	if !errors.Is(err, reason) || errors.As(err, &f) {
		t.Errorf("error = %v, want the context's cause and no fault", err)
	}
	if _, err := g.Reconcile(ctx, Call{Host: host}); !errors.Is(err, reason) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestPanickingHostIsTheHostsFault(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "asking", Wasm: asking("asking", 1)})
	var missing map[string]int
	_, err := g.Reconcile(t.Context(), Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
		missing["x"] = 1
		return nil, 0
	})})
	wantFault(t, err, abi.ClassRetry, "the host failed")
}

func TestHostCallLimit(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "asking", Wasm: asking("asking", 4), Limits: Limits{HostCalls: 3}})
	asked := 0
	_, err := g.Reconcile(t.Context(), Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
		asked++
		return nil, 0
	})})
	wantFault(t, err, abi.ClassABI, "limit of 3 host calls")
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

func TestLargeReplyIsRefused(t *testing.T) {
	h := newHand("large")
	get := h.Import(abi.ImportModule, abi.ImportGet, two, answer)
	wasm := h.wasm(nil, tck.I32Const(0), tck.I32Const(4), tck.Call(get), tck.I64Const(abi.CodeTooLarge), tck.I64Ne,
		tck.If, tck.Unreachable, tck.End, h.ok())
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "large", Wasm: wasm, Limits: Limits{ReplyBytes: 10}})
	reconcile(t, g, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) { return make([]byte, 11), 0 })})
}

func TestLogLimit(t *testing.T) {
	h := newHand("chatty")
	line := h.Import(abi.ImportModule, abi.ImportLog, logging, none)
	body := bytes.Repeat(bytes.Join([][]byte{tck.I32Const(9), tck.I32Const(0), tck.I32Const(20), tck.Call(line)}, nil), 10)
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "chatty", Wasm: h.wasm(nil, body, h.ok()), Limits: Limits{LogBytes: 3 * (20 + logOverhead)}})
	var world recorder
	out := reconcile(t, g, Call{Host: &world})
	if len(world.lines) != 3 || world.lines[0] != "3 "+resultText || out.LogDropped != 7 {
		t.Errorf("logged %q and dropped %d, want 3 and 7", world.lines, out.LogDropped)
	}
}

func TestLongMessageIsInvalid(t *testing.T) {
	h := newHand("long")
	get := h.Import(abi.ImportModule, abi.ImportGet, two, answer)
	wasm := h.wasm(nil, tck.I32Const(0), tck.I32Const(abi.MaxCall+1), tck.Call(get), tck.I64Const(abi.CodeInvalid), tck.I64Ne,
		tck.If, tck.Unreachable, tck.End, h.ok())
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "long", Wasm: wasm})
	reconcile(t, g, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
		t.Error("the host was asked")
		return nil, 0
	})})
}

func TestWithoutHostCapabilitiesAreDenied(t *testing.T) {
	h := newHand("denied")
	get := h.Import(abi.ImportModule, abi.ImportGet, two, answer)
	wasm := h.wasm(nil, tck.I32Const(0), tck.I32Const(4), tck.Call(get), tck.I64Const(abi.CodeDenied), tck.I64Ne,
		tck.If, tck.Unreachable, tck.End, h.ok())
	reconcile(t, load(t, newSandbox(t, Config{}), Plugin{Name: "denied", Wasm: wasm}), Call{})
}

func TestOutputIsTheCallers(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "reporting", Wasm: reporting("reporting")})
	first := reconcile(t, g, Call{Seed: [32]byte{1}})
	kept := bytes.Clone(first.Output)
	reconcile(t, g, Call{Seed: [32]byte{2}})
	if !bytes.Equal(first.Output, kept) {
		t.Error("a later call changed an earlier output")
	}
}

// gate is a world in which get waits until it is opened.
type gate struct{ arrived, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}, 16), make(chan struct{})} }

func (g gate) host() HostCalls {
	return hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
		g.arrived <- struct{}{}
		select {
		case <-g.open:
		case <-ctx.Done():
		}
		return nil, 0
	})
}

func TestCloseWaitsForCalls(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "asking", Wasm: asking("asking", 1)})
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

func TestInstancesBoundCallsAtOnce(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "asking", Wasm: asking("asking", 1), Limits: Limits{Instances: 2}})
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
	g.Trim(t.Context(), 1)
	if s := g.Stats(); s.Idle != 1 {
		t.Errorf("stats = %+v, want 1 idle", s)
	}
}

func TestFailedInstanceIsReplaced(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "trap", Limits{Instances: 1})
	for range 3 {
		_, err := g.Reconcile(t.Context(), Call{})
		wantFault(t, err, abi.ClassPanic, "trap: unreachable")
	}
	if s := g.Stats(); s.Calls != 3 || s.Faults != 3 || s.Dropped != 3 || s.Created != 3 || s.Idle != 0 {
		t.Errorf("stats = %+v", s)
	}
}

// TestBrokenReturnKeepsInstance fails calls without a trap, after which the
// instance is as good as before.
func TestBrokenReturnKeepsInstance(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "output-never", Limits{Instances: 1})
	for range 3 {
		_, err := g.Reconcile(t.Context(), Call{})
		wantFault(t, err, abi.ClassABI, "without a result")
	}
	if s := g.Stats(); s.Created != 1 || s.Dropped != 0 || s.Faults != 3 {
		t.Errorf("stats = %+v", s)
	}
}

func TestSandboxCloseEndsAll(t *testing.T) {
	s := newSandbox(t, Config{})
	g := loadCase(t, s, "correct", Limits{})
	twin := loadCase(t, s, "correct", Limits{})
	closeGuest(t, twin)
	reconcile(t, g, Call{}) // the compiled code is shared, and still there
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Reconcile(t.Context(), Call{}); !errors.Is(err, ErrClosed) {
		t.Errorf("call = %v", err)
	}
	if _, err := s.Load(t.Context(), Plugin{Name: "correct", Wasm: asking("correct", 1)}); err == nil {
		t.Error("load after close succeeded")
	}
}
