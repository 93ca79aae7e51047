package devloop

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/toolchain"
	"github.com/thole-dev/thole/sdk/generate"
)

// tinygo is a compiler whose program is not called.
var tinygo = pluginCompiler{toolchain.Compiler{Path: "tinygo"}}

// project is an author's: a plugin with an embedded file, a package of the
// same module, and a replaced module.
func project(t *testing.T) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree(t, dir,
		"go.mod", "module example.com/mine\n\ngo 1.26\n\nrequire example.com/lib v1.0.0\n\nreplace example.com/lib => ./lib\n",
		"plugin/main.go", "package main\n\nimport (\n\t_ \"embed\"\n\n\t_ \"example.com/lib/deep\"\n\t_ \"example.com/mine/shared\"\n)\n\n//go:embed texts/hello.txt\nvar hello string\n\nfunc main() { println(hello) }\n",
		"plugin/texts/hello.txt", "hello",
		"plugin/main_test.go", "package main\n",
		"plugin/README.md", "text",
		"shared/shared.go", "package shared\n",
		"shared/native.go", "//go:build !tinygo\n\npackage shared\n",
		"other/other.go", "package other\n",
		"lib/go.mod", "module example.com/lib\n\ngo 1.26\n",
		"lib/deep/deep.go", "package deep\n",
	)
	return dir
}

func TestFindSourcesOfAPlugin(t *testing.T) {
	dir := project(t)
	s, err := findSources(t.Context(), filepath.Join(dir, "plugin"), tinygo.tags())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for path := range s.states() {
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(rel))
	}
	slices.Sort(got)
	want := []string{
		"go.mod", "lib/deep/deep.go", "lib/go.mod", "plugin/main.go", "plugin/texts/hello.txt",
		"shared/native.go", "shared/shared.go",
	}
	if !slices.Equal(got, want) {
		t.Errorf("sources are\n%q, want\n%q", got, want)
	}
	generated := []string{filepath.Join(dir, "plugin", generate.FileName), filepath.Join(dir, "shared", generate.FileName)}
	if slices.Sort(s.generated); !slices.Equal(slices.Compact(s.generated), generated) {
		t.Errorf("generated files are %q, want %q", s.generated, generated)
	}
	if !slices.Contains(s.files, filepath.Join(dir, "go.sum")) {
		t.Error("a go.sum that is made later is not a source")
	}
}

func TestFindSourcesOfAWorkspace(t *testing.T) {
	dir := project(t)
	tree(t, dir, "go.work", "go 1.26\n\nuse (\n\t.\n\t./lib\n)\n")
	s, err := findSources(t.Context(), filepath.Join(dir, "plugin"), tinygo.tags())
	if err != nil || !slices.Contains(s.files, filepath.Join(dir, "go.work")) {
		t.Errorf("go.work is not among %q: %v", s.files, err)
	}
	if _, ok := s.folders[filepath.Join(dir, "lib", "deep")]; !ok {
		t.Errorf("the package of the workspace is not among %v", s.folders)
	}
}

func TestFindSourcesOfAPackageThatDoesNotCompile(t *testing.T) {
	dir := project(t)
	tree(t, dir, "plugin/main.go", "package main\n\nimport _ \"example.com/mine/shared\"\n\nfunc {\n")
	s, err := findSources(t.Context(), filepath.Join(dir, "plugin"), tinygo.tags())
	if _, there := s.states()[filepath.Join(dir, "plugin", "main.go")]; err != nil || !there {
		t.Errorf("main.go is missing: %v", err)
	}
}

func TestCheckPackage(t *testing.T) {
	dir := project(t)
	alone := t.TempDir()
	tree(t, alone, "main.go", "package main\n")
	tree(t, dir, "empty/README.md", "", "broken/main.go", "package main\nfunc {\n", "worse/main.go", "package\n")
	for path, want := range map[string]string{
		filepath.Join(dir, "plugin"):            "",
		filepath.Join(dir, "broken"):            "", // the build says what is wrong
		filepath.Join(dir, "worse"):             "",
		filepath.Join(dir, "shared"):            "holds package shared: a plugin is built from a package main",
		filepath.Join(dir, "empty"):             "has no Go files",
		filepath.Join(dir, "nowhere"):           "no such file or directory: name the directory of a plugin's main package",
		filepath.Join(dir, "plugin", "main.go"): "is a file: name the directory",
		alone:                                   "is in no Go module: run `go mod init NAME`",
	} {
		err := checkPackage(t.Context(), path, tinygo.tags())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestMissingGoCommandIsNamed(t *testing.T) {
	dir := project(t)
	t.Setenv("PATH", t.TempDir())
	if err := checkPackage(t.Context(), filepath.Join(dir, "plugin"), tinygo.tags()); err == nil || !strings.Contains(err.Error(), "needs the go command: install Go") {
		t.Errorf("error: %v", err)
	}
}

func TestRelocate(t *testing.T) {
	text := "# example.com/x\nmain.go:1:2: undefined: a\n../lib/lib.go:3: b: c\n/opt/go/d.go:4:5: e\n\tmain.go:9:9: more\ngo: main: no"
	want := "# example.com/x\nplugins/x/main.go:1:2: undefined: a\nplugins/lib/lib.go:3: b: c\n/opt/go/d.go:4:5: e\n\tmain.go:9:9: more\ngo: main: no"
	if got := relocate(text, "/home/me/plugins/x", "/home/me"); got != want {
		t.Errorf("it is\n%s", got)
	}
	if got := relocate("main.go:1:2: a", "/home/me/x", "/home/me/x"); got != "main.go:1:2: a" {
		t.Errorf("in the directory itself: %s", got)
	}
}

func TestOnlyInFindsErrorsOfOtherFiles(t *testing.T) {
	for text, want := range map[string]bool{
		"# x\ngen.go:1:2: a\n../y/gen.go:2: b": true,
		"gen.go:1:2: a\nmain.go:1:2: b":        false,
		"nothing":                              false,
	} {
		if got := onlyIn(text, "gen.go"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
