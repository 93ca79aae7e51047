package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/memory"
)

func TestMemoryGrowsToThePluginsLimit(t *testing.T) {
	s := newSandbox(t, Config{})
	g := load(t, s, Plugin{Name: "fits", Wasm: growingBy("fits", 14), Limits: Limits{MemoryBytes: 1 << 20}})
	if out := reconcile(t, g, Call{}); out.Usage.MemoryBytes != 1<<20 {
		t.Errorf("memory of %d bytes", out.Usage.MemoryBytes)
	}
	g = load(t, s, Plugin{Name: "more", Wasm: growingBy("more", 15), Limits: Limits{MemoryBytes: 1 << 20}})
	_, err := g.Reconcile(t.Context(), Call{})
	wantFault(t, err, abi.ClassOutOfMemory, "trap: unreachable: memory of 1.1 MiB is more than the plugin's limit of 1 MiB")
}

// TestMemoryIsReleased after traps, growths, refused modules and the end of all
// plugins: nothing is counted, and nothing is mapped.
func TestMemoryIsReleased(t *testing.T) {
	before := mapped(t)
	s := newSandbox(t, Config{})
	for _, c := range []struct {
		name   string
		faults bool
	}{{"trap", true}, {"reset-grown-memory", false}, {"reset-table", false}, {"correct", false}} {
		g := loadCase(t, s, c.name, Limits{Instances: 2})
		for range 300 {
			if _, err := g.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}}); (err != nil) != c.faults {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if used := s.Memory().UsedBytes; used > 4<<20 {
			t.Errorf("%s: %d bytes are in use", c.name, used)
		}
		if more := mapped(t) - before; more > 100 {
			t.Errorf("%s: %d more mappings than before", c.name, more)
		}
		closeGuest(t, g)
		if used := s.Memory().UsedBytes; used != 0 {
			t.Errorf("%s: %d bytes are left", c.name, used)
		}
	}
	for _, name := range []string{"start-traps", "describe-traps"} {
		_, _ = s.Load(t.Context(), Plugin{Name: name, Wasm: kitCase(t, name).Wasm()})
	}
	if used := s.Memory().UsedBytes; used != 0 {
		t.Errorf("%d bytes are left of modules that were refused", used)
	}
	kept := mapped(t)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if freed := kept - mapped(t); freed <= 0 && kept > 0 {
		t.Errorf("%d mappings fewer after Close: unused address space is kept", freed)
	}
}

// TestThousandInstancesFitIntoTheAddressSpace uses 64 GiB of address space.
func TestThousandInstancesFitIntoTheAddressSpace(t *testing.T) {
	g := loadCase(t, newSandbox(t, Config{MemoryBytes: 1 << 30}), "reset-memory", Limits{Instances: 1000})
	instances := make([]*instance, 1000)
	for i := range instances {
		in, err := g.pool.acquire(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if instances[i], err = g.instanceFor(t.Context(), in, ""); err != nil {
			t.Fatalf("instance %d: %v", i, err)
		}
	}
	for i, in := range instances {
		if _, _, err := g.run(t.Context(), in, abi.ExportReconcile, Call{Request: [][]byte{tck.Request()}}); err != nil {
			t.Fatalf("instance %d: %v", i, err)
		}
		in.restore()
		g.pool.release(t.Context(), in)
	}
	if s := g.Stats(); s.Idle != 1000 {
		t.Errorf("stats = %+v", s)
	}
}

// TestMemoryBombFailsAlone: a plugin that takes all the memory of the host's budget
// fails with the limit in its message, and others run.
func TestMemoryBombFailsAlone(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 8 << 20})
	neighbour := loadCase(t, s, "reset-memory", Limits{})
	bomb := loadCase(t, s, "memory-bomb", Limits{Instances: 1})
	for range 3 {
		out, err := bomb.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}})
		f := wantFault(t, err, abi.ClassOutOfMemory, "the host's memory for plugins is used up")
		if !strings.Contains(f.Message, " of 8 MiB are in use") || !strings.Contains(f.Message, "guestMemoryMiB") {
			t.Errorf("message = %s", f.Message)
		}
		if out.Usage.MemoryBytes < 6<<20 || f.HostCaused() || !errors.Is(err, ErrHostMemory) {
			t.Errorf("with %d bytes: host caused = %v, error = %v", out.Usage.MemoryBytes, f.HostCaused(), err)
		}
		reconcile(t, neighbour, Call{Request: [][]byte{tck.Request()}})
	}
	m := s.Memory()
	if m.Refused < 3 || m.LimitBytes != 8<<20 || m.UsedBytes > 1<<20 {
		t.Errorf("stats = %+v", m)
	}
}

// TestPluginWithMostMemoryLeavesEnoughForOthers while its call runs, also if they
// need a new instance.
func TestPluginWithMostMemoryLeavesEnoughForOthers(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 4 << 20})
	neighbour := loadCase(t, s, "reset-memory", Limits{})
	neighbour.closeIdle(t.Context(), time.Time{})
	greedy := load(t, s, Plugin{Name: "greedy", Limits: Limits{Instances: 1}, Wasm: takingAllMemory("greedy")})
	gate := newGate()
	ended := make(chan error, 1)
	go func() {
		_, err := greedy.Reconcile(t.Context(), Call{Host: gate.host()})
		ended <- err
	}()
	<-gate.arrived
	if m := s.Memory(); m.Refused != 1 || m.UsedBytes < m.LimitBytes*3/4 {
		t.Fatalf("stats = %+v, want most of the budget used", m)
	}
	reconcile(t, neighbour, Call{Request: [][]byte{tck.Request()}})
	close(gate.open)
	if err := <-ended; err != nil {
		t.Errorf("the call with most memory, which does not need more: %v", err)
	}
}

// TestMissingMemoryWithinAnEvenShareIsHostCaused, where nothing gives it back in time;
// a call that gets no instance is no fault at all.
func TestMissingMemoryWithinAnEvenShareIsHostCaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSandbox(t, Config{MemoryBytes: 4 << 20})
		others := reserveAllBut(t, s, testImageBytes+testInstanceBytes+testImageBytes)
		load(t, s, Plugin{Name: "another", Wasm: succeeding("another")}).closeIdle(t.Context(), time.Time{})
		g := load(t, s, Plugin{Name: "growing", Wasm: growingBy("growing", 1)})
		_, err := g.Reconcile(t.Context(), Call{})
		f := wantFault(t, err, abi.ClassOutOfMemory, "0.1 MiB of them by this plugin, and 0.1 MiB more are needed")
		if !f.HostCaused() || !errors.Is(err, ErrHostMemory) {
			t.Errorf("host caused = %v, error = %v", f.HostCaused(), err)
		}
		last := s.memory.Account() // the failed instance was dropped
		if err := last.Reserve(1, nil); err != nil {
			t.Fatal(err)
		}
		_, err = g.Reconcile(t.Context(), Call{})
		if _, fault := errors.AsType[*Fault](err); !errors.Is(err, ErrHostMemory) || fault {
			t.Errorf("a call that gets no instance = %v", err)
		}
		others.Release(1 << 20)
		reconcile(t, g, Call{})
	})
}

// reserveAllBut reserves memory such that only left is free. The account that it
// opens also makes even shares smaller.
func reserveAllBut(t *testing.T, s *Sandbox, left uint64) *memory.Account {
	t.Helper()
	others := s.memory.Account()
	if err := others.Reserve(s.Memory().LimitBytes-left, nil); err != nil {
		t.Fatal(err)
	}
	return others
}

// TestLongestIdleInstanceIsDroppedFirst for one that needs memory.
func TestLongestIdleInstanceIsDroppedFirst(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 4*(testInstanceBytes+testImageBytes) - 1})
	guests := make([]*Guest, 3)
	for i, name := range []string{"first", "second", "third"} {
		guests[i] = load(t, s, Plugin{Name: name, Wasm: succeeding(name), Limits: Limits{Instances: 1}})
	}
	reconcile(t, guests[0], Call{}) // the second is idle longest now
	fourth := load(t, s, Plugin{Name: "fourth", Wasm: succeeding("fourth"), Limits: Limits{Instances: 1}})
	for i, want := range []int{1, 0, 1} {
		if s := guests[i].Stats(); s.Idle != want {
			t.Errorf("%s has %d idle instances, want %d", guests[i].name, s.Idle, want)
		}
	}
	for _, g := range guests {
		reconcile(t, g, Call{})
	}
	reconcile(t, fourth, Call{})
	if m := s.Memory(); m.Refused != 0 {
		t.Errorf("stats = %+v", m)
	}
}

func TestLoadWithoutMemoryIsErrHostMemory(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: testInstanceBytes - 1})
	_, err := s.Load(t.Context(), Plugin{Name: "correct", Wasm: succeeding("correct")})
	wantStep(t, err, StepInstantiate, abi.ClassABI)
	if !errors.Is(err, ErrHostMemory) {
		t.Errorf("instance without memory: %v", err)
	}
	s = newSandbox(t, Config{MemoryBytes: testInstanceBytes + testImageBytes - 1})
	_, err = s.Load(t.Context(), Plugin{Name: "correct", Wasm: succeeding("correct")})
	if !errors.Is(err, ErrHostMemory) {
		t.Errorf("image without memory: %v", err)
	}
	if m := s.Memory(); m.UsedBytes != 0 || m.Refused != 1 {
		t.Errorf("stats = %+v", m)
	}
}

// TestImageCountsAsMemoryOfItsGuest until the guest is closed.
func TestImageCountsAsMemoryOfItsGuest(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 1 << 20})
	reserveAllBut(t, s, testInstanceBytes+testImageBytes)
	others := s.Memory().UsedBytes
	g := load(t, s, Plugin{Name: "imaged", Wasm: succeeding("imaged")})
	g.closeIdle(t.Context(), time.Time{})
	if used := s.Memory().UsedBytes - others; used != testImageBytes {
		t.Errorf("%d bytes in use, want the %d of the image", used, testImageBytes)
	}
	closeGuest(t, g)
	if used := s.Memory().UsedBytes - others; used != 0 {
		t.Errorf("%d bytes are in use, want none of the guest's", used)
	}
}

// TestPrewarmingDropsNoOtherInstance: an instance that no call waits for is made
// only if its memory is free.
func TestPrewarmingDropsNoOtherInstance(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 4 << 20})
	reserveAllBut(t, s, 2*(testInstanceBytes+testImageBytes))
	neighbour := load(t, s, Plugin{Name: "neighbour", Wasm: succeeding("neighbour")})
	g := load(t, s, Plugin{Name: "prewarmed", Wasm: succeeding("prewarmed"), Limits: Limits{Instances: 1}})
	g.closeIdle(t.Context(), time.Time{})
	last := s.memory.Account()
	if err := last.Reserve(1, nil); err != nil {
		t.Fatal(err)
	}
	g.prewarmOne()
	if s := g.Stats(); s.Idle != 0 {
		t.Errorf("without free memory: %d idle instances", s.Idle)
	}
	last.Release(1)
	g.prewarmOne()
	if s := g.Stats(); s.Idle != 1 {
		t.Errorf("with free memory: %d idle instances", s.Idle)
	}
	if s := neighbour.Stats(); s.Idle != 1 {
		t.Errorf("the neighbour has %d idle instances, want the one that it had", s.Idle)
	}
}

// TestTablesCountAsMemoryOfTheirGuest, as large as they can grow, and what else the
// engine allocates for an instance.
func TestTablesCountAsMemoryOfTheirGuest(t *testing.T) {
	references := func(tg *testGuest, n int) []byte {
		var code []byte
		for range n {
			f := tg.Func(noTypes, noTypes, nil)
			tg.Declare(f)
			code = append(append(code, tck.RefFunc(f)...), tck.Drop...)
		}
		return code
	}
	for name, build := range map[string]func(tg *testGuest) []byte{
		"tables": func(tg *testGuest) []byte {
			for range 16 {
				tg.Table(100_000)
			}
			return nil
		},
		"tables-that-grow": func(tg *testGuest) []byte {
			tg.TableUpTo(0, 10_000)
			return slices.Concat(tck.NullFunc, tck.I32Const(10_000), tck.TableGrow, tck.Drop)
		},
		"elements": func(tg *testGuest) []byte {
			tg.Table(50_000)
			own := slices.Repeat([]tck.Func{tg.Func(noTypes, noTypes, nil)}, 50_000)
			tg.Elements(0, own...)
			tg.PassiveElements(own...)
			return nil
		},
		"globals": func(tg *testGuest) []byte {
			for range 9_000 {
				tg.Global(0)
			}
			return nil
		},
		"references": func(tg *testGuest) []byte { return references(tg, 5_000) },
		"segments": func(tg *testGuest) []byte {
			for range 90_000 {
				tg.Passive([]byte("a"))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			tg := newTestGuest(name)
			body := build(tg)
			s := newSandbox(t, Config{})
			g := load(t, s, Plugin{Name: name, Wasm: tg.build(nil, body, tg.ok())})
			g.closeIdle(t.Context(), time.Time{})
			const n = 8
			counted, allocated := s.Memory().UsedBytes, heap()
			var all []*instance
			for range n {
				in, err := g.newInstance(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := g.run(t.Context(), in, abi.ExportReconcile, Call{}); err != nil {
					t.Fatal(err)
				}
				all = append(all, in)
			}
			counted, allocated = (s.Memory().UsedBytes-counted)/n-testInstanceBytes, (heap()-allocated)/n
			if allocated < pageBytes || counted < allocated*3/5 || counted > allocated*3/2 {
				t.Errorf("an instance counts with %d bytes besides its memory, and takes %d", counted, allocated)
			}
			for _, in := range all {
				in.close(t.Context())
			}
			closeGuest(t, g)
			if used := s.Memory().UsedBytes; used != 0 {
				t.Errorf("%d bytes are left", used)
			}
		})
	}
}

// heap returns what is in use of the process's heap, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestEvenShareIsAlwaysToBeHad: a plugin that needs less memory than an even share
// succeeds each time beside plugins that take all there is and keep it, or need it
// again and again; those fail by their own doing, and run again when they are alone.
func TestEvenShareIsAlwaysToBeHad(t *testing.T) {
	if testing.Short() && !raceDetector {
		t.Skip("takes long")
	}
	for _, c := range []struct {
		hogs, instances, slots int
		host                   HostCalls // that a hog with all its memory calls
		share                  int32     // pages of the modest plugin's instance
	}{
		{hogs: 2, instances: 1, slots: 2, share: 80},
		{hogs: 2, instances: 4, slots: 4, share: 80},
		{hogs: 3, instances: 2, slots: 1, share: 60},
		{hogs: 7, instances: 1, slots: 2, share: 30},
		{hogs: 3, instances: 2, slots: 2, share: 60, host: hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
			<-ctx.Done() // as a request that takes long
			return nil, 0
		})},
	} {
		t.Run(fmt.Sprintf("%d hogs of %d instances in %d slots", c.hogs, c.instances, c.slots), func(t *testing.T) {
			s := newSandbox(t, Config{MemoryBytes: 16 << 20, Slots: c.slots})
			modest := load(t, s, Plugin{Name: "modest", Wasm: growingBy("modest", c.share-2), Limits: Limits{Instances: 1}})
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for i := range c.hogs {
				name := fmt.Sprintf("hog-%d", i)
				hog := load(t, s, Plugin{Name: name, Wasm: takingAllMemory(name), Limits: Limits{Instances: c.instances}})
				for range c.instances {
					all.Go(func() {
						for ctx.Err() == nil {
							_, err := hog.Reconcile(ctx, Call{Host: c.host})
							if f, ok := errors.AsType[*Fault](err); ok && (f.Class != abi.ClassOutOfMemory || f.HostCaused()) {
								t.Errorf("a hog fails with %v, host caused: %t", f, f.HostCaused())
							}
						}
					})
				}
			}
			for range 30 {
				out := reconcile(t, modest, Call{})
				if out.Usage.MemoryBytes != uint64(c.share)*pageBytes {
					t.Errorf("a call with %d bytes", out.Usage.MemoryBytes)
				}
				modest.closeIdle(t.Context(), time.Time{}) // the next call needs all of it again
			}
			stop()
			all.Wait()
			if s.Memory().UsedBytes > s.Memory().LimitBytes {
				t.Errorf("stats = %+v", s.Memory())
			}
		})
	}
}
