package sandbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/tck"
)

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

// TestDamagedEntryIsAMiss cuts an entry short at every place that is looked
// at, and changes bytes all over it.
func TestDamagedEntryIsAMiss(t *testing.T) {
	s := newSandbox(t, Config{CacheDir: filepath.Join(t.TempDir(), "cache")})
	g := load(t, s, Plugin{Name: "remembering", Wasm: remembering("remembering")})
	path := s.store.path(g.cacheKey())
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, at int, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if e, err := openEntry(path); err == nil {
			e.close()
			t.Errorf("%s at %d of %d was not noticed", what, at, len(sound))
		}
	}
	step := len(sound)/200 + 1
	for at := 0; at < len(sound); at += step {
		try("the end", at, sound[:at])
		changed := bytes.Clone(sound)
		changed[at] ^= 1
		try("a changed bit", at, changed)
	}
	for at := len(sound) - trailerBytes; at < len(sound); at++ {
		try("the end", at, sound[:at])
		changed := bytes.Clone(sound)
		changed[at] ^= 0x80
		try("a changed bit", at, changed)
	}
	try("a byte too many", len(sound), append(bytes.Clone(sound), 0))
	if err := os.WriteFile(path, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := s.store.find(g.cacheKey()); e == nil {
		t.Error("the sound entry was refused")
	} else {
		e.close()
	}
}

// TestForeignEntryIsAMiss has an entry of another processor: the engine does
// not find its code and must not run the skeleton.
func TestForeignEntryIsAMiss(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	wasm := remembering("remembering")
	g := cachedIn(t, dir, Plugin{Name: "remembering", Wasm: wasm})
	s := newSandbox(t, Config{CacheDir: dir})
	path := s.store.path(g.cacheKey())
	rename(t, path, strings.Repeat("ab", 32))
	e := s.store.find(g.cacheKey())
	if e == nil {
		t.Fatal("no entry")
	}
	if _, err := s.store.open(t.Context(), e); !errors.Is(err, errNotCached) {
		t.Errorf("error = %v", err)
	}
	e.close()
	reconcile(t, load(t, s, Plugin{Name: "remembering", Wasm: wasm}), Call{})
	e = s.store.find(g.cacheKey())
	defer e.close()
	if e.facts.Name == strings.Repeat("ab", 32) {
		t.Error("the entry was not written again")
	}
}

// rename changes the name by which an engine looks for the code of an entry.
func rename(t *testing.T, path, name string) {
	t.Helper()
	e, err := openEntry(path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	code, err := e.read(0, e.facts.Code)
	if err != nil {
		t.Fatal(err)
	}
	skeleton, err := e.skeleton()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, code, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	e.facts.Name = name
	if err := seal(file, e.facts, skeleton); err != nil {
		t.Fatal(err)
	}
}

// TestStagingIsEmpty: nothing of a guest is left, and nothing of a sandbox.
func TestStagingIsEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := newSandbox(t, Config{CacheDir: dir})
	closeGuest(t, load(t, s, Plugin{Name: "remembering", Wasm: remembering("remembering")}))
	if left, _ := filepath.Glob(filepath.Join(s.store.staging, "*", "*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if name, err := only(dir); err != nil || !strings.HasPrefix(name, storePrefix) {
		t.Errorf("left over: %s, %v", name, err)
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for path, age := range map[string]time.Duration{
		storePrefix + "old-engine/unused":   keepEntries + time.Hour,
		storePrefix + "this-engine/unused":  keepEntries + time.Hour,
		storePrefix + "this-engine/used":    keepEntries - time.Hour,
		"thole-open-123/wazero/left":        keepLeftovers + time.Hour,
		"thole-compile-123/code/wazero/new": time.Minute,
		"somebody/elses":                    10 * keepEntries,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for p := path; p != dir; p = filepath.Dir(p) {
			if err := os.Chtimes(p, now.Add(-age), now.Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	prune(dir, now)
	var left []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(left, " "), "somebody/elses thole-code-this-engine/used thole-compile-123/code/wazero/new"; got != want {
		t.Errorf("left: %s\nwant: %s", got, want)
	}
}

// TestTheCacheIsBounded: what was used least lately goes, and what runs from
// it goes on.
func TestTheCacheIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := newSandbox(t, Config{CacheDir: dir, CacheBytes: 1})
	first := load(t, s, kept("remembering", remembering("remembering")))
	second := load(t, s, kept("other", remembering("other")))
	if left := cached(dir, filepath.Join(storePrefix+"*", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	reconcile(t, first, Call{})
	reconcile(t, second, Call{})

	now := time.Now()
	entries := filepath.Join(dir, storePrefix+"engine")
	if err := os.MkdirAll(entries, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"newest", "newer", "older", "oldest"} {
		path := filepath.Join(entries, name)
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		used := now.Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
	}
	trim(dir, 250)
	var left []string
	for _, e := range cached(dir, filepath.Join(storePrefix+"*", "*")) {
		left = append(left, filepath.Base(e.path))
	}
	if got := strings.Join(left, " "); got != "newer newest" {
		t.Errorf("left: %s", got)
	}
}

func TestSizeOfCodeIsChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkSize(path, 1<<20); err != nil {
		t.Errorf("error = %v", err)
	}
	if err := checkSize(path, 1<<20-1); !errors.Is(err, errHeavy) || !strings.Contains(err.Error(), "1 MiB of native code") {
		t.Errorf("error = %v", err)
	}
}

// TestEngineVersion: the cache of one version must not be read by another.
func TestEngineVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`github\.com/tetratelabs/wazero (v\S+)`).FindSubmatch(text)
	if required == nil || string(required[1]) != engineVersion {
		t.Errorf("go.mod requires %s: change engineVersion with it, and read again what compile.go and store.go know of the engine", required[1])
	}
}
