package sandbox

import (
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// TestWildPointersInSystemCalls hands addresses beyond the memory to the
// system interface: an error number, never a failed host.
func TestWildPointersInSystemCalls(t *testing.T) {
	for _, f := range wasi.Functions() {
		if f.Name == "proc_exit" {
			continue
		}
		for _, descriptor := range []int32{1, -1} {
			t.Run(f.Name, func(t *testing.T) {
				g := load(t, newSandbox(t, Config{}), Plugin{Name: "wild", Wasm: wild(f, descriptor)})
				defer closeGuest(t, g)
				if _, err := g.Reconcile(t.Context(), Call{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func wild(f wasi.Function, descriptor int32) []byte {
	h := newHand("wild")
	var types []tck.Type
	var body [][]byte
	for i := range f.Type.Params {
		switch {
		case module.ValueType(f.Type.Params[i]) == module.I64:
			types, body = append(types, tck.I64), append(body, tck.I64Const(-1))
		case i == 0:
			types, body = append(types, tck.I32), append(body, tck.I32Const(descriptor))
		default:
			types, body = append(types, tck.I32), append(body, tck.I32Const(-8))
		}
	}
	imported := h.Import(wasi.ImportModule, f.Name, types, one)
	return h.wasm(nil, append(body, tck.Call(imported), tck.Drop, h.ok())...)
}
