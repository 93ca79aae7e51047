package native

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestDirIsCreatedPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	open(t, Config{Dir: dir})
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode = %v, %v", info, err)
	}
}

func TestUnsafeDirIsRefused(t *testing.T) {
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
		shared: "writable by other users",
		file:   "not a directory",
		link:   "symbolic link",
	} {
		if _, err := Open(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", dir, err, want)
		}
	}
}

// TestDirInAParentThatOthersMayWriteIsRefused: they could replace it. However far
// up the parent is, and also if a symbolic link leads into it.
func TestDirInAParentThatOthersMayWriteIsRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	root := t.TempDir()
	for _, dir := range []string{"world", "group/private", "sticky", "real/private"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Chmod(filepath.Join(root, "world"), 0o777),
		os.Chmod(filepath.Join(root, "group"), 0o770),
		os.Chmod(filepath.Join(root, "sticky"), 0o777|os.ModeSticky),
		os.Symlink(filepath.Join(root, "group", "private"), filepath.Join(root, "leads-into-group")),
		os.Symlink("real", filepath.Join(root, "leads-to-real")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for dir, refused := range map[string]string{
		"world/cache":               "world is writable by other users (mode 0777), who could replace the cache",
		"group/private/cache":       "group is writable by other users (mode 0770)",
		"leads-into-group/cache":    "group is writable by other users (mode 0770)",
		"sticky/cache":              "",
		"leads-to-real/private/new": "",
	} {
		s, err := Open(t.Context(), Config{Dir: filepath.Join(root, dir), HostModules: noHostModules})
		switch {
		case err == nil && refused == "":
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		case err == nil || refused == "" || !strings.Contains(err.Error(), refused):
			t.Errorf("%s: error = %v, want %q", dir, err, refused)
		}
	}
}

// TestVolumeOfAPodMayBeWrittenByOthers, as an emptyDir.
func TestVolumeOfAPodMayBeWrittenByOthers(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	volume := t.TempDir()
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(volume, "cache")
	if _, err := checkDir(dir); err == nil || !strings.Contains(err.Error(), "writable by other users") {
		t.Errorf("outside of a pod: error = %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	if resolved, err := checkDir(dir); err != nil || resolved != dir {
		t.Errorf("in a pod: %s, %v", resolved, err)
	}
}

func TestDirOfAnotherUserIsRefused(t *testing.T) {
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
	if _, err := Open(t.Context(), Config{Dir: filepath.Join(dir, "cache")}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("a directory in it: error = %v", err)
	}
}

// TestUnwritableDirIsDoneWithout: a directory that is not there any more cannot be written,
// like one on a full disk.
func TestUnwritableDirIsDoneWithout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	logs := logtest.New(hclog.Info)
	s := open(t, Config{Dir: dir, Logger: logs.Logger})
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	wantRun(t, compile(t, s, "key", 7), 7)
	logs.ExpectNext(t, hclog.Warn, "dir", dir)
	logs.ExpectNone(t)
	if !errors.Is(s.Problem(), fs.ErrNotExist) {
		t.Errorf("the problem is %v", s.Problem())
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+"-away", dir)); err != nil {
		t.Fatal(err)
	}
	wantRun(t, compile(t, s, "other", 8), 8)
	if s.Problem() != nil {
		t.Errorf("the problem is still %v", s.Problem())
	}
}

// TestDirThatCannotBeCreatedIsReplaced by one that is removed with the store.
func TestDirThatCannotBeCreatedIsReplaced(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, logs := "/proc/self/cache", logtest.New(hclog.Info) // not even root can create a directory there
	s := open(t, Config{Dir: dir, Logger: logs.Logger})
	wantRun(t, compile(t, s, "key", 7), 7)
	m, _ := find(t, s, "key")
	wantRun(t, m, 7)
	logs.ExpectNext(t, hclog.Warn, "dir", dir)
	logs.ExpectNone(t)
	if s.Problem() == nil {
		t.Error("there is no problem")
	}
	m.Close(t.Context())
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestPruneRemovesWhatIsUnused(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for path, age := range map[string]time.Duration{
		storePrefix + "old-engine/unused":   keepEntries + time.Hour,
		storePrefix + "this-engine/unused":  keepEntries + time.Hour,
		storePrefix + "this-engine/used":    keepEntries - time.Hour,
		"thole-open-123/wazero/left":        keepLeftovers + time.Hour,
		"thole-compile-123/code/wazero/new": time.Minute,
		"other/file":                        10 * keepEntries,
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
	if got, want := strings.Join(left, " "), "other/file thole-code-this-engine/used thole-compile-123/code/wazero/new"; got != want {
		t.Errorf("left: %s\nwant: %s", got, want)
	}
}

// TestLeastRecentlyUsedEntriesAreTrimmed, and modules that run from removed
// entries keep running.
func TestLeastRecentlyUsedEntriesAreTrimmed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := open(t, Config{Dir: dir, Bytes: 1})
	first, second := compile(t, s, "first", 1), compile(t, s, "second", 2)
	if left := cachedFiles(dir, filepath.Join(storePrefix+"*", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	wantRun(t, first, 1)
	wantRun(t, second, 2)

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
	for _, e := range cachedFiles(dir, filepath.Join(storePrefix+"*", "*")) {
		left = append(left, filepath.Base(e.path))
	}
	if got := strings.Join(left, " "); got != "newer newest" {
		t.Errorf("left: %s", got)
	}
}
