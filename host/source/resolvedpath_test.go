package source

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestResolvePathReturnsEachLink covers links at all places of a path: each of
// them can be replaced.
func TestResolvePathReturnsEachLink(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"plain", "releases/41/plugins", "releases/42/plugins", "shared"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"current":       "releases/42",
		"first":         "second",
		"second":        filepath.Join(root, "shared", "third"),
		"shared/third":  "../releases/../plain",
		"loop":          "loop",
		"dangling":      "nowhere/plugins",
		"releases/last": "41",
	} {
		link(t, target, filepath.Join(root, name))
	}
	for path, want := range map[string]struct {
		target  string
		entries string
	}{
		"plain":                 {"plain", "plain"},
		"current":               {"releases/42", "current releases/42"},
		"current/plugins":       {"releases/42/plugins", "current releases/42/plugins"},
		"releases/last/plugins": {"releases/41/plugins", "releases/41/plugins releases/last"},
		"first":                 {"plain", "first plain second shared/third"},
		"missing/plugins":       {"", "missing"},
		"dangling":              {"", "dangling nowhere"},
		"loop":                  {"", "loop"},
	} {
		got := resolvePath(filepath.Join(root, path))
		var entries []string
		for _, entry := range slices.Sorted(maps.Keys(got.entries)) {
			entries = append(entries, strings.TrimPrefix(entry, root+"/"))
		}
		if target := strings.TrimPrefix(got.target, root+"/"); target != want.target || strings.Join(entries, " ") != want.entries {
			t.Errorf("%s leads to %q by %v, want %q by %s", path, target, entries, want.target, want.entries)
		}
		if got.target != "" && !got.concerns(filepath.Join(got.target, "a.wasm")) {
			t.Errorf("%s: a file in the directory does not concern it", path)
		}
		if got.concerns(filepath.Join(root, "another")) {
			t.Errorf("%s: an unrelated file concerns it", path)
		}
		if again := resolvePath(filepath.Join(root, path)); !again.equal(got) {
			t.Errorf("%s: two resolutions differ", path)
		}
	}
}

// TestReplacedLinkInThePathIsNotified covers notifications alone: the periodic
// scan comes once an hour.
func TestReplacedLinkInThePathIsNotified(t *testing.T) {
	for name, test := range map[string]struct{ path, repoint string }{
		"the directory is a link": {"current", "current"},
		"a parent is a link":      {"current/plugins", "current"},
		"a link to a link":        {"first", "current"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			below := strings.TrimPrefix(test.path, test.repoint)
			if test.path == "first" {
				link(t, "current", filepath.Join(root, "first"))
				below = ""
			}
			release := func(n string) string {
				dir := filepath.Join(root, "releases", n, below)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				return dir
			}
			write(t, release("1"), "a.wasm", "1")
			write(t, release("2"), "a.wasm", "2")
			write(t, release("3"), "b.wasm", "3")
			replaceByLink(t, "releases/1", filepath.Join(root, test.repoint))
			snapshots := start(t, Config{Path: filepath.Join(root, test.path), Period: time.Hour})
			expectYield(t, snapshots, "a=1")
			for range 2 { // there and back
				replaceByLink(t, "releases/2", filepath.Join(root, test.repoint))
				expectYield(t, snapshots, "a=2")
				write(t, release("2"), "c.wasm", "new")
				expectYield(t, snapshots, "a=2 c=new")
				replaceByLink(t, "releases/3", filepath.Join(root, test.repoint))
				expectYield(t, snapshots, "b=3")
				if err := os.Remove(filepath.Join(release("2"), "c.wasm")); err != nil {
					t.Fatal(err)
				}
			}
			write(t, release("1"), "x.wasm", "of a release that is no longer current")
			write(t, release("3"), "c.wasm", "3")
			if got := describe(next(t, snapshots)); got != "b=3 c=3" {
				t.Errorf("got %s", got)
			}
		})
	}
}
