package sandbox

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// TestNativeStackIsBounded: the engine has its stack where it is looked for, a call
// that nests without end is ended long before the engine would end it, and an idle
// instance has no large stack.
func TestNativeStackIsBounded(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "nesting", Wasm: nestingCalls("nesting")})
	in, err := g.instanceFor(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	before := in.stack.size()
	if _, err := in.enter(t.Context(), g.newCall(Call{}), in.reconcile, 20_000); err != nil {
		t.Fatal(err)
	}
	if deep := in.stack.size(); before <= 0 || before > maxIdleStack || deep < 20_000*16 {
		t.Errorf("the stack has %d bytes before and %d after 20,000 calls", before, deep)
	}
	large := g.sandbox.Memory().UsedBytes
	if !g.reset(t.Context(), in) || in.stack.size() > maxIdleStack {
		t.Errorf("an idle instance keeps %d bytes", in.stack.size())
	}
	if used := g.sandbox.Memory().UsedBytes; large < used+20_000*16 {
		t.Errorf("%d bytes are in use with a large stack, %d without", large, used)
	}
	_, err = in.enter(t.Context(), g.newCall(Call{}), in.reconcile, 1<<30)
	wantFault(t, err, abi.ClassStackOverflow, "nest too deeply")
	if most := in.stack.size(); most > 3*maxStack {
		t.Errorf("the stack had %d bytes when it was too large", most)
	}
	in.close(t.Context())
}

// TestStackBeyondTheBudgetEndsTheCall and leaves the instance to others, whose stacks
// fit.
func TestStackBeyondTheBudgetEndsTheCall(t *testing.T) {
	g := load(t, newSandbox(t, Config{MemoryBytes: 512 << 10}), Plugin{Name: "nesting", Wasm: nestingCalls("nesting")})
	idle := g.sandbox.Memory().UsedBytes
	in, err := g.instanceFor(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.enter(t.Context(), g.newCall(Call{}), in.reconcile, 20_000)
	if f := wantFault(t, err, abi.ClassOutOfMemory, "the host's memory for plugins is used up"); f.HostCaused() || !errors.Is(err, ErrHostMemory) {
		t.Errorf("host caused = %v, error = %v", f.HostCaused(), err)
	}
	if !g.reset(t.Context(), in) {
		t.Fatal("the instance cannot be used again")
	}
	if _, err = in.enter(t.Context(), g.newCall(Call{}), in.reconcile, 100); err != nil {
		t.Error(err)
	}
	in.close(t.Context())
	if used := g.sandbox.Memory().UsedBytes; used > idle {
		t.Errorf("%d bytes are in use, %d before", used, idle)
	}
}
