package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/await"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == compilerFlag {
		os.Exit(runAsCompiler(os.Args[2:]))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sandbox")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	compiledDir = dir
	if code := m.Run(); code != 0 {
		return code
	}
	if err := await.Success(func() error { return goleak.Find() }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// compiledDir keeps the native code of guests that compilers made, for all tests
// of one run: with the race detector the engine takes a minute for one of
// standard Go on a busy machine.
var compiledDir string

// compiledGuests is the configuration for guests that compilers made.
func compiledGuests() Config {
	return Config{CacheDir: compiledDir, LoadTimeout: 15 * time.Minute}
}

// soon is a deadline that is meant to pass. What comes before it in a test takes
// less on a busy machine too.
const soon = 500 * time.Millisecond

func newSandbox(tb testing.TB, config Config) *Sandbox {
	tb.Helper()
	for _, c := range tck.Capabilities() {
		config.Capabilities = append(config.Capabilities, ofKit(c))
	}
	s, err := New(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// ofKit returns a capability of the kit, whose import waits if it has effects.
func ofKit(c tck.Capability) Capability {
	own := Capability{Name: c.Name, Check: c.Check, CheckManifest: c.CheckManifest}
	for _, e := range c.Exports {
		own.Exports = append(own.Exports, Export{Name: e.Name, Meaning: "is the kit's", Needed: e.Needed, Imports: e.Imports, Effects: e.Effects})
	}
	if c.Import != "" {
		own.Imports = []Import{{Name: c.Import, Meaning: "is the kit's", MaxMessage: c.MaxMessage, HasEffects: c.HasEffects}}
		if c.HasEffects {
			own.Imports[0].Waits = 1
		}
	}
	return own
}

// waiting returns the capability of the kit whose import waits.
func waiting() tck.Capability {
	all := tck.Capabilities()
	return all[slices.IndexFunc(all, func(c tck.Capability) bool { return c.HasEffects })]
}

// inFakeTime runs a test in fake time, with a sandbox that has a cache on disk.
func inFakeTime(t *testing.T, run func(t *testing.T, s *Sandbox)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		run(t, newSandbox(t, Config{CacheDir: filepath.Join(t.TempDir(), "cache")}))
	})
}

func load(tb testing.TB, s *Sandbox, p Plugin) *Guest {
	tb.Helper()
	g, err := s.Load(tb.Context(), p)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// kitCase returns a case of the conformance kit.
func kitCase(tb testing.TB, name string) tck.Case {
	tb.Helper()
	c, ok := tck.CaseOf(name)
	if !ok {
		tb.Fatalf("the kit has no case %q", name)
	}
	return c
}

// loadCase loads a guest of the conformance kit.
func loadCase(tb testing.TB, s *Sandbox, name string, limits Limits) *Guest {
	tb.Helper()
	return load(tb, s, Plugin{Name: name, Wasm: kitCase(tb, name).Wasm(), Limits: limits})
}

// withSource returns a plugin whose file can be read at any time.
func withSource(name string, wasm []byte) Plugin {
	return Plugin{Name: name, Wasm: wasm, Source: func() ([]byte, error) { return wasm, nil }}
}

func closeGuest(tb testing.TB, g *Guest) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		tb.Error(err)
	}
}

// reconcile makes a call that must succeed.
func reconcile(tb testing.TB, g *Guest, call Call) Return {
	tb.Helper()
	out, err := g.Reconcile(tb.Context(), call)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// wantFault expects a fault of that class with the text in its message.
func wantFault(tb testing.TB, err error, class abi.Class, text string) *Fault {
	tb.Helper()
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		tb.Fatalf("error = %v, want a fault", err)
	}
	if f.Class != class || !strings.Contains(f.Message, text) {
		tb.Errorf("fault = %v, want %s with %q", f, class, text)
	}
	return f
}

// wantStep expects a load error of that step and class.
func wantStep(t *testing.T, err error, step string, class abi.Class) {
	t.Helper()
	if refused, ok := errors.AsType[*LoadError](err); !ok || refused.Step != step || refused.FailureClass() != class {
		t.Fatalf("error = %v, want step %s and class %s", err, step, class)
	}
}

var callTime = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// hostFunc is a host whose get and list are one function.
type hostFunc func(ctx context.Context, call []byte) ([]byte, int64)

func (f hostFunc) Get(ctx context.Context, call ReadCall) (Reply, int64) {
	return answer(f(ctx, call.Message))
}

func (f hostFunc) List(ctx context.Context, call ReadCall) (Reply, int64) {
	return answer(f(ctx, call.Message))
}

func (f hostFunc) Import(ctx context.Context, _ string, call ReadCall) (Reply, int64) {
	return answer(f(ctx, call.Message))
}

// answer makes a reply of the text and the code that the fakes of a host return.
func answer(text []byte, code int64) (Reply, int64) { return Bytes(text), code }
func (hostFunc) Log(int32, []byte)                  {}

// recorder is the host of the conformance kit that keeps what is logged.
type recorder struct{ lines []string }

func (*recorder) Get(_ context.Context, call ReadCall) (Reply, int64) {
	return answer(tck.Get(call.Message))
}

func (*recorder) List(_ context.Context, call ReadCall) (Reply, int64) {
	return answer(tck.List(call.Message))
}

func (*recorder) Import(_ context.Context, name string, call ReadCall) (Reply, int64) {
	return answer(tck.Import(name, call.Message))
}

func (r *recorder) Log(level int32, message []byte) {
	r.lines = append(r.lines, fmt.Sprintf("%d %s", level, message))
}

// gate is a host whose get blocks until the gate is opened.
type gate struct{ arrived, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}, 16), make(chan struct{})} }

func (g gate) host() HostCalls {
	return hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
		g.arrived <- struct{}{}
		select {
		case <-g.open:
		case <-ctx.Done():
		}
		return nil, 0
	})
}
