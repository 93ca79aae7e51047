package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
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

// compiledDir keeps the code of the guests that compilers made, for all tests
// of one run: under the race detector the engine takes a minute for one of
// standard Go on a busy machine, which is also why the load's timeout is long.
var compiledDir string

// soon is a deadline that is meant to pass; what comes before it keeps within it
// on a busy machine.
const soon = 500 * time.Millisecond

func compiledGuests() Config {
	return Config{CacheDir: compiledDir, LoadTimeout: 15 * time.Minute}
}

func newSandbox(tb testing.TB, config Config) *Sandbox {
	tb.Helper()
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

func load(tb testing.TB, s *Sandbox, p Plugin) *Guest {
	tb.Helper()
	g, err := s.Load(tb.Context(), p)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// loadCase loads a guest of the conformance kit.
func loadCase(tb testing.TB, s *Sandbox, name string, limits Limits) *Guest {
	tb.Helper()
	c, ok := tck.CaseOf(name)
	if !ok {
		tb.Fatalf("the kit has no case %q", name)
	}
	return load(tb, s, Plugin{Name: name, Wasm: c.Wasm(), Limits: limits})
}

func closeGuest(tb testing.TB, g *Guest) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		tb.Error(err)
	}
}

var (
	none    []tck.Type
	one     = []tck.Type{tck.I32}
	two     = []tck.Type{tck.I32, tck.I32}
	logging = []tck.Type{tck.I32, tck.I32, tck.I32}
	answer  = []tck.Type{tck.I64}
)

const resultText = `{"result":"success"}`

// hand is a guest that a test writes by hand: everything that thole/v1 wants,
// around a body of reconcile. Its output is at 0, and 64 KiB from 64 KiB on
// are free.
type hand struct {
	tck.Module
	name   string
	output tck.Func
}

func newHand(name string) *hand {
	h := &hand{name: name}
	h.output = h.Import(abi.ImportModule, abi.ImportOutput, two, none)
	return h
}

// say appends memory to the output.
func (h *hand) say(at, length int32) []byte {
	return bytes.Join([][]byte{tck.I32Const(at), tck.I32Const(length), tck.Call(h.output)}, nil)
}

func (h *hand) ok() []byte {
	return append(h.say(0, int32(len(resultText))), tck.I32Const(0)...)
}

func (h *hand) wasm(locals []tck.Type, body ...[]byte) []byte {
	manifest := abi.EncodeManifest(&abi.Manifest{Name: h.name, Version: "1", Controllers: []abi.Controller{
		{Name: "c", For: abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}},
	}})
	h.Memory(2)
	h.Data(0, []byte(resultText))
	h.Data(512, manifest)
	h.ExportMemory(abi.ExportMemory)
	h.Export(abi.ExportMarker, h.Func(none, none, nil))
	h.Export(abi.ExportDescribe, h.Func(none, one, nil, h.say(512, int32(len(manifest))), tck.I32Const(0)))
	h.Export(abi.ExportReconcile, h.Func(one, one, locals, body...))
	return h.Bytes()
}

// asking is a guest that calls get n times and succeeds.
func asking(name string, n int) []byte {
	h := newHand(name)
	get := h.Import(abi.ImportModule, abi.ImportGet, two, answer)
	var body [][]byte
	for range n {
		body = append(body, tck.I32Const(0), tck.I32Const(4), tck.Call(get), tck.Drop)
	}
	return h.wasm(nil, append(body, h.ok())...)
}

// hostFunc is a world whose get is a function.
type hostFunc func(ctx context.Context, call []byte) ([]byte, int64)

func (f hostFunc) Get(ctx context.Context, call []byte) ([]byte, int64)  { return f(ctx, call) }
func (f hostFunc) List(ctx context.Context, call []byte) ([]byte, int64) { return f(ctx, call) }
func (hostFunc) Log(int32, []byte)                                       {}

func wantFault(tb testing.TB, err error, class abi.Class, words string) *Fault {
	tb.Helper()
	var f *Fault
	if !errors.As(err, &f) {
		tb.Fatalf("error = %v, want a fault", err)
	}
	if f.Class != class || !strings.Contains(f.Message, words) {
		tb.Errorf("fault = %v, want %s with %q", f, class, words)
	}
	return f
}
