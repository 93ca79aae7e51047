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
	if _, err := s.Compile(ctx, "key", constant(1), nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error = %v", err)
	}
	wantDirs(t, c.Dir, 1)
}

func TestCompilerProcessRefusesAsThisProcessDoes(t *testing.T) {
	var m tck.Module
	m.Func(nil, nil, nil, tck.I64Const(1))
	_, outside := open(t, compilerOf(t, "works")).Compile(t.Context(), "key", m.Bytes(), nil)
	_, inside := open(t, Config{}).Compile(t.Context(), "key", m.Bytes(), nil)
	if outside == nil || inside == nil || outside.Error() != inside.Error() || errors.Is(outside, ErrTooExpensive) {
		t.Errorf("error = %v\nin this process: %v", outside, inside)
	}
}

func TestCrashOfTheCompilerIsErrTooExpensive(t *testing.T) {
	_, err := open(t, compilerOf(t, "crashes")).Compile(t.Context(), "key", constant(1), nil)
	if !errors.Is(err, ErrTooExpensive) || !strings.Contains(err.Error(), "as if the engine had an error") {
		t.Errorf("error = %v", err)
	}
}

func TestCompilerOnFullDiskCompilesInMemory(t *testing.T) {
	c, logs := compilerOf(t, "is-full"), logtest.New(hclog.Info)
	c.Logger = logs.Logger
	wantRun(t, compile(t, open(t, c), "key", 7), 7)
	logs.ExpectNext(t, hclog.Warn, "dir", c.Dir)
	logs.ExpectNext(t, hclog.Warn, "error", errCompilerWrite.Error()+": no space left on device")
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
	c := compilerOf(t, "works")
	c.CompilerMemory = 128 << 20
	_, err := open(t, c).Compile(t.Context(), "key", phiBomb(400, 1000), nil)
	if !errors.Is(err, ErrTooExpensive) || !strings.Contains(err.Error(), "more than 128 MiB of memory") {
		t.Errorf("error = %v", err)
	}
}

func TestCompilerRefusesWrongArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"dir"}, {"dir", "x"}} {
		var stderr bytes.Buffer
		if code := Compiler(t.Context(), args, strings.NewReader(""), &stderr); code != exitRefused || stderr.Len() == 0 {
			t.Errorf("%q: code %d, %s", args, code, stderr.String())
		}
	}
}
