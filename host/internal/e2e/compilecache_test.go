package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// Somebody has exchanged the files of the compile cache, and later damaged them. The host
// runs nothing of that: it compiles each plugin again, which then works.
func TestCodeIsRunAsItWasCompiledForItsModule(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	installCRD(t, testdata+"badinput/crd.yaml")
	ns, d, cache := namespace(t), newDirectory(t), t.TempDir()
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	d.install("mood", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"badinput"))
	expectBothWork := func(name string) {
		t.Run(name, func(t *testing.T) {
			p := start(t, d, ns, "", quietlyIn(cache))
			p.awaitRunning("podmanager", 1)
			p.awaitRunning("mood", 1)
			expectServed(t, ns, name)
			createMood(t, ns, name, "good")
			await.Until(t, name+" is Ready", func() bool { return ready(get(t, moods, ns, name)) })
			p.stop()
			p.expectNoErrors()
		})
	}
	expectBothWork("compiled")
	entries := cacheEntries(t, cache)
	if len(entries) != 2 {
		t.Fatalf("the cache has %q, want one file for each plugin", entries)
	}
	a, b, other := entries[0], entries[1], filepath.Join(t.TempDir(), "other")
	must(t, os.Rename(a, other))
	must(t, os.Rename(b, a))
	must(t, os.Rename(other, b))
	expectBothWork("exchanged")

	for _, entry := range cacheEntries(t, cache) {
		text, err := os.ReadFile(entry)
		must(t, err)
		damaged := append(bytes.Repeat([]byte{0xcc}, len(text)/4), text[len(text)/4:]...) // a trap of x86
		must(t, os.WriteFile(entry, damaged, 0o600))
	}
	expectBothWork("damaged")
}

// cacheEntries returns the files below a directory.
func cacheEntries(t *testing.T, dir string) (paths []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}
