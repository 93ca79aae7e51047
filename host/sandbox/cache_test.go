package sandbox

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestCacheDirIsMadePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	newSandbox(t, Config{CacheDir: dir})
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode = %v, %v", info, err)
	}
}

func TestCacheDirIsRefused(t *testing.T) {
	parent := t.TempDir()
	open := filepath.Join(parent, "open")
	file := filepath.Join(parent, "file")
	link := filepath.Join(parent, "link")
	for _, err := range []error{
		os.Mkdir(open, 0o700),
		os.Chmod(open, 0o770),
		os.WriteFile(file, nil, 0o600),
		os.Symlink(parent, link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		open: "others may write",
		file: "not a directory",
		link: "symbolic link",
	} {
		if _, err := New(t.Context(), Config{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", dir, err, want)
		}
	}
}

func TestCacheDirOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Skipf("cannot give a directory away: %v", err)
	}
	if _, err := New(t.Context(), Config{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
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

// TestCacheDirThatCannotBeMade: where nobody can write, a plugin runs without.
func TestCacheDirThatCannotBeMade(t *testing.T) {
	var log bytes.Buffer
	// Not even root can make a directory there.
	s := newSandbox(t, Config{CacheDir: "/proc/self/cache", Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	reconcile(t, loadCase(t, s, "correct", Limits{}), Call{Request: []byte("{}")})
	if n := strings.Count(log.String(), "compile cache cannot be written"); n != 1 {
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
