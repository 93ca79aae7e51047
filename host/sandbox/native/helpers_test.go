package native

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"
	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// compilerFlag makes this test binary a compiler, or a program that fails in some
// way instead. See [TestMain].
const compilerFlag = "compile-a-module"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == compilerFlag {
		os.Exit(runAsCompiler(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// runAsCompiler is what the program that [compilerOf] configures does.
func runAsCompiler(args []string) int {
	switch how, args := args[0], args[1:]; how {
	case "hangs":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "crashes":
		panic("as if the engine had an error")
	case "is-full":
		fmt.Fprintln(os.Stderr, "no space left on device")
		return exitWriteError
	default:
		return Compiler(context.Background(), args, os.Stdin, os.Stderr)
	}
}

func compilerOf(t *testing.T, how string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Dir:            filepath.Join(t.TempDir(), "cache"),
		Compiler:       []string{self, compilerFlag, how},
		CompilerMemory: 1 << 30, // enough for the race detector
	}
}

// open opens a store for modules that import nothing.
func open(t *testing.T, c Config) *Store {
	t.Helper()
	c.HostModules = func(context.Context, wazero.Runtime) error { return nil }
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// inDir opens a store on disk and returns its directory.
func inDir(t *testing.T) (*Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	return open(t, Config{Dir: dir}), dir
}

// constant returns a module whose function run returns n. Such modules differ in
// their code only.
func constant(n int32) []byte {
	var m tck.Module
	m.Export("run", m.Func(nil, []wasm.ValueType{wasm.I32}, nil, tck.I32Const(n)))
	return m.Bytes()
}

func compile(t *testing.T, s *Store, key string, n int32) Module {
	t.Helper()
	m, err := s.Compile(t.Context(), key, constant(n), fmt.Appendf(nil, `{"n":%d}`, n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.WithoutCancel(t.Context())) })
	return m
}

func find(t *testing.T, s *Store, key string) (Module, string) {
	t.Helper()
	m, metadata, err := s.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.WithoutCancel(t.Context())) })
	return m, string(metadata)
}

// wantRun makes an instance and calls it.
func wantRun(t *testing.T, m Module, want uint64) {
	t.Helper()
	in, err := m.Instantiate(t.Context(), wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close(t.Context())
	if out, err := in.ExportedFunction("run").Call(t.Context()); err != nil || out[0] != want {
		t.Errorf("run returned %v, %v; want %d", out, err, want)
	}
}
