package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// Somebody has exchanged the files of the compile cache, and later forged them. The host
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
	exchangeEntries(t, cache, false)
	expectBothWork("exchanged")
	exchangeEntries(t, cache, true)
	expectBothWork("forged")
}

// exchangeEntries gives each of the two files in a compile cache the content of the other
// one, in which it can replace the key that says for which module the code is.
func exchangeEntries(t *testing.T, cache string, forge bool) {
	t.Helper()
	paths := cacheEntries(t, cache)
	if len(paths) != 2 {
		t.Fatalf("the cache has %q, want one file for each plugin", paths)
	}
	var texts, keys [2][]byte
	for i, path := range paths {
		text, err := os.ReadFile(path)
		must(t, err)
		found := keyOfEntry.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no key", path)
		}
		texts[i], keys[i] = text, found[1]
	}
	for i, path := range paths {
		text := texts[1-i]
		if forge {
			text = bytes.ReplaceAll(text, keys[1-i], keys[i])
		}
		must(t, os.WriteFile(path, text, 0o600))
	}
}

var keyOfEntry = regexp.MustCompile(`"key":"([^"]+)"`)

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
