package native

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// TestDamagedEntryIsRefused truncates an entry at many places, and changes bytes
// all over it.
func TestDamagedEntryIsRefused(t *testing.T) {
	s, _ := inDir(t)
	compile(t, s, "key", 7)
	path := s.disk.path("key")
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, at int, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Find(t.Context(), "key"); !errors.Is(err, errDamaged) {
			t.Errorf("%s at %d of %d: error = %v", what, at, len(sound), err)
		}
	}
	step := len(sound)/200 + 1
	for at := 0; at < len(sound); at += step {
		try("truncated", at, sound[:at])
		changed := bytes.Clone(sound)
		changed[at] ^= 1
		try("a changed bit", at, changed)
	}
	for at := len(sound) - trailerBytes; at < len(sound); at++ {
		try("truncated", at, sound[:at])
		changed := bytes.Clone(sound)
		changed[at] ^= 0x80
		try("a changed bit", at, changed)
	}
	try("a byte too many", len(sound), append(bytes.Clone(sound), 0))
	if err := os.WriteFile(path, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	m, _ := find(t, s, "key")
	wantRun(t, m, 7)
}

// TestEntryOfAnotherKeyIsRefused: whoever renames a file in the cache does not
// make one plugin run the code of another.
func TestEntryOfAnotherKeyIsRefused(t *testing.T) {
	s, _ := inDir(t)
	compile(t, s, "a", 1)
	compile(t, s, "b", 2)
	if err := os.Rename(s.disk.path("b"), s.disk.path("a")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Find(t.Context(), "a"); !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), `the key "b"`) {
		t.Errorf("error = %v", err)
	}
	compile(t, s, "a", 1)
	m, _ := find(t, s, "a")
	wantRun(t, m, 1)
}

// TestLengthsInAnEntryAreChecked although its checksum is correct: the host
// reserves memory for no more than an entry can have.
func TestLengthsInAnEntryAreChecked(t *testing.T) {
	s, _ := inDir(t)
	compile(t, s, "key", 7)
	path := s.disk.path("key")
	sound, err := openEntry(path, "key")
	if err != nil {
		t.Fatal(err)
	}
	sound.close()
	for name, change := range map[string]func(i *entryInfo){
		"code of 1 EiB":      func(i *entryInfo) { i.Code = 1 << 60 },
		"negative skeleton":  func(i *entryInfo) { i.Skeleton = -1 },
		"more than there is": func(i *entryInfo) { i.Code++ },
		"a name with a path": func(i *entryInfo) { i.Name = "../" + i.Name },
	} {
		i := sound.info
		if change(&i); !errors.Is(i.check(sound.info.Code+sound.info.Skeleton), errDamaged) {
			t.Errorf("%s: no error", name)
		}
	}
	i := entryInfo{Name: "x", Code: maxCode + 1}
	if err := i.check(maxCode + 1); !errors.Is(err, ErrTooExpensive) || !strings.Contains(err.Error(), "128 MiB of native code") {
		t.Errorf("error = %v", err)
	}
	if err := os.Truncate(path, maxEntry+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Find(t.Context(), "key"); !errors.Is(err, ErrTooExpensive) {
		t.Errorf("error = %v", err)
	}
}

// TestForeignEntryIsRefused has an entry of another processor: the engine does
// not find its code, and the traps of the skeleton must not be run.
func TestForeignEntryIsRefused(t *testing.T) {
	first, dir := inDir(t)
	compile(t, first, "key", 7)
	s := open(t, Config{Dir: dir})
	foreign := strings.Repeat("ab", 32)
	rename(t, s.disk.path("key"), foreign)
	if _, _, err := s.Find(t.Context(), "key"); !errors.Is(err, errNotCached) {
		t.Errorf("error = %v", err)
	}
	compile(t, s, "key", 7)
	m, _ := find(t, s, "key")
	if wantRun(t, m, 7); m.entry.info.Name == foreign {
		t.Error("the entry was not written anew")
	}
}

// rename changes the name by which an engine looks for the code of an entry.
func rename(t *testing.T, path, name string) {
	t.Helper()
	e, err := openEntry(path, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	code, err := e.read(0, e.info.Code)
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
	e.info.Name = name
	if err := seal(path, e.info, skeleton); err != nil {
		t.Fatal(err)
	}
}
