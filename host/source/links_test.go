package source

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestLinkOutOfTheDirectoryIsRefused: whoever may write to the directory would
// read what only the host may. A link to the file itself, through a directory,
// and one that is put there after the stat was taken.
func TestLinkOutOfTheDirectoryIsRefused(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret.yaml", "password: x")
	write(t, outside, "secret.wasm", "1")
	f := newFixture(t)
	relative, err := filepath.Rel(f.dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	f.write("own.wasm", "1")
	link(t, filepath.Join(outside, "secret.wasm"), f.path("absolute.wasm"))
	link(t, filepath.Join(relative, "secret.wasm"), f.path("relative.wasm"))
	link(t, relative, f.path("..parent"))
	link(t, "..parent/secret.wasm", f.path("parent.wasm"))
	link(t, "../"+filepath.Base(f.dir)+"/own.wasm", f.path("back.wasm"))
	f.write("policy.wasm", "1")
	link(t, filepath.Join(relative, "secret.yaml"), f.path("policy.yaml"))
	link(t, "/dev/zero", f.path("device.wasm"))
	snapshot := f.settle()
	if len(snapshot) != 7 {
		t.Fatalf("got %v", snapshot)
	}
	for _, p := range snapshot {
		refused := strings.Contains(errorText(p.Err), "leads out of the plugin directory")
		if refused != (p.Name != "own") || strings.Contains(string(p.Policy), "password") {
			t.Errorf("%s: %v, policy %q", p.Name, p.Err, p.Policy)
		}
	}
}

// TestFileThatBecomesALinkOutOfTheDirectoryIsNotRead after its stat was taken.
func TestFileThatBecomesALinkOutOfTheDirectoryIsNotRead(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret.wasm", "1")
	f := newFixture(t)
	f.write("a.wasm", "1")
	snapshot := f.settle()
	replaceByLink(t, filepath.Join(outside, "secret.wasm"), f.path("a.wasm"))
	if file, err := openFile(f.path("a.wasm")); err == nil {
		file.Close()
		t.Error("the link was opened")
	}
	if wasm, err := snapshot[0].Read(); err == nil {
		t.Errorf("read %q of the same digest from elsewhere", wasm)
	}
}

// TestPathToTheDirectoryMayBeALink, as with git-sync: only links in it must not
// lead out of it.
func TestPathToTheDirectoryMayBeALink(t *testing.T) {
	root := t.TempDir()
	makeDirectory(t, filepath.Join(root, "revision-1"))
	write(t, root, "revision-1/a.wasm", "1")
	link(t, "revision-1", filepath.Join(root, "current"))
	expectYield(t, start(t, Config{Path: filepath.Join(root, "current")}), "a=1")
}
