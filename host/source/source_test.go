package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestChangeOfTheDirectoryIsYielded(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.wasm", "1")
	write(t, dir, "notes.txt", "x")
	write(t, dir, ".hidden.wasm", "x")
	snapshots := start(t, Config{Path: dir, Period: time.Hour})

	if got := describe(next(t, snapshots)); got != "b=1" {
		t.Errorf("at start: %s", got)
	}
	write(t, dir, "a.wasm", "1")
	if got := describe(next(t, snapshots)); got != "a=1 b=1" {
		t.Errorf("after a new file: %s", got)
	}
	write(t, dir, "b.wasm", "2")
	if got := describe(next(t, snapshots)); got != "a=1 b=2" {
		t.Errorf("after a replacement: %s", got)
	}
	if err := os.Remove(filepath.Join(dir, "a.wasm")); err != nil {
		t.Fatal(err)
	}
	if got := describe(next(t, snapshots)); got != "b=2" {
		t.Errorf("after a removal: %s", got)
	}
}

func TestFileReplacedByItsOwnContentYieldsNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.wasm", "1")
	snapshots := start(t, Config{Path: dir, Period: time.Hour})
	next(t, snapshots)
	write(t, dir, "a.wasm", "1")
	write(t, dir, "b.wasm", "1") // the next snapshot must be about b alone
	if got := describe(next(t, snapshots)); got != "a=1 b=1" {
		t.Errorf("got %s", got)
	}
}

func TestPeriodicScanYieldsWithoutNotifications(t *testing.T) {
	dir := t.TempDir()
	d, err := NewDirectory(Config{Path: dir, Period: 20 * time.Millisecond, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	d.system.notify = func() (*fsnotify.Watcher, error) { return nil, errors.ErrUnsupported }
	snapshots := run(t, d)
	if got := describe(next(t, snapshots)); got != "" {
		t.Errorf("at the start the snapshot is %s", got)
	}
	write(t, dir, "a.wasm", "1")
	if got := describe(next(t, snapshots)); got != "a=1" {
		t.Errorf("the snapshot is %s", got)
	}
}

func TestUnreadableFileIsAnErrorOfItsPluginAlone(t *testing.T) {
	f := newFixture(t)
	f.write("good.wasm", "1")
	makeDirectory(t, f.path("dir.wasm"))
	link(t, "nowhere", f.path("link.wasm"))
	link(t, "loop.wasm", f.path("loop.wasm"))
	big := f.open("big.wasm")
	if err := big.Truncate(MaxFile + 1); err != nil {
		t.Fatal(err)
	}
	big.Close()

	want := map[string]string{
		"big": "larger than 16 MiB", "dir": "is a directory", "good": "",
		"link": "symbolic link to a file that is not there", "loop": "symbolic link that leads to itself",
	}
	for _, p := range f.settle() {
		text, ok := want[p.Name]
		if !ok || (text == "") != (p.Err == nil) || !strings.Contains(errorText(p.Err), text) {
			t.Errorf("%s: %v", p.Name, p.Err)
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestPolicyIsThatOfThePluginOfItsName(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.wasm", "1")
	write(t, dir, "b.yaml", "of no plugin")
	snapshots := start(t, Config{Path: dir, Period: time.Hour})
	if s := next(t, snapshots); len(s) != 1 || s[0].Policy != nil {
		t.Errorf("at start: %+v", s)
	}
	write(t, dir, "a.yaml", "dryRun: true")
	if s := next(t, snapshots); string(s[0].Policy) != "dryRun: true" {
		t.Errorf("with a policy: %+v", s)
	}
	replaceByLink(t, "nowhere", filepath.Join(dir, "a.yaml"))
	if s := next(t, snapshots); s[0].Err == nil || !strings.Contains(s[0].Err.Error(), "a.yaml") {
		t.Errorf("with an unreadable policy: %+v", s)
	}
}

func TestMissingDirectoryIsRefused(t *testing.T) {
	_, err := NewDirectory(Config{Path: filepath.Join(t.TempDir(), "none")})
	if err == nil || !strings.Contains(err.Error(), "--plugins") {
		t.Errorf("got %v", err)
	}
}
