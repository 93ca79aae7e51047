package sandbox

import (
	"bytes"
	"context"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// TestLargeOutputsAreTheCallersToKeep although the buffer that they were
// written to is used again.
func TestLargeOutputsAreTheCallersToKeep(t *testing.T) {
	h := newHand("large")
	get := h.Import(abi.ImportModule, abi.ImportGet, two, answer)
	input := h.Import(abi.ImportModule, abi.ImportInput, two, none)
	const at, piece = 64 << 10, 16 << 10 // the reply's first byte, then a part of the memory, many times
	body := [][]byte{tck.I32Const(0), tck.I32Const(0), tck.Call(get), tck.Drop, tck.I32Const(at), tck.I32Const(1), tck.Call(input)}
	const pieces = 3 * largeOutput / piece
	for range pieces {
		body = append(body, h.say(at, piece))
	}
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "large", Wasm: h.wasm(nil, append(body, tck.I32Const(0))...)})
	var outputs [][]byte
	for _, first := range []byte("abc") {
		reply := hostFunc(func(context.Context, []byte) ([]byte, int64) { return []byte{first}, 1 })
		outputs = append(outputs, reconcile(t, g, Call{Host: reply}).Output)
	}
	for i, out := range outputs {
		want := make([]byte, pieces*piece)
		for j := 0; j < len(want); j += piece {
			want[j] = "abc"[i]
		}
		if !bytes.Equal(out, want) || cap(out) > len(out)+len(out)/4 {
			t.Errorf("output %d has %d bytes with room for %d, and begins with %q", i, len(out), cap(out), out[:1])
		}
	}
}

func TestFailedCallsHaveNoOutput(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "trap-after-output", Limits{})
	if out, err := g.Reconcile(t.Context(), Call{Request: tck.Request()}); err == nil || out.Output != nil {
		t.Errorf("%d bytes of output, error %v", len(out.Output), err)
	}
}
