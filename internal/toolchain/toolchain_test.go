//go:build unix

package toolchain

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestTheMinimumIsThatOfTheScripts(t *testing.T) {
	text, err := os.ReadFile("../../.ci/tools/lib.sh")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\ntinygo_minimum="+TinyGoMinimum+"\n") {
		t.Errorf("the oldest TinyGo is another than %s in lib.sh", TinyGoMinimum)
	}
}

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"0.41": true, "0.41.1": true, "0.42": true, "1.0.0": true, "0.100.0": true,
		"0.40.9": false, "0.5": false, "0": false, "": false, "x.y": false,
	} {
		if got := atLeast("0.41", version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}

func TestModuleFlags(t *testing.T) {
	if got := moduleFlags(" -race -mod=mod -tags=x -p=2 -modcacherw"); got != "-mod=mod -p=2 -modcacherw" {
		t.Errorf("kept %q", got)
	}
}

// program writes a shell script.
func program(t *testing.T, path, script string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindTinyGo(t *testing.T) {
	dir := t.TempDir()
	recent := program(t, filepath.Join(dir, "recent", "tinygo"), "echo tinygo version 0.41.1 linux/amd64")
	old := program(t, filepath.Join(dir, "old", "tinygo"), "echo tinygo version 0.30.0 linux/amd64")
	built := program(t, filepath.Join(dir, "project", ".tools", "tinygo", "bin", "tinygo"), "exit 1")
	inside, outside := filepath.Join(dir, "project", "plugins", "x"), filepath.Join(dir, "elsewhere")
	for name, c := range map[string]struct {
		path, named, near string
		want              Compiler
	}{
		"named":            {path: filepath.Dir(recent), named: old, near: inside, want: Compiler{Path: old}},
		"in PATH":          {path: filepath.Dir(recent), near: inside, want: Compiler{Path: recent}},
		"too old in PATH":  {path: filepath.Dir(old), near: inside, want: Compiler{Path: built, own: true}},
		"of the project":   {path: outside, near: inside, want: Compiler{Path: built, own: true}},
		"only somewhere":   {path: outside, near: outside},
		"old and no other": {path: filepath.Dir(old), near: outside},
		"named, not there": {path: filepath.Dir(recent), named: filepath.Join(dir, "none")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", c.path+string(os.PathListSeparator)+"/usr/bin"+string(os.PathListSeparator)+"/bin")
			got, err := findTinyGo(c.named, c.near)
			if got != c.want || (err == nil) != (c.want != Compiler{}) {
				t.Errorf("found %+v, %v", got, err)
			}
			if err != nil && c.named == "" && !strings.Contains(err.Error(), "install it (https://tinygo.org") {
				t.Errorf("the error does not help: %v", err)
			}
			if name == "old and no other" && !strings.Contains(err.Error(), "is version 0.30.0") {
				t.Errorf("the error does not name the old one: %v", err)
			}
		})
	}
}

func TestCompileErrorIsTheOutputOfTheCompiler(t *testing.T) {
	dir := t.TempDir()
	failing := Compiler{Path: program(t, filepath.Join(dir, "a"), "echo '# x'; echo main.go:1:2: wrong >&2; exit 1")}
	if err := failing.Build(t.Context(), dir, filepath.Join(dir, "out")); err == nil || err.Error() != "# x\nmain.go:1:2: wrong" {
		t.Errorf("error: %v", err)
	}
	silent := Compiler{Path: program(t, filepath.Join(dir, "b"), "exit 3")}
	if err := silent.Build(t.Context(), dir, filepath.Join(dir, "out")); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error: %v", err)
	}
}

// TestCancelledBuildEndsItsProcesses: here a grandchild, which would hold the pipe
// for an hour.
func TestAPluginThatNeedsStandardGoIsToldSo(t *testing.T) {
	if testing.Short() {
		t.Skip("runs TinyGo")
	}
	tinygo, err := FindTinyGo("", ".")
	if err != nil {
		t.Skip(err)
	}
	for imported, want := range map[string]bool{"net/http": true, "net/htpp": false} {
		dir := t.TempDir()
		for name, text := range map[string]string{"go.mod": "module example.com/p\n\ngo 1.26\n", "main.go": "package main\n\nimport _ " + strconv.Quote(imported) + "\n\nfunc main() {}\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := tinygo.Build(t.Context(), dir, filepath.Join(dir, "p.wasm"))
		if told := err != nil && strings.Contains(err.Error(), "TinyGo has no package net/http, so this plugin needs standard Go: thole build --go"); err == nil || told != want {
			t.Errorf("%s: %v", imported, err)
		}
	}
}

func TestCancelledBuildEndsItsProcesses(t *testing.T) {
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	slow := Compiler{Path: program(t, filepath.Join(dir, "slow"), "echo > "+begun+"; sleep 3600; echo")}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- slow.Build(ctx, dir, filepath.Join(dir, "out")) }()
	if _, err := os.ReadFile(begun); err != nil { // when the compiler runs
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".thole-build-*")); len(left) > 0 {
		t.Errorf("it has left %q", left)
	}
}
