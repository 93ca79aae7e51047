package sandbox

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// TestNativeStack: the engine has its stack where it is looked for, a call
// that nests without end is stopped long before the engine would, and an idle
// instance keeps no large stack.
func TestNativeStack(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "nesting", Wasm: nesting("nesting")})
	in, err := g.ready(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	before := in.stack.size()
	if _, err := in.enter(t.Context(), g.callFor(Call{}), in.reconcile, 20_000); err != nil {
		t.Fatal(err)
	}
	if deep := in.stack.size(); before <= 0 || before > keptStack || deep < 20_000*16 {
		t.Errorf("the stack has %d bytes before and %d after 20,000 calls", before, deep)
	}
	if !g.recycle(t.Context(), in) || in.stack.size() > keptStack {
		t.Errorf("an idle instance keeps %d bytes", in.stack.size())
	}
	_, err = in.enter(t.Context(), g.callFor(Call{}), in.reconcile, 1<<30)
	wantFault(t, err, abi.ClassStackOverflow, "nest too deeply")
	if most := in.stack.size(); most > 3*mostStack {
		t.Errorf("the stack had %d bytes when it was too large", most)
	}
	in.close(t.Context())
}

// nesting is a guest that nests as many calls as its request is long.
func nesting(name string) []byte {
	h := newHand(name)
	self := h.output + 1
	h.Func(one, none, nil,
		tck.LocalGet(0), tck.If,
		tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.Call(self),
		tck.End)
	return h.wasm(nil, tck.LocalGet(0), tck.Call(self), h.ok())
}
