package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/tck"
)

const (
	// mostGrowth bounds what a hostile guest may make the process grow by.
	mostGrowth = 64 << 20
	// stacksGrowth does so for guests that nest calls. The engine copies a
	// stack that is too small into one of twice its size, and what it leaves
	// is garbage.
	stacksGrowth = 8 * mostStack
)

// TestBombsAreRefusedBeforeTheyCost loads every guest that must be refused
// before any of its code runs.
func TestBombsAreRefusedBeforeTheyCost(t *testing.T) {
	s := newSandbox(t, Config{})
	for _, c := range tck.Hostile() {
		if c.Step != tck.StepCheck {
			continue
		}
		wasm := c.Wasm()
		began := time.Now()
		grown := peakGrowth(t, func() {
			var refused *LoadError
			if _, err := s.Load(t.Context(), Plugin{Name: c.Name, Wasm: wasm}); !errors.As(err, &refused) {
				t.Errorf("%s: error = %v, want a load error", c.Name, err)
			}
		})
		t.Logf("%s: %d bytes, refused in %s with %d KiB", c.Name, len(wasm), time.Since(began), grown>>10)
		if grown > mostGrowth {
			t.Errorf("%s: the process grew by %d MiB", c.Name, grown>>20)
		}
	}
}

// TestStormsStayInTheirMemory calls guests that end each call in the same bad
// way, as often as a broken controller with many objects would.
func TestStormsStayInTheirMemory(t *testing.T) {
	for name, storm := range map[string]struct {
		calls int
		most  int64 // growth of the process
	}{
		"trap":                  {100_000, mostGrowth},
		"exit":                  {10_000, mostGrowth},
		"long-names":            {1_000, mostGrowth},
		"trap-after-output":     {1_000, mostGrowth},
		"memory-bomb-touched":   {20, mostGrowth},
		"table-bomb":            {100, mostGrowth},
		"deep-trap":             {20, stacksGrowth},
		"deep-recursion":        {4, stacksGrowth},
		"deep-recursion-frames": {4, stacksGrowth},
	} {
		t.Run(name, func(t *testing.T) {
			calls := storm.calls
			if testing.Short() || raceDetector {
				calls = min(calls, 1_000)
			}
			g := loadCase(t, newSandbox(t, Config{}), name, Limits{MemoryBytes: 16 << 20, Instances: 1})
			fail := func(calls int) {
				for range calls {
					if _, err := g.Reconcile(t.Context(), Call{Request: tck.Request()}); err == nil {
						t.Fatal("the call succeeded")
					}
				}
			}
			fail(min(100, calls)) // what one call needs at once is not growth
			began := time.Now()
			grown := peakGrowth(t, func() { fail(calls) })
			t.Logf("%d calls in %s, the process grew by %d KiB", calls, time.Since(began), grown>>10)
			if grown > storm.most {
				t.Errorf("the process grew by %d MiB, the limit is %d", grown>>20, storm.most>>20)
			}
		})
	}
}

// peakGrowth is by how many bytes resident memory was at most larger while do
// ran than it was before.
func peakGrowth(t *testing.T, do func()) int64 {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil { // the peak begins anew
		t.Skip("the peak of resident memory cannot be measured here:", err)
	}
	before := residentBytes(t, "VmRSS")
	do()
	return residentBytes(t, "VmHWM") - before
}

// residentBytes reads a line of the process's status, which is in KiB.
func residentBytes(t *testing.T, field string) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if value, ok := strings.CutPrefix(string(line), field+":"); ok {
			var kib int64
			if _, err := fmt.Sscan(value, &kib); err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("the process's status has no %s", field)
	return 0
}
