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

// TestWayTo: each symbolic link on the way can be re-pointed, wherever it is.
func TestWayTo(t *testing.T) {
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
		end   string
		names string
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
		got := wayTo(filepath.Join(root, path))
		var names []string
		for _, name := range slices.Sorted(maps.Keys(got.names)) {
			names = append(names, strings.TrimPrefix(name, root+"/"))
		}
		if end := strings.TrimPrefix(got.end, root+"/"); end != want.end || strings.Join(names, " ") != want.names {
			t.Errorf("%s: leads to %q by %v", path, end, names)
		}
		if got.end != "" && !got.concerns(filepath.Join(got.end, "a.wasm")) {
			t.Errorf("%s: a file in it is not its concern", path)
		}
		if got.concerns(filepath.Join(root, "another")) {
			t.Errorf("%s: another entry is its concern", path)
		}
	}
}

// TestLinksOnTheWayAreFollowed by notifications alone: the periodic scan comes
// once in an hour.
func TestLinksOnTheWayAreFollowed(t *testing.T) {
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
			snapshots := follow(t, Config{Path: filepath.Join(root, test.path), Period: time.Hour})
			expectYield(t, snapshots, "a=1")
			for range 2 { // the watches follow, there and back
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
