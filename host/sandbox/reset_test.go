package sandbox

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/tck"
)

func TestNewInstancesStartFromTheImage(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "initialized", Wasm: needingInitialize("initialized")})
	g.closeIdle(t.Context(), time.Time{})
	reconcile(t, g, Call{})
	if s := g.Stats(); s.Created != 2 {
		t.Errorf("stats = %+v, want a second instance", s)
	}
}

func TestModeByModule(t *testing.T) {
	s := newSandbox(t, Config{})
	for name, want := range map[string]string{"correct": "reset", "reset-table": "fresh", "reset-dropped-segment": "fresh"} {
		if got := loadCase(t, s, name, Limits{}).mode.String(); got != want {
			t.Errorf("%s: mode = %s, want %s", name, got, want)
		}
	}
}

func TestStartPagesReachTheLimitByDoubling(t *testing.T) {
	for _, c := range []struct {
		minimum uint32
		limit   uint64 // pages
		want    uint32
	}{
		{2, 1024, 2},
		{3, 1024, 4},
		{33, 1024, 64},
		{2, 768, 3},
		{1024, 1024, 1024},
		{600, 1024, 1024},
		{1, 1, 1},
		{1, 7, 1},
		{0, 1024, 0},
		{5, 7, 7},
	} {
		if got := (Limits{MemoryBytes: c.limit * pageBytes}).startPages(c.minimum); got != c.want {
			t.Errorf("startPages(%d, %d) = %d, want %d", c.minimum, c.limit, got, c.want)
		}
	}
}

// TestNamespacesShareNoStateUnderLoad: many namespaces by turns, traps and growths,
// with fewer instances than callers.
func TestNamespacesShareNoStateUnderLoad(t *testing.T) {
	c := kitCase(t, "reset-namespaces")
	g := load(t, newSandbox(t, Config{}), Plugin{Name: c.Name, Wasm: c.Wasm(), Limits: Limits{Instances: 3}})
	want := string(c.Output(nil))
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			for i := range 200 {
				namespace := fmt.Sprintf("%d-%d", caller, i) // which no other call has
				out, err := g.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}, Namespace: namespace})
				if err != nil || string(out.Output) != want {
					t.Errorf("namespace %s: %s, %v", namespace, out.Output, err)
				}
				if i%16 == 0 {
					g.closeIdle(t.Context(), time.Time{}) // as another plugin's need for memory does
				}
			}
		})
	}
	all.Wait()
}

// TestInstanceAtItsMaximumIsReplaced: the engine cannot be made to take over a
// smaller memory by a growth.
func TestInstanceAtItsMaximumIsReplaced(t *testing.T) {
	tg := newTestGuest("full")
	tg.maximum = 4
	wasm := tg.build(nil, trapUnless(2, tck.MemorySize), tck.I32Const(2), tck.MemoryGrow, tck.Drop, tg.ok())
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "full", Wasm: wasm})
	for range 3 {
		reconcile(t, g, Call{})
	}
	if s := g.Stats(); s.Dropped != 3 {
		t.Errorf("stats = %+v, want an instance for each call", s)
	}
}
