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
		m, report := find(t, again, key)
		wantRun(t, m, want)
		if !strings.Contains(report, `"n":`+string('0'+rune(want))) {
			t.Errorf("the report of %s is %s", key, report)
		}
	}
}

func TestCompileAfterCloseIsErrClosed(t *testing.T) {
	s := open(t, Config{})
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := compileError(t.Context(), s, constant(1)); !errors.Is(err, ErrClosed) {
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
