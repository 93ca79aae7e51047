package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"
	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/await"
)

// compilerFlag makes this test binary a compiler, or a program that fails in some
// way instead. See [TestMain].
const compilerFlag = "compile-a-module"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == compilerFlag {
		os.Exit(runAsCompiler(os.Args[2:]))
	}
	await.Main(m, func() error { return goleak.Find() })
}

// runAsCompiler is what the program that [compilerOf] configures does.
func runAsCompiler(args []string) int {
	switch how, args := args[0], args[1:]; how {
	case "hangs":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "computes":
		for {
			runtime.Gosched()
		}
	case "waits":
		<-time.After(elapsed)
		return Compiler(context.Background(), asIs, args, Streams{os.Stdin, os.Stdout, os.Stderr})
	case "crashes":
		panic("as if the engine had an error")
	case "prints-garbage":
		for range 10_000 {
			if _, err := os.Stdout.Write(make([]byte, 1<<10)); err != nil {
				return 1
			}
		}
		return exitCompiled
	case "writes-garbage":
		_ = os.WriteFile(filepath.Join(args[0], entryFile), make([]byte, 1<<20), 0o600)
		return exitCompiled
	case "writes-a-pipe":
		_ = syscall.Mkfifo(filepath.Join(args[0], entryFile), 0o600)
		return exitCompiled
	case "writes-nothing":
		return exitCompiled
	case "writes-too-much":
		path := filepath.Join(args[0], entryFile)
		err := errors.Join(limitProcess(1<<30, maxEntry), os.WriteFile(path, nil, 0o600), os.Truncate(path, maxEntry+1))
		if errors.Is(err, syscall.EFBIG) {
			return exitTooLarge
		}
		return exitCompiled
	case "is-killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "is-killed-once":
		if os.Mkdir(filepath.Join(filepath.Dir(args[0]), "thole-killed"), 0o700) == nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return Compiler(context.Background(), asIs, args, Streams{os.Stdin, os.Stdout, os.Stderr})
	case "is-full":
		fmt.Fprintln(os.Stderr, "no space left on device")
		return exitWriteError
	default:
		return Compiler(context.Background(), asIs, args, Streams{os.Stdin, os.Stdout, os.Stderr})
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

// asIs is a [Prepare] that changes nothing. The report is the options.
func asIs(module []byte, options json.RawMessage) (rewritten, report []byte) { return module, options }

func noHostModules(context.Context, wazero.Runtime) error { return nil }

// open opens a store for modules that import nothing.
func open(t *testing.T, c Config) *Store {
	t.Helper()
	c.Prepare = asIs
	c.HostModules = noHostModules
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

func jobOf(key string, wasm []byte, options string) Job {
	return Job{Key: key, Size: int64(len(wasm)), Read: func() ([]byte, error) { return wasm, nil }, Options: json.RawMessage(options)}
}

// compileError returns the error of a compilation.
func compileError(ctx context.Context, s *Store, wasm []byte) error {
	_, _, err := s.Compile(ctx, jobOf("key", wasm, "{}"))
	return err
}

func compile(t *testing.T, s *Store, key string, n int32) Module {
	t.Helper()
	m, report, err := s.Compile(t.Context(), jobOf(key, constant(n), fmt.Sprintf(`{"n":%d}`, n)))
	if err == nil && string(report) != fmt.Sprintf(`{"n":%d}`, n) {
		t.Errorf("report = %s", report)
	}
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
