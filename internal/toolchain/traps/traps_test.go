package traps

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/repository"
	"github.com/thole-dev/thole/internal/toolchain"
)

// program writes files of a module.
func program(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const goMod = "module example.com/plugin\n\ngo 1.26\n"

func TestPlacesOfATrapAreFound(t *testing.T) {
	for code, want := range map[string]int{
		"x := new(int32(3))":                             1,
		"x := (new)(`text`)":                             1,
		"y := 3; x := new(y)":                            1,
		"x := new([]int{*new(1)})":                       2,
		"x := new(int32)":                                0,
		"x := new([]int)":                                0,
		"x := new(struct{ a int })":                      0,
		"x := generic[int]()":                            0,
		"new := func(int) int { return 1 }; x := new(3)": 0,
	} {
		dir := program(t, map[string]string{
			"go.mod":  goMod,
			"main.go": "package main\n\nfunc generic[T any]() *T { return new(T) }\n\nfunc main() { " + code + "; _ = x }\n",
		})
		got := placesIn(t, dir)
		if len(got) != want || slices.ContainsFunc(got, func(place string) bool { return !strings.HasPrefix(place, "main.go:5:") }) {
			t.Errorf("%s: %q", code, got)
		}
	}
}

func placesIn(t *testing.T, dir string) []string {
	t.Helper()
	places, err := find(t.Context(), dir, known)
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// What a plugin imports is compiled by the same compiler: packages of its module, other modules, and generic code.
func TestPlacesInDependenciesAreFound(t *testing.T) {
	dir := program(t, map[string]string{
		"go.mod":          goMod + "\nrequire example.com/other v0.0.0\n\nreplace example.com/other => ./other\n",
		"main.go":         "package main\n\nimport (\n\t\"example.com/other\"\n\n\t\"example.com/plugin/api\"\n)\n\nvar _, _ = api.Three(), other.Pointer(1)\n\nfunc main() {}\n",
		"api/api.go":      "package api\n\nfunc Three() *int {\n\treturn new(3)\n}\n",
		"api/api_test.go": "package api\n\nvar _ = new(4)\n",
		"unused/u.go":     "package unused\n\nvar _ = new(5)\n",
		"host.go":         "//go:build !wasip1\n\npackage main\n\nvar _ = new(6)\n",
		"other/go.mod":    "module example.com/other\n\ngo 1.26\n",
		"other/other.go":  "package other\n\nfunc Pointer[T any](v T) *T {\n\treturn new(v)\n}\n",
	})
	got := placesIn(t, dir)
	want := []string{"api/api.go:4:9: ", "other/other.go:4:9: "}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func tinygo(t *testing.T) toolchain.Compiler {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles by TinyGo")
	}
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	c, err := toolchain.FindTinyGo("", root)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The result is kept by the content of the compiler: one that was known to be wrong would be refused until it is another.
func TestTheCompilerOfTheRepositoryIsTriedOnce(t *testing.T) {
	c := tinygo(t)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	trapped := program(t, map[string]string{"go.mod": goMod, "main.go": "package main\n\nvar three = new(3)\n\nfunc main() {}\n"})
	if err := Check(t.Context(), c, trapped); err != nil {
		t.Fatalf("%v\nThe TinyGo in PATH is not one that this repository can be tested with: take it from PATH, and run `make tools`", err)
	}
	kept, err := filepath.Glob(filepath.Join(cache, "thole", "tinygo", "*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %q, %v", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte("new-of-value wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = Check(t.Context(), c, trapped)
	for _, part := range []string{"main.go:3:13: new of a value would be a pointer to zero", c.Path, "`make tools`"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error %v has no %q", err, part)
		}
	}
	without := program(t, map[string]string{"go.mod": goMod, "main.go": "package main\n\nvar three = new(int)\n\nfunc main() {}\n"})
	if err := Check(t.Context(), c, without); err != nil {
		t.Errorf("a program without it: %v", err)
	}
	if err := Check(t.Context(), toolchain.Compiler{}, trapped); err != nil {
		t.Errorf("standard Go: %v", err)
	}
	// What cannot be read is found again.
	if err := os.WriteFile(kept[0], []byte("new-of"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), c, trapped); err != nil {
		t.Errorf("with a broken result: %v", err)
	}
}

func TestACompilerThatCannotBeTriedIsAnError(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "tinygo")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\n[ $1 = version ] || { echo no LLVM >&2; exit 1; }\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	c, err := toolchain.FindTinyGo(broken, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), c, dir); err == nil || !strings.Contains(err.Error(), "try "+broken+": no LLVM") {
		t.Errorf("got %v", err)
	}
}
