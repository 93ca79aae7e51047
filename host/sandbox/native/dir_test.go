package native

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDirIsMadePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	open(t, Config{Dir: dir})
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode = %v, %v", info, err)
	}
}

func TestDirIsRefused(t *testing.T) {
	parent := t.TempDir()
	shared := filepath.Join(parent, "shared")
	file := filepath.Join(parent, "file")
	link := filepath.Join(parent, "link")
	for _, err := range []error{
		os.Mkdir(shared, 0o700),
		os.Chmod(shared, 0o770),
		os.WriteFile(file, nil, 0o600),
		os.Symlink(parent, link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		shared: "others may write",
		file:   "not a directory",
		link:   "symbolic link",
	} {
		if _, err := Open(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", dir, err, want)
		}
	}
}

func TestDirOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Skipf("cannot give a directory away: %v", err)
	}
	if _, err := Open(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("error = %v", err)
	}
}

// TestDirThatCannotBeWritten: one that was removed is one, as is a full disk.
func TestDirThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c, log := logged(Config{Dir: dir})
	s := open(t, c)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	wantRun(t, compile(t, s, "key", 7), 7)
	if n := strings.Count(log.String(), "compile cache cannot be used"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
}

// TestDirThatCannotBeMade: code is then kept as long as the store is.
func TestDirThatCannotBeMade(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, log := logged(Config{Dir: "/proc/self/cache"}) // not even root can make a directory there
	s := open(t, c)
	wantRun(t, compile(t, s, "key", 7), 7)
	m, _ := find(t, s, "key")
	wantRun(t, m, 7)
	if n := strings.Count(log.String(), "compile cache cannot be written"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
	m.Close(t.Context())
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
