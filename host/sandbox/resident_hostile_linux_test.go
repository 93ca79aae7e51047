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

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

const (
	// maxGrowth bounds what a hostile guest may make the process grow by.
	maxGrowth = 64 << 20
	// maxStackGrowth is the same for guests that nest calls. The engine copies a
	// stack that is too small into one of twice its size, and leaves the old
	// one to the garbage collector.
	maxStackGrowth = 8 * maxStack
)

// TestBombsAreRefusedWithoutGrowth loads every guest that must be refused
// before any of its code runs.
func TestBombsAreRefusedWithoutGrowth(t *testing.T) {
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
		if grown > maxGrowth {
			t.Errorf("%s: the process grew by %d MiB", c.Name, grown>>20)
		}
	}
}

// TestStormsOfFailingCallsKeepMemoryBounded makes as many failing calls as a
// controller with a bug and many objects does. The process must not grow with
// their number.
func TestStormsOfFailingCallsKeepMemoryBounded(t *testing.T) {
	for name, storm := range map[string]struct {
		calls int
		most  int64 // growth of the process
	}{
		"trap":                  {100_000, maxGrowth},
		"exit":                  {10_000, maxGrowth},
		"long-names":            {1_000, maxGrowth},
		"trap-after-output":     {1_000, maxGrowth},
		"memory-bomb-touched":   {20, maxGrowth},
		"table-bomb":            {100, maxGrowth},
		"deep-trap":             {20, maxStackGrowth},
		"deep-recursion":        {4, maxStackGrowth},
		"deep-recursion-frames": {4, maxStackGrowth},
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
			fail(min(100, calls)) // the memory that one call needs is not counted
			began := time.Now()
			grown := peakGrowth(t, func() { fail(calls) })
			t.Logf("%d calls in %s, the process grew by %d KiB", calls, time.Since(began), grown>>10)
			if grown > storm.most {
				t.Errorf("the process grew by %d MiB, the limit is %d", grown>>20, storm.most>>20)
			}
		})
	}
}

// TestReferencesTakeNoMemory however many a call makes: the engine would allocate each
// anew, and free them with the instance.
func TestReferencesTakeNoMemory(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{}), "reference-storm", Limits{Deadline: 2 * time.Second})
	grown := peakGrowth(t, func() {
		_, err := g.Reconcile(t.Context(), Call{Request: tck.Request()})
		wantFault(t, err, abi.ClassTimeout, "")
	})
	if grown > maxGrowth {
		t.Errorf("the process grew by %d MiB, the limit is %d", grown>>20, maxGrowth>>20)
	}
}

// peakGrowth returns how much the peak of resident memory while do ran exceeds
// its size before, in bytes.
func peakGrowth(t *testing.T, do func()) int64 {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil { // resets VmHWM, the peak
		t.Skip("the peak of resident memory cannot be measured here:", err)
	}
	before := residentBytes(t, "VmRSS")
	do()
	return residentBytes(t, "VmHWM") - before
}

// residentBytes returns a field of /proc/self/status, which is in KiB, in bytes.
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
	t.Fatalf("/proc/self/status has no field %s", field)
	return 0
}
