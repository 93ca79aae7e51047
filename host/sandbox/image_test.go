package sandbox

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

const scratch = 64 << 10 // free memory of the guests by hand

// arena is a guest that counts calls in memory and says that it wrote up to
// top; the output is "x" for a call that sees an earlier one.
func arena(name string, top int32) []byte {
	h := newHand(name)
	h.Data(600, []byte("x"))
	h.Export(abi.ExportArenaTop, h.Func(none, one, nil, tck.I32Const(top)))
	return h.wasm(nil,
		tck.I32Const(scratch), tck.I32Load,
		tck.If, h.say(600, 1), tck.Else, h.say(0, int32(len(resultText))), tck.End,
		tck.I32Const(scratch), tck.I32Const(1), tck.I32Store,
		tck.I32Const(0))
}

func TestArenaTopIsBelieved(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "honest", Wasm: arena("honest", scratch+4), Limits: Limits{Instances: 1}})
	for range 3 * checkEvery {
		if out := reconcile(t, g, Call{}); string(out.Output) != resultText {
			t.Fatalf("output = %s", out.Output)
		}
	}
	if s := g.Stats(); s.ArenaDistrust || s.Created != 1 {
		t.Errorf("stats = %+v", s)
	}
}

func TestArenaTopIsChecked(t *testing.T) {
	for name, top := range map[string]int32{"too-low": scratch, "beyond": 1 << 30, "negative": -1} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			s := newSandbox(t, Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
			g := load(t, s, Plugin{Name: name, Wasm: arena(name, top), Limits: Limits{Instances: 1}})
			for range 3 {
				if out := reconcile(t, g, Call{}); string(out.Output) != resultText {
					t.Fatalf("output = %s", out.Output)
				}
			}
			if s := g.Stats(); !s.ArenaDistrust || s.Created != 1 {
				t.Errorf("stats = %+v", s)
			}
			if n := strings.Count(log.String(), "arena_top is not to be believed"); n != 1 {
				t.Errorf("reported %d times:\n%s", n, log.String())
			}
		})
	}
}

// TestLateLieIsFound has a guest that is honest until its memory says
// otherwise: the lie is found at the next check, and instances that it has
// spoilt are restored before they are used.
func TestLateLieIsFound(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "late", Wasm: arena("late", scratch), Limits: Limits{Instances: 1}})
	g.resets.Store(1) // past the first check
	leaked := 0
	for range 2 * checkEvery {
		if out := reconcile(t, g, Call{}); string(out.Output) != resultText {
			leaked++
		}
	}
	if leaked == 0 || leaked >= checkEvery {
		t.Errorf("%d calls saw an earlier one, want some, and fewer than %d", leaked, checkEvery)
	}
	if out := reconcile(t, g, Call{}); string(out.Output) != resultText || !g.Stats().ArenaDistrust {
		t.Errorf("output = %s, stats = %+v", out.Output, g.Stats())
	}
}

func TestPartialInstanceIsRestoredOnceDistrusted(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "partial", Wasm: arena("partial", scratch), Limits: Limits{Instances: 1}})
	g.resets.Store(1)
	reconcile(t, g, Call{})
	g.stopTrusting("as if another instance were found out")
	if out := reconcile(t, g, Call{}); string(out.Output) != resultText {
		t.Errorf("output = %s", out.Output)
	}
}

func TestTrappingArenaTop(t *testing.T) {
	h := newHand("trapping")
	h.Export(abi.ExportArenaTop, h.Func(none, one, nil, tck.Unreachable))
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "trapping", Wasm: h.wasm(nil, h.ok()), Limits: Limits{Instances: 1}})
	for range 3 {
		reconcile(t, g, Call{})
	}
	if s := g.Stats(); !s.ArenaDistrust || s.Dropped != 1 || s.Created != 2 {
		t.Errorf("stats = %+v, want one instance dropped", s)
	}
}

func TestNewInstancesStartFromTheImage(t *testing.T) {
	h := newHand("initialized")
	h.Export(abi.ExportInitialize, h.Func(none, none, nil, tck.I32Const(scratch), tck.I32Const(5), tck.I32Store))
	wasm := h.wasm(nil, tck.I32Const(scratch), tck.I32Load, tck.I32Const(5), tck.I32Ne, tck.If, tck.Unreachable, tck.End, h.ok())
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "initialized", Wasm: wasm})
	g.Trim(t.Context(), 0)
	reconcile(t, g, Call{})
	if s := g.Stats(); s.Created != 2 {
		t.Errorf("stats = %+v, want a second instance", s)
	}
}

func TestModes(t *testing.T) {
	s := newSandbox(t, Config{})
	for name, want := range map[string]string{"correct": "reset", "reset-table": "fresh", "reset-dropped-segment": "fresh"} {
		if got := loadCase(t, s, name, Limits{}).Stats().Mode; got != want {
			t.Errorf("%s: mode = %s, want %s", name, got, want)
		}
	}
}

func TestStartPages(t *testing.T) {
	for _, c := range []struct{ minimum, limit, want uint32 }{
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
		if got := startPages(c.minimum, c.limit); got != c.want {
			t.Errorf("startPages(%d, %d) = %d, want %d", c.minimum, c.limit, got, c.want)
		}
	}
}

// TestGrowthThatMoreMemoryDoesNotHelp has a guest that grows whatever it has:
// it ends with the image that it began with.
func TestGrowthThatMoreMemoryDoesNotHelp(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "reset-grown-memory", Limits{Instances: 1})
	before := g.Stats().ImageBytes
	larger := false
	for range 5 * growthsToEnlarge {
		reconcile(t, g, Call{})
		larger = larger || g.Stats().ImageBytes > before
	}
	if after := g.Stats().ImageBytes; !larger || after != before {
		t.Errorf("image of %d bytes, was %d and larger in between: %v", after, before, larger)
	}
}
