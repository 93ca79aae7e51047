package sandbox

import (
	"testing"
	"time"
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

// TestFirstImageReturnsIfEnlargingDoesNotHelp: a guest that grows whatever it has
// ends with the image that it began with.
func TestFirstImageReturnsIfEnlargingDoesNotHelp(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "reset-grown-memory", Limits{Instances: 1})
	before := g.image.Load().memory.Size()
	larger := false
	for range 5 * growthsToEnlarge {
		reconcile(t, g, Call{})
		larger = larger || g.image.Load().memory.Size() > before
	}
	if after := g.image.Load().memory.Size(); !larger || after != before {
		t.Errorf("image of %d bytes, was %d and larger in between: %v", after, before, larger)
	}
}
