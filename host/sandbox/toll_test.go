package sandbox

import (
	"context"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// TestTheHostsWorkIsPaid: what the host does for a guest costs the guest.
func TestTheHostsWorkIsPaid(t *testing.T) {
	s := newSandbox(t, Config{})
	g := load(t, s, Plugin{Name: "asking", Wasm: asking("asking", 3)})
	cost := func(reply int) int64 {
		host := hostFunc(func(context.Context, []byte) ([]byte, int64) { return make([]byte, reply), 0 })
		return reconcile(t, g, Call{Host: host}).Fuel
	}
	small, large := cost(0), cost(1<<20)
	if small < 3*askFuel || large-small != 3*copyFuel(1<<20) {
		t.Errorf("three calls of get cost %d with empty replies, %d with a mebibyte", small, large)
	}

	h := newHand("logging")
	log := h.Import(abi.ImportModule, abi.ImportLog, logging, none)
	body := make([]byte, 0, 64)
	for range 10 {
		body = append(body, append(append(tck.I32Const(0), append(tck.I32Const(0), tck.I32Const(4)...)...), tck.Call(log)...)...)
	}
	logs := load(t, s, Plugin{Name: "logging", Wasm: h.wasm(nil, body, h.ok()), Limits: Limits{LogBytes: 5 * (4 + logOverhead)}})
	out := reconcile(t, logs, Call{})
	if paid := out.Fuel / logFuel; out.LogDropped != 5 || paid != 5 {
		t.Errorf("%d lines were dropped, and %d of ten paid", out.LogDropped, paid)
	}
}
