package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// Long enough for each step of scaling to zero, whenever the sweeps are.
const (
	untilInstancesGo = defaultIdleInstances * (sweepsPerPeriod + 2) / sweepsPerPeriod
	untilCodeGoes    = untilInstancesGo + defaultIdleCode + defaultIdleInstances/2
)

// remembering is a guest whose reconcile traps unless _initialize has run.
func remembering(name string) []byte {
	h := newHand(name)
	h.Export(abi.ExportInitialize, h.Func(none, none, nil, tck.I32Const(scratch), tck.I32Const(5), tck.I32Store))
	return h.wasm(nil, tck.I32Const(scratch), tck.I32Load, tck.I32Const(5), tck.I32Ne, tck.If, tck.Unreachable, tck.End, h.ok())
}

// kept is a plugin whose file can be read at any time.
func kept(name string, wasm []byte) Plugin {
	return Plugin{Name: name, Wasm: wasm, Source: func() ([]byte, error) { return wasm, nil }}
}

// inBubble runs a test in fake time with a sandbox that has a cache on disk.
func inBubble(t *testing.T, run func(t *testing.T, s *Sandbox)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		run(t, newSandbox(t, Config{CacheDir: filepath.Join(t.TempDir(), "cache")}))
	})
}

// asleep loads a plugin and waits until its code is given up.
func asleep(t *testing.T, s *Sandbox, p Plugin) *Guest {
	t.Helper()
	g := load(t, s, p)
	reconcile(t, g, Call{})
	time.Sleep(untilCodeGoes) // fake time
	if st := g.Stats(); st.Compiled || st.Idle != 0 {
		t.Fatalf("stats = %+v, want neither code nor instances", st)
	}
	return g
}

func TestIdlePluginScalesToZero(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		g := load(t, s, kept("remembering", remembering("remembering")))
		for wakes := range uint64(3) {
			if out := reconcile(t, g, Call{}); string(out.Output) != resultText {
				t.Errorf("output = %s", out.Output)
			}
			if st := g.Stats(); st.Idle != 1 || !st.Compiled || st.Wakes != wakes {
				t.Errorf("after a call: stats = %+v", st)
			}
			time.Sleep(untilInstancesGo) // fake time
			if st := g.Stats(); st.Idle != 0 || st.IdleBytes != 0 || !st.Compiled {
				t.Errorf("after a minute: stats = %+v, want code and no instance", st)
			}
			time.Sleep(untilCodeGoes - untilInstancesGo) // fake time
			if st := g.Stats(); st.Idle != 0 || st.Compiled {
				t.Errorf("after minutes: stats = %+v, want neither", st)
			}
		}
	})
}

func TestPluginThatIsCalledStays(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		g := load(t, s, kept("remembering", remembering("remembering")))
		for range 100 {
			time.Sleep(defaultIdleInstances / 2) // fake time
			reconcile(t, g, Call{})
		}
		if st := g.Stats(); st.Created != 1 || st.Wakes != 0 {
			t.Errorf("stats = %+v, want one instance for all calls", st)
		}
	})
}

func TestCallInFlightKeepsCode(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		p := kept("asking", asking("asking", 1))
		p.Limits.Deadline = 24 * time.Hour
		g := load(t, s, p)
		gate := newGate()
		ended := make(chan error)
		go func() {
			_, err := g.Reconcile(t.Context(), Call{Host: gate.host()})
			ended <- err
		}()
		<-gate.arrived
		time.Sleep(2 * untilCodeGoes) // fake time
		if st := g.Stats(); !st.Compiled || st.Busy != 1 {
			t.Errorf("stats = %+v", st)
		}
		close(gate.open)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestCodeThatCannotComeBackStays: without a cache on disk, and without a
// source, only instances go.
func TestCodeThatCannotComeBackStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wasm := remembering("remembering")
		for _, c := range []struct {
			dir    string
			plugin Plugin
		}{
			{"", kept("remembering", wasm)},
			{filepath.Join(t.TempDir(), "cache"), Plugin{Name: "remembering", Wasm: wasm}},
		} {
			g := load(t, newSandbox(t, Config{CacheDir: c.dir}), c.plugin)
			time.Sleep(2 * untilCodeGoes) // fake time
			if st := g.Stats(); !st.Compiled || st.Idle != 0 {
				t.Errorf("dir %q: stats = %+v, want code and no instance", c.dir, st)
			}
			reconcile(t, g, Call{})
		}
	})
}

// held is asleep for a plugin whose wake waits until open is closed: nothing
// but its file is left, and reading that waits.
func held(t *testing.T, s *Sandbox, p Plugin) (g *Guest, begun, open chan struct{}) {
	t.Helper()
	begun, open = make(chan struct{}), make(chan struct{})
	source := p.Source
	p.Source = func() ([]byte, error) {
		close(begun)
		<-open
		return source()
	}
	g = asleep(t, s, p)
	damage(t, s)
	return g, begun, open
}

func TestCallsWaitForOneWake(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		p := kept("remembering", remembering("remembering"))
		p.Limits.Instances = 8
		g, _, open := held(t, s, p)
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
		if st := g.Stats(); st.Wakes != 1 || st.Calls != 9 {
			t.Errorf("stats = %+v, want 8 more calls after one wake", st)
		}
	})
}

func TestCallEndsWhileItWaitsForCode(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		g, begun, open := held(t, s, kept("remembering", remembering("remembering")))
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
		if st := g.Stats(); st.Wakes != 1 {
			t.Errorf("stats = %+v, want the wake that was begun", st)
		}
	})
}

func TestCloseWhileCodeIsBroughtBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		g, begun, open := held(t, s, kept("remembering", remembering("remembering")))
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
			t.Error("closed while its code was being brought back")
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

// TestWakeWithoutCache removes the whole cache while a plugin sleeps: its
// entry is still open.
func TestWakeWithoutCache(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		p := kept("remembering", remembering("remembering"))
		p.Source = func() ([]byte, error) { return nil, errors.New("not to be asked") }
		g := asleep(t, s, p)
		if err := os.RemoveAll(s.config.CacheDir); err != nil {
			t.Fatal(err)
		}
		reconcile(t, g, Call{})
		time.Sleep(untilCodeGoes) // fake time
		reconcile(t, g, Call{})
		if st := g.Stats(); st.Wakes != 2 {
			t.Errorf("stats = %+v", st)
		}
	})
}

// damage cuts all entries short, in the files themselves.
func damage(t *testing.T, s *Sandbox) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.config.CacheDir, "thole-code-*", "*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("entries = %v, %v", all, err)
	}
	for _, path := range all {
		if err := os.Truncate(path, 1000); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWakeFromDamagedCache(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		g := asleep(t, s, kept("remembering", remembering("remembering")))
		damage(t, s)
		reconcile(t, g, Call{})
		if n, _, err := s.store.Find(t.Context(), g.cacheKey()); err != nil {
			t.Errorf("the entry was not written again: %v", err)
		} else {
			n.Close(t.Context())
		}
		time.Sleep(untilCodeGoes) // fake time
		reconcile(t, g, Call{})
		if st := g.Stats(); st.Wakes != 2 {
			t.Errorf("stats = %+v", st)
		}
	})
}

// TestPluginIsNotLost: nothing is left of the code, and the file is another
// one for a while.
func TestPluginIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		wasm := remembering("remembering")
		p := Plugin{Name: "remembering", Wasm: wasm}
		var file []byte
		var missing error
		p.Source = func() ([]byte, error) { return file, missing }
		g := asleep(t, s, p)
		damage(t, s)
		missing = errors.New("no such file")
		for _, want := range []string{"no such file", "the file has changed since"} {
			_, err := g.Reconcile(t.Context(), Call{})
			var fault *Fault
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), g.Digest()) || errors.As(err, &fault) {
				t.Errorf("error = %v, want %q, the digest and no fault", err, want)
			}
			missing, file = nil, []byte("another")
		}
		file = wasm
		reconcile(t, g, Call{})
	})
}

// TestWakeOnFullDisk: the code comes back in a temporary file, and in memory
// if there is no place for that either.
func TestWakeOnFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		temporary string
		told      string
		stays     bool
	}{
		"cache":           {t.TempDir(), "compile cache cannot be used, the plugin is compiled without it", false},
		"temporary files": {filepath.Join(t.TempDir(), "missing"), "this one stays in memory", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", c.temporary)
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := newSandbox(t, Config{
					CacheDir: filepath.Join(dir, "cache"),
					Logger:   hclog.New(&hclog.LoggerOptions{Output: &log}),
				})
				g := asleep(t, s, kept("remembering", remembering("remembering")))
				damage(t, s)
				if err := os.RemoveAll(s.config.CacheDir); err != nil { // as little can be written as on a full disk
					t.Fatal(err)
				}
				reconcile(t, g, Call{})
				if n := strings.Count(log.String(), c.told); n != 1 {
					t.Errorf("told %d times:\n%s", n, log.String())
				}
				time.Sleep(untilCodeGoes) // fake time
				if st := g.Stats(); st.Compiled != c.stays || st.Idle != 0 {
					t.Errorf("stats = %+v, want no instance and code: %t", st, c.stays)
				}
				reconcile(t, g, Call{})
			})
			if left, _ := os.ReadDir(c.temporary); len(left) != 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}
