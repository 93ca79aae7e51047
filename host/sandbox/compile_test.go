package sandbox

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	abiwasm "github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

func TestUnsafeCacheDirIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Config{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), "writable by other users") {
		t.Errorf("error = %v", err)
	}
}

// TestCachedCodeIsUsedUnlessDamaged loads from a warm cache, in which nothing is
// written, and then from one whose entries are truncated.
func TestCachedCodeIsUsedUnlessDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	loadWith := func() {
		s := newSandbox(t, Config{CacheDir: dir})
		reconcile(t, loadCase(t, s, "correct", Limits{}), Call{Request: [][]byte{[]byte("{}")}})
	}
	loadWith()
	first := entries(t, dir)
	if len(first) != 1 {
		t.Fatalf("entries = %v, want one", first)
	}
	loadWith()
	if again := entries(t, dir); len(again) != 1 || !os.SameFile(again[0], first[0]) {
		t.Errorf("the entry was written again: %v", again)
	}
	truncateEntries(t, dir)
	loadWith()
	if repaired := entries(t, dir); len(repaired) != 1 || repaired[0].Size() != first[0].Size() {
		t.Errorf("entries = %v, want one of %d bytes", repaired, first[0].Size())
	}
}

// TestPluginRunsWithAnUnwritableCache: a directory that was removed cannot be
// written, like one on a full disk.
func TestPluginRunsWithAnUnwritableCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	logs := logtest.New(hclog.Info)
	s := newSandbox(t, Config{CacheDir: dir, Logger: logs.Logger})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	reconcile(t, loadCase(t, s, "correct", Limits{}), Call{Request: [][]byte{[]byte("{}")}})
	logs.ExpectNext(t, hclog.Warn, "dir", dir)
	logs.ExpectNone(t)
}

// walkEntries visits all regular files below a directory.
func walkEntries(t *testing.T, dir string, each func(path string, info fs.FileInfo)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			each(path, info)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func entries(t *testing.T, dir string) (out []fs.FileInfo) {
	t.Helper()
	walkEntries(t, dir, func(_ string, info fs.FileInfo) { out = append(out, info) })
	return out
}

// truncateEntries truncates all entries of a cache to half their size.
func truncateEntries(t *testing.T, dir string) {
	t.Helper()
	walkEntries(t, dir, func(path string, info fs.FileInfo) {
		if err := os.Truncate(path, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCachedCodeIsLoadedByDigest, without reading the module.
func TestCachedCodeIsLoadedByDigest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	first := load(t, newSandbox(t, Config{CacheDir: dir}), Plugin{Name: "cached", Wasm: needingInitialize("cached")})
	again := load(t, newSandbox(t, Config{CacheDir: dir}), Plugin{
		Name: "cached", Digest: hex.EncodeToString(first.digest[:]),
		Source: func() ([]byte, error) { return nil, errors.New("the source must not be read") },
	})
	reconcile(t, again, Call{})
	if again.mode != first.mode || again.minimum != first.minimum || again.digest != first.digest {
		t.Errorf("mode %s, %d pages, digest %x; want %s, %d, %x", again.mode, again.minimum, again.digest, first.mode, first.minimum, first.digest)
	}
}

// TestSourceOfAnotherDigestIsRefused: the file was replaced since its digest was
// computed.
func TestSourceOfAnotherDigestIsRefused(t *testing.T) {
	s := newSandbox(t, Config{})
	digest := strings.Repeat("00", 32)
	_, err := s.Load(t.Context(), Plugin{Name: "other", Digest: digest, Source: func() ([]byte, error) { return callingGet("other", 1), nil }})
	wantStep(t, err, StepRead, abi.ClassABI)
	if err == nil || !strings.Contains(err.Error(), "the file has changed since") {
		t.Errorf("error = %v", err)
	}
	for _, digest := range []string{"", "xyz", digest + "00"} {
		if _, err := s.Load(t.Context(), Plugin{Name: "other", Digest: digest, Source: func() ([]byte, error) { return nil, nil }}); err == nil || !strings.Contains(err.Error(), "SHA-256") {
			t.Errorf("digest %q: error = %v", digest, err)
		}
	}
}

// TestModulesThatDifferInCodeHaveTheirOwnCode: their skeletons differ in the salt
// only.
func TestModulesThatDifferInCodeHaveTheirOwnCode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	for range 2 { // compiled, then from the cache
		s := newSandbox(t, Config{CacheDir: dir})
		good := load(t, s, Plugin{Name: "twin", Wasm: succeedingIfSeven("twin", 7)})
		bad := load(t, s, Plugin{Name: "twin", Wasm: succeedingIfSeven("twin", 8)})
		reconcile(t, good, Call{})
		if _, err := bad.Reconcile(t.Context(), Call{}); err == nil {
			t.Error("the other code was run")
		}
	}
}

// compilerFlag makes this test binary a compiler, or one that hangs. See
// [TestMain].
const compilerFlag = "compile-a-module"

// runAsCompiler is what the program that [compilerOf] configures does.
func runAsCompiler(args []string) int {
	if args[0] == "hangs" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	return Compiler(context.Background(), args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

func compilerOf(tb testing.TB, how string) Config {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return Config{CacheDir: filepath.Join(tb.TempDir(), "cache"), Compiler: []string{self, compilerFlag, how}}
}

func TestCompilerProcessCompiles(t *testing.T) {
	g := load(t, newSandbox(t, compilerOf(t, "works")), Plugin{Name: "compiled", Wasm: needingInitialize("compiled")})
	reconcile(t, g, Call{})
	if st := g.Stats(); !st.Compiled {
		t.Errorf("stats = %+v", st)
	}
}

func TestCompilerProcessRefusesAsThisProcessDoes(t *testing.T) {
	tg := newTestGuest("invalid")
	_, err := newSandbox(t, compilerOf(t, "works")).Load(t.Context(), Plugin{Name: "invalid", Wasm: tg.build(nil, tck.I64Const(1))})
	wantStep(t, err, StepCompile, abi.ClassABI)
	inProcess := newTestGuest("invalid")
	_, want := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "invalid", Wasm: inProcess.build(nil, tck.I64Const(1))})
	if err.Error() != want.Error() {
		t.Errorf("error = %v\nin this process: %v", err, want)
	}
}

// TestLoadTimeoutKillsTheCompiler, and the module is not tried again.
func TestLoadTimeoutKillsTheCompiler(t *testing.T) {
	config := compilerOf(t, "hangs")
	config.LoadTimeout = 50 * time.Millisecond
	s := newSandbox(t, config)
	for range 2 {
		_, err := s.Load(t.Context(), Plugin{Name: "waiting", Wasm: callingGet("waiting", 1)})
		wantStep(t, err, StepCompile, abi.ClassABI)
		if !errors.Is(err, native.ErrTooExpensive) || !strings.Contains(err.Error(), notTriedAgain) {
			t.Errorf("error = %v", err)
		}
	}
}

func TestCanceledLoadKillsTheCompiler(t *testing.T) {
	s := newSandbox(t, compilerOf(t, "hangs"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Load(ctx, Plugin{Name: "waiting", Wasm: callingGet("waiting", 1)})
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), notTriedAgain) {
		t.Errorf("error = %v", err)
	}
}

// bomb returns a plugin of some 30 KB for which the engine needs more than a
// minute: each of its loops passes on each of its locals.
func bomb(name string, n int) Plugin {
	const loops, locals = 1000, 2000
	tg := newTestGuest(name)
	types := slices.Repeat([]abiwasm.ValueType{abiwasm.I32}, locals)
	body := [][]byte{tck.I32Const(int32(n)), tck.LocalSet(1)}
	for range loops {
		body = append(body, tck.Loop)
	}
	for i := range uint32(locals) {
		body = append(body, tck.LocalGet(i), tck.I32Const(1), tck.I32Ne, tck.LocalSet(i))
	}
	for range loops {
		body = append(body, tck.LocalGet(0), tck.BranchIf(0), tck.End)
	}
	tg.Func(nil, nil, types, body...)
	return Plugin{Name: name, Wasm: tg.build(nil, tg.ok())}
}

// TestHonestPluginLoadsBesideBombs that are smaller and came before it, while all
// of them still wait or are compiled.
func TestHonestPluginLoadsBesideBombs(t *testing.T) {
	const bombs = 20
	config := compilerOf(t, "works")
	config.LoadTimeout = time.Hour // which no bomb may reach on a slow machine
	s := newSandbox(t, config)
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, podmanager)
	var ended atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var loads sync.WaitGroup
	defer loads.Wait()
	defer cancel()
	for i := range bombs {
		loads.Go(func() {
			_, err := s.Load(ctx, bomb(fmt.Sprintf("bomb-%d", i), i))
			ended.Add(1)
			if !errors.Is(err, context.Canceled) && !errors.Is(err, native.ErrTooExpensive) {
				t.Errorf("bomb %d: error = %v", i, err)
			}
		})
	}
	honest, stop := context.WithTimeout(t.Context(), compiledGuests().LoadTimeout) // it waits behind the attempts of all bombs
	defer stop()
	for i, pause := range []time.Duration{100 * time.Millisecond, 5 * time.Second} { // each bomb was tried by then
		<-time.After(pause)
		if _, err := s.Load(honest, Plugin{Name: "podmanager", Wasm: distinct(t, wasm, i)}); err != nil || ended.Load() > 0 {
			t.Errorf("plugin %d, after %d bombs have ended: %v", i, ended.Load(), err)
		}
	}
}
