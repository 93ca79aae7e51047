package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

func TestConformance(t *testing.T) {
	tck.Run(t, kitAdapter{t, newSandbox(t, Config{})}, tck.Cases())
}

// TestConformanceWithoutIdleInstances runs the kit with guests whose first call
// needs a new instance.
func TestConformanceWithoutIdleInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("repeats the kit")
	}
	tck.Run(t, kitAdapter{t, trimmingLoader{newSandbox(t, Config{})}}, tck.Cases())
}

// loader is a sandbox, or one that trims its guests.
type loader interface {
	Load(ctx context.Context, p Plugin) (*Guest, error)
}

// trimmingLoader loads guests without idle instances.
type trimmingLoader struct{ loader }

func (s trimmingLoader) Load(ctx context.Context, p Plugin) (*Guest, error) {
	g, err := s.loader.Load(ctx, p)
	if err == nil {
		g.closeIdle(ctx, time.Time{})
	}
	return g, err
}

// kitAdapter is a sandbox as the kit runs it.
type kitAdapter struct {
	t    *testing.T
	load loader
}

func (h kitAdapter) Load(name string, wasm []byte, limits tck.Limits) (tck.Guest, error) {
	deadline := limits.Deadline
	switch c, ok := tck.CaseOf(name); {
	case ok && c.Stage != tck.StageLoad:
		limits.Deadline = 0 // it holds for its calls: the load takes longer on a busy machine
	case limits.Deadline > 0 && strings.HasSuffix(name, "-loops"):
		limits.Deadline = 4 * soon // so do the steps before the one that never returns
	}
	g, err := h.load.Load(h.t.Context(), Plugin{Name: name, Wasm: wasm, Limits: limitsOf(limits)})
	if refused, ok := errors.AsType[*LoadError](err); ok {
		return nil, refusal{refused}
	}
	if err != nil {
		return nil, err
	}
	return &kitGuest{t: h.t, g: g, deadline: deadline}, nil
}

// limitsOf returns a case's limits. If the case has no deadline, it is so long that
// the guest does not reach it on a busy machine.
func limitsOf(limits tck.Limits) Limits {
	return Limits{
		Deadline:    cmp.Or(limits.Deadline, time.Minute),
		MemoryBytes: cmp.Or(limits.MemoryBytes, 16<<20),
	}
}

// refusal is a load error with its step in the kit's terms.
type refusal struct{ *LoadError }

func (r refusal) RefusedAt() tck.Step {
	switch r.Step {
	case StepInstantiate:
		return tck.StepStart
	case StepInitialize, StepDescribe, StepManifest, StepWarm:
		return tck.Step(r.Step)
	}
	return tck.StepCheck
}

type kitGuest struct {
	t        *testing.T
	g        *Guest
	deadline time.Duration // of a call; 0 for the guest's
	fuel     int64
}

func (c *kitGuest) Reconcile(request []byte) (int32, []byte, error) {
	out, err := c.g.Reconcile(context.Background(), Call{Request: [][]byte{request}, Namespace: namespaceOf(c.t, request), Host: kitHost{c.t}, Deadline: c.deadline})
	c.fuel = out.Usage.Fuel
	return int32(out.Code), out.Output, err
}

// Index calls the export index without a host, and with the clock of a load.
func (c *kitGuest) Index(request []byte) (int32, []byte, error) {
	out, err := c.g.Call(context.Background(), tck.IndexExport, Call{Request: [][]byte{request}, Namespace: "default", Deadline: c.deadline})
	c.fuel = out.Usage.Fuel
	return int32(out.Code), out.Output, err
}

// Step calls the kit's export of steps, without a host in the last one, as package dispatch does.
func (c *kitGuest) Step(request []byte) (int32, []byte, error) {
	call := Call{Request: [][]byte{request}, Namespace: namespaceOf(c.t, request), Deadline: c.deadline}
	if !bytes.Contains(request, []byte(`["stop"]`)) {
		call.Host = kitHost{c.t}
	}
	out, err := c.g.Call(context.Background(), tck.DaemonExport, call)
	c.fuel = out.Usage.Fuel
	return int32(out.Code), out.Output, err
}

// Scan calls the export scan. The host that it is given serves everything: that imports with effects are denied is for
// the sandbox.
func (c *kitGuest) Scan(request []byte) (int32, []byte, error) {
	out, err := c.g.Call(context.Background(), tck.ScanExport, Call{Request: [][]byte{request}, Host: kitHost{c.t}, Deadline: c.deadline})
	c.fuel = out.Usage.Fuel
	return int32(out.Code), out.Output, err
}

// Review calls one of the exports of reviews. The host that it is given serves everything: that most
// of it is denied is for the sandbox.
func (c *kitGuest) Review(export string, request []byte) (int32, []byte, error) {
	out, err := c.g.Call(context.Background(), export, Call{Request: [][]byte{request}, Namespace: namespaceOf(c.t, request), Host: kitHost{c.t}, Deadline: c.deadline})
	c.fuel = out.Usage.Fuel
	return int32(out.Code), out.Output, err
}

// namespaceOf returns the namespace of a request's object.
func namespaceOf(tb testing.TB, request []byte) string {
	tb.Helper()
	r, err := abi.DecodeRequest(request)
	if err != nil {
		tb.Fatal(err)
	}
	var object struct{ Metadata struct{ Namespace string } }
	if err := json.Unmarshal(r.Object, &object); err != nil {
		tb.Fatal(err)
	}
	return object.Metadata.Namespace
}

// Fuel lets the kit compare the cost of calls.
func (c *kitGuest) Fuel() uint64 { return uint64(c.fuel) }

func (c *kitGuest) Close() { closeGuest(c.t, c.g) }

// kitHost serves capabilities as the kit specifies.
type kitHost struct{ t testing.TB }

func (kitHost) Get(_ context.Context, call ReadCall) (Reply, int64) {
	return answer(tck.Get(call.Message))
}

func (kitHost) List(_ context.Context, call ReadCall) (Reply, int64) {
	return answer(tck.List(call.Message))
}

func (kitHost) Import(_ context.Context, name string, call ReadCall) (Reply, int64) {
	return answer(tck.Import(name, call.Message))
}

func (h kitHost) Log(level int32, message []byte) { h.t.Logf("guest log %d: %.100q", level, message) }

// TestHostileGuestsAreContained runs the guests of the kit that try to harm the host.
func TestHostileGuestsAreContained(t *testing.T) {
	if testing.Short() && !raceDetector {
		t.Skip("takes long")
	}
	tck.Run(t, kitAdapter{t, newSandbox(t, Config{})}, tck.Hostile())
}

// callOutcome is what a replay of a call must reproduce.
type callOutcome struct {
	code   int32
	output string
	fuel   int64
	memory uint64
	text   string
}

// TestSameCallHasTheSameOutcome in two sandboxes, for every guest of the kit that
// loads. Guests that only their deadline ends have a fuel limit instead, which ends
// them at the same instruction each time.
func TestSameCallHasTheSameOutcome(t *testing.T) {
	if testing.Short() && !raceDetector {
		t.Skip("takes long")
	}
	one, other := newSandbox(t, Config{}), newSandbox(t, Config{})
	for _, c := range append(tck.Cases(), tck.Hostile()...) {
		if c.Stage == tck.StageLoad {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			first := outcomes(t, one, c, 2)
			for i, again := range append(outcomes(t, other, c, 1), first...) {
				if again != first[0] {
					t.Errorf("outcome %d is %+v, the first was %+v", i, again, first[0])
				}
			}
		})
	}
}

func outcomes(t *testing.T, s *Sandbox, c tck.Case, calls int) []callOutcome {
	t.Helper()
	limits := limitsOf(c.Limits)
	if c.Timed() {
		limits.Deadline, limits.Fuel = time.Minute, 1_000_000
	}
	g := load(t, s, Plugin{Name: c.Name, Wasm: c.Wasm(), Limits: limits})
	defer closeGuest(t, g)
	var out []callOutcome
	for i := range calls {
		ret, err := g.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}, Namespace: strconv.Itoa(i), Now: callTime, Seed: [32]byte{1}, Host: kitHost{t}})
		out = append(out, callOutcome{int32(ret.Code), string(ret.Output), ret.Usage.Fuel, ret.Usage.MemoryBytes, faultText(err)})
	}
	return out
}

// faultText is the error of a failed call with its stack.
func faultText(err error) string {
	if fault, ok := errors.AsType[*Fault](err); ok {
		return fmt.Sprint(err, fault.Stack)
	}
	return fmt.Sprint(err)
}
