package sandbox

import (
	"testing"
	"testing/synctest"

	"github.com/thole-dev/thole/abi/tck"
)

// moody is a guest that traps for requests of one byte.
func moody(name string) []byte {
	h := newHand(name)
	return h.wasm(nil, tck.LocalGet(0), tck.I32Const(1), tck.I32Ne, tck.If, tck.Else, tck.Unreachable, tck.End, h.ok())
}

func TestDroppedInstanceIsReplacedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := load(t, newSandbox(t, Config{}), Plugin{Name: "moody", Wasm: moody("moody")})
		reconcile(t, g, Call{})
		for round, want := range []int{1, 0, 0} { // only the call before the first trap ended well
			if _, err := g.Reconcile(t.Context(), Call{Request: []byte("x")}); err == nil {
				t.Fatal("no trap")
			}
			synctest.Wait()
			if s := g.Stats(); s.Idle != want {
				t.Errorf("round %d: stats = %+v, want %d idle", round, s, want)
			}
		}
		reconcile(t, g, Call{})
	})
}

func TestFreshInstanceIsMadeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := loadCase(t, newSandbox(t, Config{}), "reset-table", Limits{})
		for range 3 {
			reconcile(t, g, Call{Request: tck.Request(), Now: callTime})
			synctest.Wait()
			if s := g.Stats(); s.Mode != "fresh" || s.Idle != 1 {
				t.Errorf("stats = %+v, want one idle", s)
			}
		}
	})
}

func TestSparesAreBounded(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "moody", Wasm: moody("moody"), Limits: Limits{Instances: 2}})
	for range 4 {
		g.spare(t.Context())
	}
	if s := g.Stats(); s.Idle != 2 {
		t.Errorf("stats = %+v, want 2 idle", s)
	}
}
