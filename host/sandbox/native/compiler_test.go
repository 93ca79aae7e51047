package native

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestCompilerProcessFillsTheCache(t *testing.T) {
	c := compilerOf(t, "works")
	s := open(t, c)
	wantRun(t, compile(t, s, "key", 7), 7)
	m, _ := find(t, s, "key")
	wantRun(t, m, 7)
	wantDirs(t, c.Dir, 1)
}

// wantDirs counts the directories of stores and compilers.
func wantDirs(t *testing.T, dir string, want int) {
	t.Helper()
	opened, err := filepath.Glob(filepath.Join(dir, stagingPattern))
	compiling, err2 := filepath.Glob(filepath.Join(dir, compilePattern))
	if err := errors.Join(err, err2); err != nil || len(opened)+len(compiling) != want {
		t.Errorf("directories %v and %v, want %d: %v", opened, compiling, want, err)
	}
}

// TestCompilerProcessIsKilledAtTheDeadline, whatever it is busy with.
func TestCompilerProcessIsKilledAtTheDeadline(t *testing.T) {
	c := compilerOf(t, "hangs")
	s := open(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := compileError(ctx, s, constant(1)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTooExpensive) {
		t.Errorf("error = %v", err)
	}
	wantDirs(t, c.Dir, 1)
}

// elapsed is how long a compiler "waits".
const elapsed = 1500 * time.Millisecond

// TestProcessorTimeOfACompilerCounts: a busy machine refuses no module that another one
// takes. Only a compilation that has ten times as long is ended though it computes little.
func TestProcessorTimeOfACompilerCounts(t *testing.T) {
	for _, tt := range []struct {
		how     string
		timeout time.Duration
		want    string // "": the module is compiled
	}{
		{"waits", elapsed * 2 / 3, ""},
		{"computes", 500 * time.Millisecond, "more than 500ms of processor time"},
		{"hangs", 50 * time.Millisecond, "it has not ended in 500ms"},
	} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			c := compilerOf(t, tt.how)
			c.Timeout = tt.timeout
			switch err := compileError(t.Context(), open(t, c), constant(1)); {
			case tt.want == "" && err != nil:
				t.Errorf("error = %v", err)
			case tt.want != "" && (!errors.Is(err, ErrTooExpensive) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error = %v, want %q", err, tt.want)
			}
			wantDirs(t, c.Dir, 1)
		})
	}
}

func TestCompilerProcessRefusesAsThisProcessDoes(t *testing.T) {
	var m tck.Module
	m.Func(nil, nil, nil, tck.I64Const(1))
	outside := compileError(t.Context(), open(t, compilerOf(t, "works")), m.Bytes())
	inside := compileError(t.Context(), open(t, Config{}), m.Bytes())
	if outside == nil || inside == nil || outside.Error() != inside.Error() || errors.Is(outside, ErrTooExpensive) {
		t.Errorf("error = %v\nin this process: %v", outside, inside)
	}
}

// TestGarbageOfACompilerIsRefused: the host believes nothing of what a compiler
// writes, and keeps no more of it than there may be.
func TestGarbageOfACompilerIsRefused(t *testing.T) {
	for how, want := range map[string]string{
		"prints-garbage":  "the report about it is larger than 1048576 bytes",
		"writes-garbage":  "damaged",
		"writes-a-pipe":   "damaged",
		"writes-nothing":  "no such file",
		"writes-too-much": "more than 128 MiB of native code",
		"is-killed":       "the compiler was killed",
	} {
		t.Run(how, func(t *testing.T) {
			c := compilerOf(t, how)
			if err := compileError(t.Context(), open(t, c), constant(1)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %q", err, want)
			}
			wantDirs(t, c.Dir, 1)
		})
	}
}

// TestKilledCompilerIsTriedAgain: the kernel may have done it to get memory.
func TestKilledCompilerIsTriedAgain(t *testing.T) {
	wantRun(t, compile(t, open(t, compilerOf(t, "is-killed-once")), "key", 7), 7)
}

func TestCrashOfTheCompilerIsErrTooExpensive(t *testing.T) {
	err := compileError(t.Context(), open(t, compilerOf(t, "crashes")), constant(1))
	if !errors.Is(err, ErrTooExpensive) || !strings.Contains(err.Error(), "as if the engine had an error") {
		t.Errorf("error = %v", err)
	}
}

// TestNothingIsCompiledHereBesideACompiler, although nothing can be written.
func TestNothingIsCompiledHereBesideACompiler(t *testing.T) {
	c, logs := compilerOf(t, "is-full"), logtest.New(hclog.Info)
	c.Logger = logs.Logger
	s := open(t, c)
	if err := compileError(t.Context(), s, constant(1)); !errors.Is(err, errCompilerWrite) || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("error = %v", err)
	}
	if s.inMemory.runtime != nil {
		t.Error("an engine was started for code in memory")
	}
	logs.ExpectNext(t, hclog.Warn, "dir", c.Dir)
	logs.ExpectNone(t)
}

// phiBomb returns a small module for which the engine needs gigabytes of memory:
// each of the loops passes on each of the locals.
func phiBomb(loops, locals int) []byte {
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
	var m tck.Module
	types := make([]wasm.ValueType, locals)
	for i := range types {
		types[i] = wasm.I32
	}
	m.Func(nil, nil, types, body...)
	return m.Bytes()
}

func TestCompilerProcessHasAMemoryLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	c := compilerOf(t, "works")
	c.CompilerMemory = 128 << 20
	err := compileError(t.Context(), open(t, c), phiBomb(400, 1000))
	// A thread of C that gets no memory ends the process by a signal.
	if !errors.Is(err, ErrTooExpensive) || !strings.Contains(err.Error(), "more than 128 MiB of memory") && !strings.Contains(err.Error(), "SIG") {
		t.Errorf("error = %v", err)
	}
}

func TestCompilerRefusesWrongArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"dir"}, {"dir", "x"}} {
		var stderr bytes.Buffer
		if code := Compiler(t.Context(), asIs, args, Streams{strings.NewReader(""), &stderr, &stderr}); code != exitInvalid || stderr.Len() == 0 {
			t.Errorf("%q: code %d, %s", args, code, stderr.String())
		}
	}
}
