package sandbox

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// growing is a guest that grows by pages and answers success if it could,
// else traps; what was written before must still be there.
func growing(name string, pages int32) []byte {
	h := newHand(name)
	return h.wasm(nil,
		tck.I32Const(scratch), tck.I32Const(7), tck.I32Store,
		tck.I32Const(pages), tck.MemoryGrow, tck.I32Const(-1), tck.I32Eq, tck.If, tck.Unreachable, tck.End,
		tck.I32Const(scratch), tck.I32Load, tck.I32Const(7), tck.I32Ne, tck.If, tck.Unreachable, tck.End,
		h.ok())
}

func TestGrowthToThePluginsLimit(t *testing.T) {
	s := newSandbox(t, Config{})
	g := load(t, s, Plugin{Name: "fits", Wasm: growing("fits", 14), Limits: Limits{MemoryBytes: 1 << 20}})
	if out := reconcile(t, g, Call{}); out.MemoryBytes != 1<<20 {
		t.Errorf("memory of %d bytes", out.MemoryBytes)
	}
	g = load(t, s, Plugin{Name: "more", Wasm: growing("more", 15), Limits: Limits{MemoryBytes: 1 << 20}})
	_, err := g.Reconcile(t.Context(), Call{})
	wantFault(t, err, abi.ClassOutOfMemory, "trap: unreachable: memory of 1.1 MiB is more than the plugin's limit of 1 MiB")
}

// TestMemoryIsGivenBack: after traps, growths, short lives and the end of all
// plugins nothing is counted, and nothing is mapped.
func TestMemoryIsGivenBack(t *testing.T) {
	before := mapped(t)
	s := newSandbox(t, Config{})
	for _, c := range []struct {
		name   string
		faults bool
	}{{"trap", true}, {"reset-grown-memory", false}, {"reset-table", false}, {"correct", false}} {
		g := loadCase(t, s, c.name, Limits{Instances: 2})
		for range 300 {
			if _, err := g.Reconcile(t.Context(), Call{Request: tck.Request()}); (err != nil) != c.faults {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if used := s.Memory().UsedBytes; used > 4<<20 {
			t.Errorf("%s: %d bytes are in use", c.name, used)
		}
		if more := mapped(t) - before; more > 100 {
			t.Errorf("%s: %d more mappings than before", c.name, more)
		}
		closeGuest(t, g)
		if used := s.Memory().UsedBytes; used != 0 {
			t.Errorf("%s: %d bytes are left", c.name, used)
		}
	}
	for _, name := range []string{"start-traps", "describe-traps", "data-outside"} {
		if c, ok := tck.CaseOf(name); ok {
			_, _ = s.Load(t.Context(), Plugin{Name: name, Wasm: c.Wasm()})
		}
	}
	if used := s.Memory().UsedBytes; used != 0 {
		t.Errorf("%d bytes are left of modules that were refused", used)
	}
	kept := mapped(t)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if freed := kept - mapped(t); freed <= 0 && kept > 0 {
		t.Errorf("%d mappings fewer after the end: unused address space is kept", freed)
	}
}

// TestThousandInstances has 64 GiB of address space in use.
func TestThousandInstances(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{MemoryBytes: 1 << 30}), "reset-memory", Limits{Instances: 1000})
	gate := make([]*instance, 1000)
	for i := range gate {
		in, err := g.pool.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if gate[i], err = g.ready(t.Context(), in); err != nil {
			t.Fatalf("instance %d: %v", i, err)
		}
	}
	for i, in := range gate {
		if _, err := g.reconcile(t.Context(), in, Call{Request: tck.Request()}); err != nil {
			t.Fatalf("instance %d: %v", i, err)
		}
		in.reset()
		g.pool.leave(t.Context(), in)
	}
	if s := g.Stats(); s.Idle != 1000 {
		t.Errorf("stats = %+v", s)
	}
}
