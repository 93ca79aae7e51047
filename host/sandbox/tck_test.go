package sandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/tck"
)

func TestConformance(t *testing.T) {
	tck.Run(t, conforming{t, newSandbox(t, Config{})}, tck.Cases())
}

// TestConformanceOfShortLives runs the kit with one instance at a time that is
// made anew for each call, as after [Guest.Trim].
func TestConformanceOfShortLives(t *testing.T) {
	if testing.Short() {
		t.Skip("repeats the kit")
	}
	tck.Run(t, conforming{t, trimming{newSandbox(t, Config{})}}, tck.Cases())
}

// loader is what both variants of the sandbox under test have.
type loader interface {
	Load(ctx context.Context, p Plugin) (*Guest, error)
}

// trimming loads guests without idle instances.
type trimming struct{ loader }

func (s trimming) Load(ctx context.Context, p Plugin) (*Guest, error) {
	g, err := s.loader.Load(ctx, p)
	if err == nil {
		g.Trim(ctx, 0)
	}
	return g, err
}

// conforming lets the kit drive a sandbox.
type conforming struct {
	t    *testing.T
	load loader
}

func (h conforming) Load(name string, wasm []byte, limits tck.Limits) (tck.Guest, error) {
	deadline := limits.Deadline
	if c, ok := tck.CaseOf(name); ok && c.Stage != tck.StageLoad {
		limits.Deadline = 0 // that of its calls: a busy machine needs more to load it
	}
	g, err := h.load.Load(h.t.Context(), Plugin{Name: name, Wasm: wasm, Limits: limitsOf(limits)})
	if refused, ok := errors.AsType[*LoadError](err); ok {
		return nil, refusal{refused}
	}
	if err != nil {
		return nil, err
	}
	return &conformingGuest{t: h.t, g: g, deadline: deadline}, nil
}

// limitsOf are a case's limits. Those that it leaves open are such that no
// other guest meets its deadline on a busy machine.
func limitsOf(limits tck.Limits) Limits {
	return Limits{
		Deadline:    or(limits.Deadline, time.Minute),
		MemoryBytes: or(limits.MemoryBytes, 16<<20),
	}
}

// refusal tells the kit where a load ended.
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

type conformingGuest struct {
	t        *testing.T
	g        *Guest
	deadline time.Duration // of a call; 0: the guest's
	fuel     int64
}

func (c *conformingGuest) Reconcile(request []byte) (int32, []byte, error) {
	out, err := c.g.Reconcile(context.Background(), Call{Request: request, Host: world{c.t}, Deadline: c.deadline})
	c.fuel = out.Fuel
	return int32(out.Code), out.Output, err
}

// Fuel lets the kit hold each call to the cost of the first.
func (c *conformingGuest) Fuel() uint64 { return uint64(c.fuel) }

func (c *conformingGuest) Close() { closeGuest(c.t, c.g) }

// world answers capabilities as the kit wants.
type world struct{ t testing.TB }

func (world) Get(_ context.Context, call []byte) ([]byte, int64)  { return tck.Get(call) }
func (world) List(_ context.Context, call []byte) ([]byte, int64) { return tck.List(call) }
func (w world) Log(level int32, message []byte)                   { w.t.Logf("guest log %d: %.100q", level, message) }
