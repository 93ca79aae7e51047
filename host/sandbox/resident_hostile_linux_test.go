package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
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
	// one to the garbage collector: 1.5 to 4 MiB for each call.
	maxStackGrowth = 6 * maxStack
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

// largeModules are correct plugins of up to 15 MB that expand when they are read,
// rewritten or compiled, most of them to more than the host may have.
var largeModules = map[string]func(tg *testGuest){
	"data segments": func(tg *testGuest) {
		for range 90_000 {
			tg.Passive(make([]byte, 150))
		}
	},
	"elements": func(tg *testGuest) {
		tg.Table(1)
		f := tg.Func(noTypes, noTypes, nil)
		for range 90_000 {
			tg.Expressions(0, tck.RefFunc(f))
		}
	},
	"functions": func(tg *testGuest) {
		f := tg.Func(noTypes, noTypes, nil)
		for range 90_000 {
			tg.Func(noTypes, noTypes, nil, slices.Repeat(tck.Call(f), 40))
		}
	},
	"function names": func(tg *testGuest) {
		names := map[tck.Func]string{}
		for i := range 90_000 {
			names[tg.Func(noTypes, noTypes, nil)] = fmt.Sprintf("%0150d", i)
		}
		tg.Names(names)
	},
	"jumps": func(tg *testGuest) {
		table := append(tck.BranchTable(slices.Repeat([]uint32{0}, 8000)...), tck.End...)
		for range 900 {
			tg.Func(noTypes, noTypes, nil, tck.Block, tck.I32Const(0), table)
		}
	},
}

// TestLargeModulesExpandInTheCompiler and not in this process, whether the plugin
// loads in the end or not.
func TestLargeModulesExpandInTheCompiler(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles large modules")
	}
	const most = 128 << 20 // of which the compiler's input and the skeleton are 32
	for name, add := range largeModules {
		t.Run(name, func(t *testing.T) {
			config := compilerOf(t, "works")
			config.LoadTimeout = 10 * time.Second
			s := newSandbox(t, config)
			tg := newTestGuest("large")
			add(tg)
			wasm := tg.build(nil, tg.ok())
			began := time.Now()
			var err error
			grown := peakGrowth(t, func() {
				var g *Guest
				if g, err = s.Load(t.Context(), Plugin{Name: "large", Wasm: wasm}); err == nil {
					reconcile(t, g, Call{})
				}
			})
			t.Logf("%d KiB, loaded in %s with %d MiB: %v", len(wasm)>>10, time.Since(began), grown>>20, err)
			if grown > most && !raceDetector {
				t.Errorf("the process grew by %d MiB", grown>>20)
			}
		})
	}
}

// TestStormsOfFailingCallsKeepMemoryBounded makes as many failing calls as a
// controller with a bug and many objects does. The process must not grow with
// their number.
func TestStormsOfFailingCallsKeepMemoryBounded(t *testing.T) {
	if testing.Short() && !raceDetector {
		t.Skip("takes long")
	}
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
		"deep-trap":             {100, maxStackGrowth},
		"deep-recursion":        {20, maxStackGrowth},
		"deep-recursion-frames": {20, maxStackGrowth},
	} {
		t.Run(name, func(t *testing.T) {
			calls := storm.calls
			if testing.Short() || raceDetector {
				calls = min(calls, 1_000)
			}
			g := loadCase(t, newSandbox(t, Config{}), name, Limits{MemoryBytes: 16 << 20, Instances: 1})
			// How late the garbage collector begins depends on what the process holds
			// and on how busy the machine is, so it runs at known times.
			collect := max(1, calls/100)
			fail := func(calls int) {
				for i := range calls {
					if _, err := g.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}}); err == nil {
						t.Fatal("the call succeeded")
					}
					if i%collect == 0 {
						runtime.GC()
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
		_, err := g.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}})
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
