package sandbox

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/deadline"
)

// spinning is a guest that does not come out of _initialize.
func spinning(name string) []byte {
	h := newHand(name)
	h.Export(abi.ExportInitialize, h.Func(none, none, nil, tck.Loop, tck.Branch(0), tck.End))
	return h.wasm(nil, h.ok())
}

// TestSlowLoadIsNotTriedAgain: until its file or its limits change.
func TestSlowLoadIsNotTriedAgain(t *testing.T) {
	s := newSandbox(t, Config{})
	wasm := spinning("spinning")
	reads := 0
	p := Plugin{
		Name: "spinning", Digest: fmt.Sprintf("%x", sha256.Sum256(wasm)), Limits: Limits{Deadline: soon},
		Source: func() ([]byte, error) { reads++; return wasm, nil },
	}
	for range 3 {
		_, err := s.Load(t.Context(), p)
		wantStep(t, err, StepInitialize, abi.ClassTimeout)
		if !strings.Contains(err.Error(), notAgain) || !strings.Contains(err.Error(), "deadline") {
			t.Errorf("error = %v, want the reason and %q", err, notAgain)
		}
	}
	if n := s.Memory().Shares; reads != 1 || n != 0 {
		t.Errorf("tried %d times, %d are left that share the memory", reads, n)
	}
	p.Limits.Deadline = time.Second // enough for a sound guest on a busy machine
	if _, err := s.Load(t.Context(), p); err == nil || reads != 2 {
		t.Errorf("with other limits: error = %v after %d tries", err, reads)
	}
	load(t, s, Plugin{Name: "spinning", Wasm: asking("spinning", 1), Limits: p.Limits})
}

// late is a plugin whose load has taken too long when it is to be compiled, in
// fake time.
func late(name string) Plugin {
	wasm := asking(name, 1)
	return Plugin{Name: name, Digest: fmt.Sprintf("%x", sha256.Sum256(wasm)), Source: func() ([]byte, error) {
		time.Sleep(2 * defaultLoadTimeout) // fake time
		return wasm, nil
	}}
}

func TestSlowCompilationIsNotTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		for range 2 {
			_, err := s.Load(t.Context(), late("asking"))
			wantStep(t, err, StepCompile, abi.ClassABI)
			if !strings.Contains(err.Error(), notAgain) {
				t.Errorf("error = %v", err)
			}
		}
		if n := len(s.slow.order); n != 1 {
			t.Errorf("%d are remembered", n)
		}
	})
}

// TestOtherFailuresAreTriedAgain: only time is remembered, and only that of
// the module itself.
func TestOtherFailuresAreTriedAgain(t *testing.T) {
	s := newSandbox(t, Config{})
	for range 2 {
		_, err := s.Load(t.Context(), Plugin{Name: "describe-traps", Wasm: caseWasm("describe-traps")})
		if err == nil || strings.Contains(err.Error(), notAgain) {
			t.Errorf("error = %v", err)
		}
	}
	if len(s.slow.loads) != 0 {
		t.Error("a trap is remembered")
	}
}

func TestFewSlowLoadsAreRemembered(t *testing.T) {
	var s slow
	slowest := &LoadError{Step: StepCompile, Err: deadline.ErrPassed}
	guest := func(n int) *Guest { return &Guest{digest: fmt.Sprint(n)} }
	for n := range 3 * mostSlow {
		for range 2 {
			if err := s.note(guest(n), slowest); !errors.Is(err, deadline.ErrPassed) {
				t.Fatal(err)
			}
		}
	}
	if len(s.loads) != mostSlow || len(s.order) != mostSlow {
		t.Errorf("%d and %d are remembered", len(s.loads), len(s.order))
	}
	if s.refuse(guest(3*mostSlow-1)) == nil || s.refuse(guest(0)) != nil {
		t.Error("not the latest are remembered")
	}
}
