//go:build unix

package wasmbuild

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/repository"
)

const testGuest = "internal/wasmbuild/testdata/guest"

func TestEachToolchainBuildsAModuleWithoutLocalPaths(t *testing.T) {
	for _, toolchain := range Toolchains {
		t.Run(string(toolchain), func(t *testing.T) {
			t.Parallel()
			wasm := Build(t, toolchain, testGuest)
			if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
				t.Fatalf("not a module: %q", wasm[:min(8, len(wasm))])
			}
			for _, want := range []string{"_initialize", "answer", "main.answer"} {
				if !bytes.Contains(wasm, []byte(want)) {
					t.Errorf("%q is not in the module; the last one is in its name section", want)
				}
			}
			// The digest of a plugin must not depend on where it is built.
			if root, _ := repository.Root(); bytes.Contains(wasm, []byte(root)) {
				t.Errorf("the module contains the path %s", root)
			}
		})
	}
}

func TestOutputIsKeptUntilASourceChanges(t *testing.T) {
	g := guestOutsideRepository(t)
	first := g.expectBuilt(t)

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { g.expectKept(t, first) })
	}
	wg.Wait()

	edit(t, filepath.Join(g.dir, "main.go"), "42", "43")
	if bytes.Equal(g.expectBuilt(t), first) {
		t.Error("the output is the same after the source changed")
	}
}

func TestGuestWithAChangedDependencyIsRebuilt(t *testing.T) {
	g := guestOutsideRepository(t)
	write(t, filepath.Join(g.dir, "number", "number.go"), "package number\n\nconst Answer = 42\n")
	edit(t, filepath.Join(g.dir, "main.go"), "package main", "package main\n\nimport \"guest.test/guest/number\"")
	edit(t, filepath.Join(g.dir, "main.go"), "return 42", "return number.Answer")
	first := g.expectBuilt(t)
	g.expectKept(t, first)

	edit(t, filepath.Join(g.dir, "number", "number.go"), "42", "43")
	if bytes.Equal(g.expectBuilt(t), first) {
		t.Error("the output is the same after a dependency changed")
	}
}

func TestFailedBuildIsAnErrorEveryTime(t *testing.T) {
	g := guestOutsideRepository(t)
	g.expectBuilt(t)
	edit(t, filepath.Join(g.dir, "main.go"), "42", "undefinedName")
	for range 2 {
		_, err := g.module()
		if err == nil || !strings.Contains(err.Error(), "undefinedName") {
			t.Fatalf("error = %v, want the compiler's", err)
		}
	}
}

func TestErrorForMissingTinyGoNamesTheCommandToRun(t *testing.T) {
	g := guestOutsideRepository(t)
	g.toolchain = TinyGo
	// A repository in which `make tools` has not run.
	g.root = t.TempDir()
	t.Chdir(g.root)
	hideTinyGo(t)

	_, err := g.module()
	if err == nil || !strings.Contains(err.Error(), "run `make tools`") {
		t.Fatalf("error = %v, want it to name `make tools`", err)
	}
}

// guestOutsideRepository copies the test guest to a module of its own, for the
// faster toolchain.
func guestOutsideRepository(t *testing.T) guest {
	t.Helper()
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, testGuest, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	g := guest{root: root, dir: t.TempDir(), toolchain: Go}
	write(t, filepath.Join(g.dir, "go.mod"), "module guest.test/guest\n\ngo 1.26\n")
	// Outputs are kept longer than a test: each test has a guest of its own.
	write(t, filepath.Join(g.dir, "main.go"), string(source)+"\n// "+g.dir+" "+time.Now().String()+"\n")
	return g
}

func (g guest) expectBuilt(t *testing.T) []byte {
	t.Helper()
	path := g.mustOutput(t)
	if _, err := os.Stat(path); err == nil {
		t.Fatal("the output is there already")
	}
	wasm, err := g.module()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("nothing was built: %v", err)
	}
	return wasm
}

func (g guest) expectKept(t *testing.T, want []byte) {
	t.Helper()
	path := g.mustOutput(t)
	before, err := os.Stat(path)
	if err != nil {
		t.Error(err)
		return
	}
	wasm, err := g.module()
	if err != nil || !bytes.Equal(wasm, want) {
		t.Errorf("the output is not the kept one (%v)", err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("built again (%v)", err)
	}
}

func (g guest) mustOutput(t *testing.T) string {
	t.Helper()
	path, err := g.output()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOutputsThatWereNotUsedForLongAreRemoved(t *testing.T) {
	cache := t.TempDir()
	for name, age := range map[string]time.Duration{"old.wasm": keptFor + time.Hour, "new.wasm": keptFor - time.Hour} {
		write(t, filepath.Join(cache, name), "")
		used := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(cache, name), used, used); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(cache); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 || left[0].Name() != "new.wasm" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// hideTinyGo removes every directory that has a tinygo from PATH.
func hideTinyGo(t *testing.T) {
	t.Helper()
	var path []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "tinygo")); err != nil {
			path = append(path, dir)
		}
	}
	t.Setenv("PATH", strings.Join(path, string(filepath.ListSeparator)))
}

func edit(t *testing.T, file, old, replacement string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte(old)) {
		t.Fatalf("%s: no %q to replace", file, old)
	}
	write(t, file, strings.Replace(string(content), old, replacement, 1))
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
