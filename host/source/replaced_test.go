package source

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestDirectoryThatComesBackIsScannedAndWatched(t *testing.T) {
	for name, away := range map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
		"moved": func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "plugins")
			makeDirectory(t, dir)
			write(t, dir, "a.wasm", "1")
			logs := logtest.New(hclog.Info)
			snapshots := start(t, Config{Path: dir, Period: time.Hour, Logger: logs.Logger})
			next(t, snapshots)
			for round := range 2 {
				away(t, dir)
				logs.ExpectNext(t, hclog.Error, "path", dir)
				makeDirectory(t, dir)
				logs.ExpectNext(t, hclog.Info, "path", dir)
				if got := describe(next(t, snapshots)); got != "" {
					t.Errorf("round %d: the new directory has %s", round, got)
				}
				write(t, dir, "a.wasm", "1")
				if got := describe(next(t, snapshots)); got != "a=1" {
					t.Errorf("round %d: the filled directory has %s", round, got)
				}
				if err := os.RemoveAll(dir + ".old"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestDirectoryThatIsMovedAwayNeverLosesPlugins scans a directory that is
// moved away and back all the time.
func TestDirectoryThatIsMovedAwayNeverLosesPlugins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	makeDirectory(t, dir)
	const many = 50
	for i := range many {
		write(t, dir, fmt.Sprintf("p%d.wasm", i), "1")
	}
	d, err := NewDirectory(Config{Path: dir, StableFor: time.Nanosecond, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	moves := make(chan error)
	go func() {
		defer close(moves)
		for range 500 {
			moves <- os.Rename(dir, dir+".away")
			moves <- os.Rename(dir+".away", dir)
		}
	}()
	check := func() (complete bool) {
		snapshot, due, err := d.scan()
		if err != nil || !due.IsZero() { // then another scan is due, and this one has not read all files
			return false
		}
		if len(snapshot) != many {
			t.Fatalf("%d plugins of %d", len(snapshot), many)
		}
		return true
	}
	for err := range moves { // each scan runs beside a move
		if err != nil {
			t.Fatal(err)
		}
		check()
	}
	await.Until(t, "the directory that stays is read", check)
}

// TestDirectoryThatWasMovedAwayAndBackIsWatched covers the same directory
// under its old name: the kernel has dropped its watch.
func TestDirectoryThatWasMovedAwayAndBackIsWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	makeDirectory(t, dir)
	write(t, dir, "a.wasm", "1")
	snapshots := start(t, Config{Path: dir, Period: time.Hour})
	expectYield(t, snapshots, "a=1")
	for round := range 3 {
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		write(t, dir+".away", "a.wasm", fmt.Sprint("away ", round))
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		expectYield(t, snapshots, fmt.Sprint("a=away ", round))
		write(t, dir, "a.wasm", fmt.Sprint("back ", round))
		expectYield(t, snapshots, fmt.Sprint("a=back ", round))
	}
}

func TestDirectoryThatIsReplacedByALinkIsWatched(t *testing.T) {
	root := t.TempDir()
	dir, other := filepath.Join(root, "plugins"), filepath.Join(root, "other")
	makeDirectory(t, dir)
	makeDirectory(t, other)
	write(t, dir, "a.wasm", "1")
	write(t, other, "a.wasm", "2")
	snapshots := start(t, Config{Path: dir, Period: time.Hour})
	expectYield(t, snapshots, "a=1")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	link(t, "other", dir)
	expectYield(t, snapshots, "a=2")
	write(t, other, "a.wasm", "3")
	expectYield(t, snapshots, "a=3")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	makeDirectory(t, dir)
	expectYield(t, snapshots, "")
	write(t, dir, "b.wasm", "4")
	expectYield(t, snapshots, "b=4")
}

// TestDirectoryWhoseParentsAreCreatedAgainIsWatched covers parents that come
// back one after the other.
func TestDirectoryWhoseParentsAreCreatedAgainIsWatched(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "plugins")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a.wasm", "1")
	logs := logtest.New(hclog.Info)
	snapshots := start(t, Config{Path: dir, Period: time.Hour, Logger: logs.Logger})
	expectYield(t, snapshots, "a=1")
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	logs.ExpectNext(t, hclog.Error, "path", dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a.wasm", "2")
	expectYield(t, snapshots, "a=2")
}
