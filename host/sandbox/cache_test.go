package sandbox

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi/tck"
)

func TestCacheDirThatIsNotSafe(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Config{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), "others may write") {
		t.Errorf("error = %v", err)
	}
}

// TestCacheIsUsed loads from a warm cache and finds that nothing was written,
// then from one whose entries were cut short.
func TestCacheIsUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	loadWith := func() {
		s := newSandbox(t, Config{CacheDir: dir})
		reconcile(t, loadCase(t, s, "correct", Limits{}), Call{Request: []byte("{}")})
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
	if healed := entries(t, dir); len(healed) != 1 || healed[0].Size() != first[0].Size() {
		t.Errorf("entries = %v, want the one of %d bytes", healed, first[0].Size())
	}
}

// TestCacheThatCannotBeWritten: a directory that was removed is one, as is a
// full disk; neither keeps a plugin from running.
func TestCacheThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var log bytes.Buffer
	s := newSandbox(t, Config{CacheDir: dir, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	reconcile(t, loadCase(t, s, "correct", Limits{}), Call{Request: []byte("{}")})
	if n := strings.Count(log.String(), "compile cache cannot be used"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
}

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

func truncateEntries(t *testing.T, dir string) {
	t.Helper()
	walkEntries(t, dir, func(path string, info fs.FileInfo) {
		if err := os.Truncate(path, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	})
}

// answering is a guest whose code alone tells it from others: its result is
// valid for n, and something else for every other number.
func answering(name string, n int32) []byte {
	h := newHand(name)
	return h.wasm(nil, tck.I32Const(n), tck.I32Const(7), tck.I32Ne, tck.If, tck.Unreachable, tck.End, h.ok())
}

func cachedIn(t *testing.T, dir string, p Plugin) *Guest {
	t.Helper()
	return load(t, newSandbox(t, Config{CacheDir: dir}), p)
}

// TestEntryIsReadWithoutTheModule: what the cache has is loaded by its digest.
func TestEntryIsReadWithoutTheModule(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	wasm := remembering("remembering")
	first := cachedIn(t, dir, Plugin{Name: "remembering", Wasm: wasm})
	again := cachedIn(t, dir, Plugin{
		Name: "remembering", Digest: first.Digest(),
		Source: func() ([]byte, error) { return nil, errors.New("not to be asked") },
	})
	reconcile(t, again, Call{})
	if again.mode != first.mode || again.minimum != first.minimum || !bytes.Equal(again.seed[:], first.seed[:]) {
		t.Errorf("blueprint = %+v, want %+v", again.blueprint, first.blueprint)
	}
	if got, want := strings.Join(again.Imports(), " "), strings.Join(first.Imports(), " "); got != want {
		t.Errorf("imports = %s, want %s", got, want)
	}
}

// TestSourceMustHaveTheDigest: the file was replaced since it was announced.
func TestSourceMustHaveTheDigest(t *testing.T) {
	s := newSandbox(t, Config{})
	digest := strings.Repeat("00", 32)
	_, err := s.Load(t.Context(), Plugin{Name: "other", Digest: digest, Source: func() ([]byte, error) { return asking("other", 1), nil }})
	if refused, ok := errors.AsType[*LoadError](err); !ok || refused.Step != StepRead || !errors.Is(err, errOtherFile) {
		t.Errorf("error = %v", err)
	}
	for _, digest := range []string{"", "xyz", digest + "00"} {
		if _, err := s.Load(t.Context(), Plugin{Name: "other", Digest: digest, Source: func() ([]byte, error) { return nil, nil }}); err == nil || !strings.Contains(err.Error(), "SHA-256") {
			t.Errorf("digest %q: error = %v", digest, err)
		}
	}
}

// TestCodeIsNotMixedUp has modules that differ in nothing but their code, so
// that their skeletons differ in nothing but the salt.
func TestCodeIsNotMixedUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	for range 2 { // compiled, then from the cache
		s := newSandbox(t, Config{CacheDir: dir})
		good := load(t, s, Plugin{Name: "twin", Wasm: answering("twin", 7)})
		bad := load(t, s, Plugin{Name: "twin", Wasm: answering("twin", 8)})
		reconcile(t, good, Call{})
		if _, err := bad.Reconcile(t.Context(), Call{}); err == nil {
			t.Error("the other code was run")
		}
	}
}
