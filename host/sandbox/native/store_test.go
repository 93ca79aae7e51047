package native

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestCodeInMemoryIsNotFound(t *testing.T) {
	s := open(t, Config{})
	wantRun(t, compile(t, s, "key", 7), 7)
	if _, _, err := s.Find(t.Context(), "key"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a cache: %v", err)
	}
}

// TestCodeOnDiskIsFound with modules that differ in their code only, so that their
// skeletons differ in the salt only.
func TestCodeOnDiskIsFound(t *testing.T) {
	s, dir := inDir(t)
	if _, _, err := s.Find(t.Context(), "seven"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is compiled: %v", err)
	}
	wantRun(t, compile(t, s, "seven", 7), 7)
	wantRun(t, compile(t, s, "eight", 8), 8)
	again := open(t, Config{Dir: dir})
	for key, want := range map[string]uint64{"seven": 7, "eight": 8} {
		m, metadata := find(t, again, key)
		wantRun(t, m, want)
		if !strings.Contains(metadata, `"n":`+string('0'+rune(want))) {
			t.Errorf("the metadata of %s is %s", key, metadata)
		}
	}
}

func TestCompileAfterCloseIsErrClosed(t *testing.T) {
	s := open(t, Config{})
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compile(t.Context(), "key", constant(1), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("error = %v", err)
	}
}

// TestCloseRemovesStagedFiles of modules and of the store.
func TestCloseRemovesStagedFiles(t *testing.T) {
	s, dir := inDir(t)
	compile(t, s, "key", 1).Close(t.Context())
	if left, _ := filepath.Glob(filepath.Join(s.disk.staging, "*", "*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if name, err := onlyEntry(dir); err != nil || !strings.HasPrefix(name, storePrefix) {
		t.Errorf("left over: %s, %v", name, err)
	}
}

func TestCodeBeyondTheLimitIsErrTooExpensive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkSize(path, 1<<20); err != nil {
		t.Errorf("error = %v", err)
	}
	if err := checkSize(path, 1<<20-1); !errors.Is(err, ErrTooExpensive) || !strings.Contains(err.Error(), "1 MiB of native code") {
		t.Errorf("error = %v", err)
	}
}

// TestEngineVersionIsThatOfGoMod: code of one version must not be used with
// another.
func TestEngineVersionIsThatOfGoMod(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`github\.com/tetratelabs/wazero (v\S+)`).FindSubmatch(text)
	if required == nil || string(required[1]) != EngineVersion {
		t.Errorf("go.mod requires %s: change EngineVersion with it, and check again what store.go and disk.go rely on in the engine", required[1])
	}
}
