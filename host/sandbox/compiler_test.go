package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/deadline"
)

// compilerFlag makes this test's program a compiler, or one that hangs. See
// [TestMain].
const compilerFlag = "compile-a-module"

// runAsCompiler is the other side of [compilerOf].
func runAsCompiler(args []string) int {
	if args[0] == "hangs" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	return Compiler(context.Background(), args[1:], os.Stdin, os.Stderr)
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
	g := load(t, newSandbox(t, compilerOf(t, "works")), Plugin{Name: "remembering", Wasm: remembering("remembering")})
	reconcile(t, g, Call{})
	if st := g.Stats(); !st.Compiled {
		t.Errorf("stats = %+v", st)
	}
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

// TestCompilerIsKilled when a load takes too long, and its module is not tried
// again.
func TestCompilerIsKilled(t *testing.T) {
	config := compilerOf(t, "hangs")
	config.LoadTimeout = 50 * time.Millisecond
	s := newSandbox(t, config)
	for range 2 {
		_, err := s.Load(t.Context(), Plugin{Name: "asking", Wasm: asking("asking", 1)})
		wantStep(t, err, StepCompile, abi.ClassABI)
		if !errors.Is(err, deadline.ErrPassed) || !strings.Contains(err.Error(), notAgain) {
			t.Errorf("error = %v", err)
		}
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
