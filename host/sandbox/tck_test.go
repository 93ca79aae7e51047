package sandbox

import (
	"context"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/tck"
)

func TestConformance(t *testing.T) {
	tck.Run(t, conforming{t, newSandbox(t, Config{})})
}

// TestConformanceOfShortLives runs the kit with one instance at a time that is
// made anew for each call, as after [Guest.Trim].
func TestConformanceOfShortLives(t *testing.T) {
	if testing.Short() {
		t.Skip("repeats the kit")
	}
	tck.Run(t, conforming{t, trimming{newSandbox(t, Config{})}})
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

func (h conforming) Load(name string, wasm []byte) (tck.Guest, error) {
	g, err := h.load.Load(h.t.Context(), Plugin{Name: name, Wasm: wasm, Limits: Limits{
		Deadline:    time.Minute,
		MemoryBytes: 16 << 20,
	}})
	if err != nil {
		return nil, err
	}
	return conformingGuest{h.t, g}, nil
}

type conformingGuest struct {
	t *testing.T
	g *Guest
}

func (c conformingGuest) Reconcile(request []byte) (int32, []byte, error) {
	out, err := c.g.Reconcile(context.Background(), Call{Request: request, Host: world{c.t}, Deadline: deadlineFor(c.g.Name())})
	return int32(out.Code), out.Output, err
}

// deadlineFor is short for the one guest that ends by it; the others must not
// meet it on a busy machine.
func deadlineFor(name string) time.Duration {
	if name == "infinite-loop" {
		return 50 * time.Millisecond
	}
	return 0
}

func (c conformingGuest) Close() { closeGuest(c.t, c.g) }

// world answers capabilities as the kit wants.
type world struct{ t testing.TB }

func (world) Get(_ context.Context, call []byte) ([]byte, int64)  { return tck.Get(call) }
func (world) List(_ context.Context, call []byte) ([]byte, int64) { return tck.List(call) }
func (w world) Log(level int32, message []byte)                   { w.t.Logf("guest log %d: %q", level, message) }
