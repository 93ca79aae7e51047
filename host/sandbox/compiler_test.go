package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// compilerFlag makes this test's program a compiler, or something that is
// none. See [TestMain].
const compilerFlag = "compile-a-module"

// runAsCompiler is the other side of [compilerOf].
func runAsCompiler(args []string) int {
	switch how, args := args[0], args[1:]; how {
	case "hangs":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "crashes":
		panic("as if the engine had an error")
	case "is-full":
		fmt.Fprintln(os.Stderr, "no space left on device")
		return cannotWrite
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
	return Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Compiler: []string{self, compilerFlag, how}}
}

func TestCompilerIsAProcess(t *testing.T) {
	s := newSandbox(t, compilerOf(t, "works"))
	g := load(t, s, Plugin{Name: "remembering", Wasm: remembering("remembering")})
	reconcile(t, g, Call{})
	if st := g.Stats(); !st.Compiled || len(stagedDirs(t, s)) != 1 {
		t.Errorf("stats = %+v, directories %v", st, stagedDirs(t, s))
	}
}

// stagedDirs are the directories of sandboxes and compilers.
func stagedDirs(t *testing.T, s *Sandbox) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.config.CacheDir, "thole-[^c]*"))
	more, err2 := filepath.Glob(filepath.Join(s.config.CacheDir, compilePattern))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return append(all, more...)
}

func TestCompilerRefusesModules(t *testing.T) {
	h := newHand("invalid")
	_, err := newSandbox(t, compilerOf(t, "works")).Load(t.Context(), Plugin{Name: "invalid", Wasm: h.wasm(nil, tck.I64Const(1))})
	wantStep(t, err, StepCompile, abi.ClassABI)
	inProcess := newHand("invalid")
	_, want := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "invalid", Wasm: inProcess.wasm(nil, tck.I64Const(1))})
	if err.Error() != want.Error() {
		t.Errorf("error = %v\nin this process: %v", err, want)
	}
}

// TestCompilerIsKilled: nothing that the engine does can hold the host up.
func TestCompilerIsKilled(t *testing.T) {
	config := compilerOf(t, "hangs")
	config.LoadTimeout = 50 * time.Millisecond
	s := newSandbox(t, config)
	for range 2 {
		_, err := s.Load(t.Context(), Plugin{Name: "asking", Wasm: asking("asking", 1)})
		wantStep(t, err, StepCompile, abi.ClassABI)
		if !errors.Is(err, errDeadline) || !strings.Contains(err.Error(), notAgain) {
			t.Errorf("error = %v", err)
		}
	}
	if n := len(stagedDirs(t, s)); n != 1 {
		t.Errorf("%d directories are left", n)
	}
}

func TestLoadThatIsCancelledKillsTheCompiler(t *testing.T) {
	s := newSandbox(t, compilerOf(t, "hangs"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Load(ctx, Plugin{Name: "asking", Wasm: asking("asking", 1)})
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), notAgain) {
		t.Errorf("error = %v", err)
	}
}

func TestCompilerThatCrashes(t *testing.T) {
	_, err := newSandbox(t, compilerOf(t, "crashes")).Load(t.Context(), Plugin{Name: "asking", Wasm: asking("asking", 1)})
	wantStep(t, err, StepCompile, abi.ClassABI)
	if !errors.Is(err, errHeavy) || !strings.Contains(err.Error(), "as if the engine had an error") {
		t.Errorf("error = %v", err)
	}
}

func TestCompilerOnFullDisk(t *testing.T) {
	config := compilerOf(t, "is-full")
	var log bytes.Buffer
	config.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	g := load(t, newSandbox(t, config), Plugin{Name: "asking", Wasm: asking("asking", 1)})
	reconcile(t, g, Call{})
	if !strings.Contains(log.String(), "no space left on device") {
		t.Errorf("log = %s", log.String())
	}
}

// phiBomb is a small module whose code the engine makes gigabytes of data of:
// each of the loops passes each of the locals on.
func phiBomb(name string, loops, locals int) []byte {
	var body [][]byte
	for range loops {
		body = append(body, tck.Loop)
	}
	for i := range uint32(locals) {
		body = append(body, tck.LocalGet(i), tck.I32Const(1), tck.I32Ne, tck.LocalSet(i))
	}
	for range loops {
		body = append(body, tck.LocalGet(0), tck.BranchIf(0), tck.End)
	}
	h := newHand(name)
	types := make([]tck.Type, locals)
	for i := range types {
		types[i] = tck.I32
	}
	h.Func(none, none, types, body...)
	return h.wasm(nil, h.ok())
}

func TestCompilerHasAMemoryLimit(t *testing.T) {
	config := compilerOf(t, "works")
	config.CompilerMemory = 128 << 20
	_, err := newSandbox(t, config).Load(t.Context(), Plugin{Name: "bomb", Wasm: phiBomb("bomb", 400, 1000)})
	wantStep(t, err, StepCompile, abi.ClassABI)
	if !errors.Is(err, errHeavy) || !strings.Contains(err.Error(), "more than 128 MiB of memory") {
		t.Errorf("error = %v", err)
	}
}

func TestCompilerChecksItsArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"dir"}, {"dir", "x"}} {
		var stderr bytes.Buffer
		if code := Compiler(t.Context(), args, strings.NewReader(""), &stderr); code != refusedModule || stderr.Len() == 0 {
			t.Errorf("%q: code %d, %s", args, code, stderr.String())
		}
	}
}
