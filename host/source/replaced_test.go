package source

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// TestADirectoryThatComesBackIsFollowed, however it went: plugins may be put
// there by a mount, a link or a deployment tool.
func TestADirectoryThatComesBackIsFollowed(t *testing.T) {
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
			logs := make(chan string, 100)
			snapshots := follow(t, Config{Path: dir, Quiet: 10 * time.Millisecond, Period: time.Hour, Logger: hclog.New(&hclog.LoggerOptions{Output: lineWriter(logs)})})
			next(t, snapshots)
			for round := range 2 {
				away(t, dir)
				expectTold(t, logs, "cannot read the plugin directory")
				makeDirectory(t, dir)
				expectTold(t, logs, "can be read again")
				if got := describe(next(t, snapshots)); got != "" {
					t.Errorf("round %d: made again: %s", round, got)
				}
				write(t, dir, "a.wasm", "1")
				if got := describe(next(t, snapshots)); got != "a=1" {
					t.Errorf("round %d: filled again: %s", round, got)
				}
				if err := os.RemoveAll(dir + ".old"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestADirectoryThatIsMovedAwayHasAllItsFilesOrNone scans one that comes and
// goes all the time.
func TestADirectoryThatIsMovedAwayHasAllItsFilesOrNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	makeDirectory(t, dir)
	const many = 50
	for i := range many {
		write(t, dir, fmt.Sprintf("p%d.wasm", i), "1")
	}
	d, err := NewDirectory(Config{Path: dir, Logger: hclog.NewNullLogger()})
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
	whole := 0
	for err := range moves { // a scan beside each move
		if err != nil {
			t.Fatal(err)
		}
		// One that was listed and could not be read yet is due: the first
		// snapshot waits for it.
		if snapshot, due, err := d.scan(); err == nil && due.IsZero() {
			whole++
			if len(snapshot) != many {
				t.Fatalf("%d plugins of %d", len(snapshot), many)
			}
		}
	}
	if whole == 0 {
		t.Error("the directory was never there")
	}
}

// TestADirectoryThatWasMovedAwayAndBackIsWatched: the system drops the watch
// of a directory that is moved, though it is the same one as before.
func TestADirectoryThatWasMovedAwayAndBackIsWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	makeDirectory(t, dir)
	write(t, dir, "a.wasm", "1")
	snapshots := follow(t, Config{Path: dir, Period: time.Hour})
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

func TestADirectoryThatIsReplacedByALinkIsFollowed(t *testing.T) {
	root := t.TempDir()
	dir, other := filepath.Join(root, "plugins"), filepath.Join(root, "other")
	makeDirectory(t, dir)
	makeDirectory(t, other)
	write(t, dir, "a.wasm", "1")
	write(t, other, "a.wasm", "2")
	snapshots := follow(t, Config{Path: dir, Period: time.Hour})
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

// TestADirectoryWhoseParentsGoIsFollowed: it comes back with all of them, one
// after the other.
func TestADirectoryWhoseParentsGoIsFollowed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "plugins")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a.wasm", "1")
	logs := make(chan string, 100)
	snapshots := follow(t, Config{Path: dir, Period: time.Hour, Logger: hclog.New(&hclog.LoggerOptions{Output: lineWriter(logs)})})
	expectYield(t, snapshots, "a=1")
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	expectTold(t, logs, "cannot read the plugin directory")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a.wasm", "2")
	expectYield(t, snapshots, "a=2")
}
