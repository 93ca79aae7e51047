package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
)

// TestMissingNotificationsAreLoggedOnce also shows that the periodic scan finds
// changes meanwhile, and that notifications are tried again.
func TestMissingNotificationsAreLoggedOnce(t *testing.T) {
	dir, logs := t.TempDir(), logtest.New(hclog.Info)
	d, err := NewDirectory(Config{Path: dir, Period: 10 * time.Millisecond, Logger: logs.Logger})
	if err != nil {
		t.Fatal(err)
	}
	var works atomic.Bool
	d.system.notify = func() (*fsnotify.Watcher, error) {
		if works.Load() {
			return fsnotify.NewWatcher()
		}
		return nil, os.NewSyscallError("inotify_init1", syscall.EMFILE)
	}
	snapshots := run(t, d)
	expectYield(t, snapshots, "")
	logs.ExpectNext(t, hclog.Warn, "error", "inotify_init1: too many open files")
	write(t, dir, "a.wasm", "1")
	expectYield(t, snapshots, "a=1")
	if err := os.Remove(filepath.Join(dir, "a.wasm")); err != nil {
		t.Fatal(err)
	}
	expectYield(t, snapshots, "")
	works.Store(true)
	logs.ExpectNext(t, hclog.Info, "path", dir)
}

func TestRemedyNamesTheLimitToRaise(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EMFILE: "fs.inotify.max_user_instances", syscall.ENOSPC: "fs.inotify.max_user_watches", syscall.EIO: "",
	} {
		if got := remedy(fmt.Errorf("add watch: %w", err)); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%v: %q", err, got)
		}
	}
}

func TestFloodOfNotificationsDoesNotDelayAChange(t *testing.T) {
	dir := t.TempDir()
	snapshots := start(t, Config{Path: dir, Period: time.Hour})
	next(t, snapshots)
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	flood.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := filepath.Join(dir, fmt.Sprintf(".rsync.%d", i%100))
			if err := os.WriteFile(name, []byte("1"), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	write(t, dir, "a.wasm", "1")
	expectYield(t, snapshots, "a=1")
	write(t, dir, "a.wasm", "2")
	expectYield(t, snapshots, "a=2")
}

func TestWatchesOfAReplacedLinkAreRemoved(t *testing.T) {
	root := t.TempDir()
	for i := range 5 {
		makeDirectory(t, filepath.Join(root, fmt.Sprint(i)))
		write(t, filepath.Join(root, fmt.Sprint(i)), "a.wasm", fmt.Sprint(i))
	}
	replaceByLink(t, "0", filepath.Join(root, "current"))
	w := newWatch(filepath.Join(root, "current"), fsnotify.NewWatcher, discard)
	defer w.close()
	w.follow()
	for i := range 20 {
		replaceByLink(t, fmt.Sprint(i%5), filepath.Join(root, "current"))
		w.follow()
		if at := w.watcher.WatchList(); len(at) != 2 || w.unavailable {
			t.Fatalf("%v is watched, unavailable is %v", at, w.unavailable)
		}
		if n, ok := kernelWatches(t); ok && n != 2 {
			t.Fatalf("the kernel has %d watches", n)
		}
	}
}

// TestWatchOfADirectoryThatLostItsNameIsRemoved covers a directory that is
// another one because its parent was moved away.
func TestWatchOfADirectoryThatLostItsNameIsRemoved(t *testing.T) {
	root := t.TempDir()
	w := newWatch(filepath.Join(root, "parent", "plugins"), fsnotify.NewWatcher, discard)
	defer w.close()
	for i := range 10 {
		if err := os.MkdirAll(w.path, 0o700); err != nil {
			t.Fatal(err)
		}
		w.follow()
		if n, ok := kernelWatches(t); ok && n != 2 {
			t.Fatalf("the kernel has %d watches", n)
		}
		if err := os.Rename(filepath.Join(root, "parent"), filepath.Join(root, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// kernelWatches returns how many inotify watches this process has; ok is false
// where the system does not say it.
func kernelWatches(t *testing.T) (n int, ok bool) {
	t.Helper()
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil || len(infos) == 0 {
		return 0, false
	}
	for _, info := range infos {
		if text, err := os.ReadFile(info); err == nil {
			n += strings.Count(string(text), "inotify wd:")
		}
	}
	return n, true
}

// TestChangeAmongThousandsOfPluginsReadsFewFiles covers a notification in a
// directory of 2,000 plugins.
func TestChangeAmongThousandsOfPluginsReadsFewFiles(t *testing.T) {
	dir := t.TempDir()
	const many = 2000
	for i := range many {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%04d.wasm", i)), []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := NewDirectory(Config{Path: dir, Period: time.Hour, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	d.system.open = func(path string) (*os.File, error) {
		opened.Add(1)
		return openFile(path)
	}
	snapshots := run(t, d)
	await.Until(t, "a snapshot of all plugins", func() bool { return len(next(t, snapshots)) == many })
	before := opened.Load()
	write(t, dir, "p1000.wasm", "2")
	s := next(t, snapshots)
	if len(s) != many || s[1000].Digest != digestOf([]byte("2")) {
		t.Errorf("%d plugins, %+v", len(s), s[1000])
	}
	// All files are read once more if the last two seconds were spent here.
	if n := opened.Load() - before; n != 1 && n < many {
		t.Errorf("%d files were read for one change", n)
	}
}
