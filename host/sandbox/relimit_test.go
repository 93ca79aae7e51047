package sandbox

import (
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// TestRelimit gives a plugin another deadline while it runs: nothing is read
// or compiled, the new limit holds for the new guest alone, and either may be
// closed first.
func TestRelimit(t *testing.T) {
	for name, config := range map[string]Config{
		"in memory": {},
		"on disk":   {CacheDir: filepath.Join(t.TempDir(), "cache")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t, config)
			wasm := remembering("remembering")
			g, err := s.Load(t.Context(), Plugin{Name: "remembering", Wasm: wasm})
			if err != nil {
				t.Fatal(err)
			}
			next, err := s.Relimit(t.Context(), g, Limits{Deadline: time.Second, Instances: 3})
			if err != nil {
				t.Fatal(err)
			}
			if next.Limits().Deadline != time.Second || g.Limits().Deadline != 10*time.Second {
				t.Errorf("deadlines %s and %s", next.Limits().Deadline, g.Limits().Deadline)
			}
			if next.Digest() != g.Digest() || next.Manifest().Name != "remembering" || next.Stats().InstancesLimit != 3 {
				t.Errorf("it is %+v", next.Stats())
			}
			reconcile(t, g, Call{})
			closeGuest(t, g)
			reconcile(t, next, Call{})
			last, err := s.Relimit(t.Context(), next, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			closeGuest(t, last)
			reconcile(t, next, Call{})
			closeGuest(t, next)
			if compiled, _ := next.code.Stats(); compiled {
				t.Error("the code is still there")
			}
			if _, err := s.Relimit(t.Context(), next, Limits{}); !errors.Is(err, ErrClosed) {
				t.Errorf("when all are closed: %v", err)
			}
			if n := s.Memory().Shares; n != 0 {
				t.Errorf("%d are left that share the memory", n)
			}
		})
	}
}

// TestRelimitTellsWhatDoesNotFit: the guest goes on as it was.
func TestRelimitTellsWhatDoesNotFit(t *testing.T) {
	s := newSandbox(t, Config{})
	g := load(t, s, Plugin{Name: "remembering", Wasm: remembering("remembering")})
	var refused *LoadError
	if _, err := s.Relimit(t.Context(), g, Limits{MemoryBytes: 1 << 16}); !errors.As(err, &refused) || refused.Step != StepInstantiate {
		t.Errorf("error = %v", err)
	}
	if _, err := s.Relimit(t.Context(), g, Limits{Deadline: -1}); err == nil {
		t.Error("a deadline in the past is accepted")
	}
	reconcile(t, g, Call{})
}
