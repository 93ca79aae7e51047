package sandbox

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
)

// TestAdviceCompletesTexts that do not contain what to do.
func TestAdviceCompletesTexts(t *testing.T) {
	s := newSandbox(t, Config{})
	for name, want := range map[string]string{
		"not-wasm":               "build the plugin with the SDK",
		"empty-file":             "copy or build the file again",
		"truncated":              "copy or build the file again",
		"missing-export":         "",
		"unknown-import":         "",
		"describe-traps":         "run its tests",
		"manifest-unknown-field": "correct what the plugin registers",
		"manifest-other-name":    "",
	} {
		_, err := s.Load(t.Context(), Plugin{Name: name, Wasm: kitCase(t, name).Wasm()})
		refused, ok := errors.AsType[*LoadError](err)
		if !ok || !strings.Contains(refused.Advice(), want) || (want == "") != (refused.Advice() == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSlowLoadIsNotTriedAgain until the file or the limits change.
func TestSlowLoadIsNotTriedAgain(t *testing.T) {
	s := newSandbox(t, Config{})
	wasm := loopingInInitialize("looping")
	reads := 0
	p := Plugin{
		Name: "looping", Digest: fmt.Sprintf("%x", sha256.Sum256(wasm)), Limits: Limits{Deadline: soon},
		Source: func() ([]byte, error) { reads++; return wasm, nil },
	}
	for range 3 {
		_, err := s.Load(t.Context(), p)
		wantStep(t, err, StepInitialize, abi.ClassTimeout)
		if !strings.Contains(err.Error(), notTriedAgain) || !strings.Contains(err.Error(), "deadline") {
			t.Errorf("error = %v, want the reason and %q", err, notTriedAgain)
		}
	}
	if n := s.Memory().Accounts; reads != 1 || n != 0 {
		t.Errorf("tried %d times, %d memory accounts are left open", reads, n)
	}
	p.Limits.Deadline = time.Second // enough for a correct guest on a busy machine
	if _, err := s.Load(t.Context(), p); err == nil || reads != 2 {
		t.Errorf("with other limits: error = %v after %d attempts", err, reads)
	}
	load(t, s, Plugin{Name: "looping", Wasm: callingGet("looping", 1), Limits: p.Limits})
}

// withSlowSource returns a plugin whose file takes longer to read than a load may
// take, in fake time.
func withSlowSource(name string) Plugin {
	wasm := callingGet(name, 1)
	return Plugin{Name: name, Digest: fmt.Sprintf("%x", sha256.Sum256(wasm)), Source: func() ([]byte, error) {
		time.Sleep(2 * defaultLoadTimeout) // fake time
		return wasm, nil
	}}
}

func TestSlowCompilationIsNotTriedAgain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		for range 2 {
			_, err := s.Load(t.Context(), withSlowSource("slow"))
			wantStep(t, err, StepCompile, abi.ClassABI)
			if !strings.Contains(err.Error(), notTriedAgain) {
				t.Errorf("error = %v", err)
			}
		}
		if n := s.failures.errors.Len(); n != 1 {
			t.Errorf("%d errors are kept", n)
		}
	})
}

// TestOtherFailuresAreTriedAgain: only errors of loads that took too long are
// kept.
func TestOtherFailuresAreTriedAgain(t *testing.T) {
	s := newSandbox(t, Config{})
	for range 2 {
		_, err := s.Load(t.Context(), Plugin{Name: "describe-traps", Wasm: kitCase(t, "describe-traps").Wasm()})
		if err == nil || strings.Contains(err.Error(), notTriedAgain) {
			t.Errorf("error = %v", err)
		}
	}
	if n := s.failures.errors.Len(); n != 0 {
		t.Errorf("%d errors are kept", n)
	}
}

func TestKeptLoadFailuresAreBounded(t *testing.T) {
	failures := newLoadFailureCache()
	tooSlow := &LoadError{Step: StepCompile, Err: deadline.ErrPassed}
	guest := func(n int) *Guest { return &Guest{digest: fmt.Sprint(n)} }
	for n := range 3 * maxLoadFailures {
		for range 2 {
			if err := failures.note(guest(n), tooSlow); !errors.Is(err, deadline.ErrPassed) {
				t.Fatal(err)
			}
		}
	}
	if n := failures.errors.Len(); n != maxLoadFailures {
		t.Errorf("%d errors are kept, want %d", n, maxLoadFailures)
	}
	if failures.check(guest(3*maxLoadFailures-1)) == nil || failures.check(guest(0)) != nil {
		t.Error("the kept errors are not the latest")
	}
}
