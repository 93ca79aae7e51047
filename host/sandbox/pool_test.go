package sandbox

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestDroppedInstanceIsPrewarmedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := load(t, newSandbox(t, Config{}), Plugin{Name: "trapping", Wasm: trappingOnOneByte("trapping")})
		reconcile(t, g, Call{})
		for round, want := range []int{1, 0, 0} { // only the call before the first trap ended well
			if _, err := g.Reconcile(t.Context(), Call{Request: [][]byte{[]byte("x")}}); err == nil {
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

func TestFreshInstanceIsPrewarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := loadCase(t, newSandbox(t, Config{}), "reset-table", Limits{})
		for range 3 {
			reconcile(t, g, Call{Request: [][]byte{tck.Request()}, Now: callTime})
			synctest.Wait()
			if s := g.Stats(); g.mode != modeFresh || s.Idle != 1 {
				t.Errorf("stats = %+v, want one idle", s)
			}
		}
	})
}

func TestPrewarmedInstancesAreBounded(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "trapping", Wasm: trappingOnOneByte("trapping"), Limits: Limits{Instances: 2}})
	for range 4 {
		g.prewarmOne()
	}
	if s := g.Stats(); s.Idle != 2 {
		t.Errorf("stats = %+v, want 2 idle", s)
	}
}

// Long enough for each step of scaling to zero, whenever the idle reaper runs.
const (
	untilInstancesAreClosed = idleInstances * (reapsPerPeriod + 2) / reapsPerPeriod
	untilCodeIsUnloaded     = untilInstancesAreClosed + idleCode + idleInstances/2
)

// loadAndUnload loads a plugin and waits until its code is unloaded.
func loadAndUnload(t *testing.T, s *Sandbox, p Plugin) *Guest {
	t.Helper()
	g := load(t, s, p)
	reconcile(t, g, Call{})
	time.Sleep(untilCodeIsUnloaded) // fake time
	if st := g.Stats(); st.Compiled || st.Idle != 0 {
		t.Fatalf("stats = %+v, want neither code nor instances", st)
	}
	return g
}

func TestIdlePluginScalesToZero(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		g := load(t, s, withSource("idle", needingInitialize("idle")))
		for reloads := range uint64(3) {
			if out := reconcile(t, g, Call{}); string(out.Output) != resultText {
				t.Errorf("output = %s", out.Output)
			}
			if st := g.Stats(); st.Idle != 1 || !st.Compiled || st.Reloads != reloads {
				t.Errorf("after a call: stats = %+v", st)
			}
			time.Sleep(untilInstancesAreClosed) // fake time
			if st := g.Stats(); st.Idle != 0 || st.IdleBytes != 0 || !st.Compiled {
				t.Errorf("after a minute: stats = %+v, want code and no instance", st)
			}
			time.Sleep(untilCodeIsUnloaded - untilInstancesAreClosed) // fake time
			if st := g.Stats(); st.Idle != 0 || st.Compiled {
				t.Errorf("after minutes: stats = %+v, want neither", st)
			}
		}
	})
}

func TestPluginThatIsCalledKeepsItsInstance(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		g := load(t, s, withSource("idle", needingInitialize("idle")))
		for range 100 {
			time.Sleep(idleInstances / 2) // fake time
			reconcile(t, g, Call{})
		}
		if st := g.Stats(); st.Created != 1 || st.Reloads != 0 {
			t.Errorf("stats = %+v, want one instance for all calls", st)
		}
	})
}

func TestCallInFlightKeepsTheCodeLoaded(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		p := withSource("calling", callingGet("calling", 1))
		p.Limits.Deadline = 24 * time.Hour
		g := load(t, s, p)
		gate := newGate()
		ended := make(chan error)
		go func() {
			_, err := g.Reconcile(t.Context(), Call{Host: gate.host()})
			ended <- err
		}()
		<-gate.arrived
		time.Sleep(2 * untilCodeIsUnloaded) // fake time
		if st := g.Stats(); !st.Compiled || st.Busy != 1 {
			t.Errorf("stats = %+v", st)
		}
		close(gate.open)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestCodeThatCannotBeReloadedIsKept: without a cache on disk or without a source
// only instances are closed.
func TestCodeThatCannotBeReloadedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		binary := needingInitialize("idle")
		for _, c := range []struct {
			dir    string
			plugin Plugin
		}{
			{"", withSource("idle", binary)},
			{filepath.Join(t.TempDir(), "cache"), Plugin{Name: "idle", Wasm: binary}},
		} {
			g := load(t, newSandbox(t, Config{CacheDir: c.dir}), c.plugin)
			time.Sleep(2 * untilCodeIsUnloaded) // fake time
			if st := g.Stats(); !st.Compiled || st.Idle != 0 {
				t.Errorf("dir %q: stats = %+v, want code and no instance", c.dir, st)
			}
			reconcile(t, g, Call{})
		}
	})
}

// loadAndUnloadSlow is loadAndUnload for a plugin whose reload waits until open is
// closed: its cached code is damaged, and reading the file waits.
func loadAndUnloadSlow(t *testing.T, s *Sandbox, p Plugin) (g *Guest, begun, open chan struct{}) {
	t.Helper()
	begun, open = make(chan struct{}), make(chan struct{})
	source := p.Source
	p.Source = func() ([]byte, error) {
		close(begun)
		<-open
		return source()
	}
	g = loadAndUnload(t, s, p)
	truncateEntries(t, s.config.CacheDir)
	return g, begun, open
}

func TestCallsWaitForOneReload(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		p := withSource("idle", needingInitialize("idle"))
		p.Limits.Instances = 8
		g, _, open := loadAndUnloadSlow(t, s, p)
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if _, err := g.Reconcile(t.Context(), Call{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(open)
		calls.Wait()
		if st := g.Stats(); st.Reloads != 1 || st.Calls != 9 {
			t.Errorf("stats = %+v, want 8 more calls after one reload", st)
		}
	})
}

func TestContextEndsTheWaitForCode(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		g, begun, open := loadAndUnloadSlow(t, s, withSource("idle", needingInitialize("idle")))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := g.Reconcile(ctx, Call{})
			ended <- err
		}()
		<-begun
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "wait for its code") {
			t.Errorf("error = %v", err)
		}
		close(open)
		reconcile(t, g, Call{})
		if st := g.Stats(); st.Reloads != 1 {
			t.Errorf("stats = %+v, want the reload that was begun", st)
		}
	})
}

func TestCloseWaitsForAReload(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		g, begun, open := loadAndUnloadSlow(t, s, withSource("idle", needingInitialize("idle")))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun
			cancel()
		}()
		if _, err := g.Reconcile(ctx, Call{}); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v", err)
		}
		closed := make(chan error)
		go func() { closed <- g.Close(t.Context()) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while its code was being reloaded")
		default:
		}
		close(open)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if st := g.Stats(); st.Compiled {
			t.Errorf("stats = %+v, want the code freed", st)
		}
	})
}

// TestReloadAfterTheCacheWasDeleted succeeds because the entry is still open.
func TestReloadAfterTheCacheWasDeleted(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		p := withSource("idle", needingInitialize("idle"))
		p.Source = func() ([]byte, error) { return nil, errors.New("the source must not be read") }
		g := loadAndUnload(t, s, p)
		if err := os.RemoveAll(s.config.CacheDir); err != nil {
			t.Fatal(err)
		}
		reconcile(t, g, Call{})
		time.Sleep(untilCodeIsUnloaded) // fake time
		reconcile(t, g, Call{})
		if st := g.Stats(); st.Reloads != 2 {
			t.Errorf("stats = %+v", st)
		}
	})
}

func TestReloadFromDamagedCacheCompilesAgain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		g := loadAndUnload(t, s, withSource("idle", needingInitialize("idle")))
		truncateEntries(t, s.config.CacheDir)
		reconcile(t, g, Call{})
		if n, _, err := s.store.Find(t.Context(), g.cacheKey()); err != nil {
			t.Errorf("the entry was not written anew: %v", err)
		} else {
			n.Close(t.Context())
		}
		time.Sleep(untilCodeIsUnloaded) // fake time
		reconcile(t, g, Call{})
		if st := g.Stats(); st.Reloads != 2 {
			t.Errorf("stats = %+v", st)
		}
	})
}

// TestFailedReloadIsNoFaultAndTriedAgain: the cached code is damaged, and the file
// is another one for a while.
func TestFailedReloadIsNoFaultAndTriedAgain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		binary := needingInitialize("idle")
		p := Plugin{Name: "idle", Wasm: binary}
		var file []byte
		var missing error
		p.Source = func() ([]byte, error) { return file, missing }
		g := loadAndUnload(t, s, p)
		truncateEntries(t, s.config.CacheDir)
		missing = errors.New("no such file")
		for _, want := range []string{"no such file", "the file has changed since"} {
			_, err := g.Reconcile(t.Context(), Call{})
			if _, fault := errors.AsType[*Fault](err); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), hex.EncodeToString(g.digest[:])) || fault {
				t.Errorf("error = %v, want %q, the digest and no fault", err, want)
			}
			missing, file = nil, []byte("another")
		}
		file = binary
		reconcile(t, g, Call{})
	})
}

// TestReloadOnFullDisk compiles into a temporary file, or in memory if there is no
// place for that either.
func TestReloadOnFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		temporary string
		inMemory  bool
	}{
		"cache":           {t.TempDir(), false},
		"temporary files": {filepath.Join(t.TempDir(), "missing"), true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", c.temporary)
			synctest.Test(t, func(t *testing.T) {
				logs := logtest.New(hclog.Info)
				s := newSandbox(t, Config{CacheDir: filepath.Join(dir, "cache"), Logger: logs.Logger})
				g := loadAndUnload(t, s, withSource("idle", needingInitialize("idle")))
				truncateEntries(t, s.config.CacheDir)
				if err := os.RemoveAll(s.config.CacheDir); err != nil { // nothing can be written, as on a full disk
					t.Fatal(err)
				}
				reconcile(t, g, Call{})
				logs.ExpectNext(t, hclog.Warn, "plugin", "idle") // the entry is damaged
				logs.ExpectNext(t, hclog.Warn, "dir", s.config.CacheDir)
				if c.inMemory {
					logs.ExpectNext(t, hclog.Warn, "error", &fs.PathError{Op: "stat", Path: c.temporary, Err: syscall.ENOENT})
				}
				logs.ExpectNone(t)
				time.Sleep(untilCodeIsUnloaded) // fake time
				if st := g.Stats(); st.Compiled != c.inMemory || st.Idle != 0 {
					t.Errorf("stats = %+v, want no instance and code: %t", st, c.inMemory)
				}
				reconcile(t, g, Call{})
			})
			if left, _ := os.ReadDir(c.temporary); len(left) != 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}
