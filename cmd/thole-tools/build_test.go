package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/cmd/internal/commandtest"
)

// writeProgram writes the main package of a module that returns the value of an expression.
func writeProgram(t *testing.T, expression string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	program := "package main\n\n//go:wasmexport answer\nfunc answer() int32 {\n\treturn " + expression + "\n}\n\nfunc main() {}\n"
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/plugin\n\ngo 1.26\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

// answer returns what a module answers.
func answer(t *testing.T, module string) int32 {
	t.Helper()
	wasm, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	r := wazero.NewRuntime(t.Context())
	defer r.Close(context.WithoutCancel(t.Context()))
	wasi_snapshot_preview1.MustInstantiate(t.Context(), r)
	m, err := r.InstantiateWithConfig(t.Context(), wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		t.Fatal(err)
	}
	results, err := m.ExportedFunction("answer").Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int32(results[0])
}

// Both compilers give the values that `go test` gives.
func TestBothCompilersGiveTheValuesOfGo(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles by TinyGo")
	}
	dir, out := writeProgram(t, "*new(int32(3)) + *new(int32(4))"), t.TempDir()
	for _, flags := range []string{"", "--go "} {
		module := filepath.Join(out, "plugins.d", "x.wasm")
		var said strings.Builder
		if code := command.Execute(t.Context(), rootCommand(), strings.Fields("build "+flags+"-o "+module+" "+dir), io.Discard, &said); code != 0 {
			t.Fatalf("%s: exit code %d: %s", flags, code, &said)
		}
		if got := answer(t, module); got != 7 {
			t.Errorf("%sthe answer is %d", flags, got)
		}
		if files, err := os.ReadDir(filepath.Dir(module)); err != nil || len(files) != 1 {
			t.Errorf("beside the module there is %v, %v", files, err)
		}
	}
}

// TestRelease_AnUncorrectedTinyGoIsRefused builds the pinned TinyGo with the golang.org/x/tools that it requires itself.
func TestRelease_AnUncorrectedTinyGoIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a TinyGo")
	}
	tools, err := filepath.Abs(filepath.Join(commandtest.Repository, ".tools", "tinygo"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tools); err != nil {
		t.Skip("the TinyGo is not one that `make tools` has built: ", err)
	}
	if err := commandtest.DependOn(".ci/tools/tinygo"); err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	if err := os.CopyFS(module, os.DirFS(filepath.Join(commandtest.Repository, ".ci", "tools", "tinygo"))); err != nil {
		t.Fatal(err)
	}
	uncorrected := filepath.Join(t.TempDir(), "tinygo")
	for _, command := range []string{
		"get golang.org/x/tools@v0.30.0",
		"build -buildvcs=false -tags=llvm19 -ldflags=-s -o " + uncorrected + " github.com/tinygo-org/tinygo",
	} {
		cmd := exec.CommandContext(t.Context(), "go", strings.Fields(command)...)
		cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v: %s", command, err, out)
		}
	}
	t.Setenv("TINYGOROOT", tools)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	out := filepath.Join(t.TempDir(), "x.wasm")
	build := func(expression string) (code int, said string) {
		var text strings.Builder
		code = command.Execute(t.Context(), rootCommand(), []string{"build", "--tinygo", uncorrected, "-o", out, writeProgram(t, expression)}, io.Discard, &text)
		return code, text.String()
	}
	for range 2 { // the result is kept
		code, said := build("*new(int32(3))")
		if code != 1 || !strings.Contains(said, "main.go:5:10: new of a value would be a pointer to zero: write v := and the value, and &v\n") {
			t.Errorf("exit code %d: %s", code, said)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("there is a module")
	}
	if code, said := build("*new(int32) + 7"); code != 0 || answer(t, out) != 7 {
		t.Errorf("a program without it: exit code %d: %s", code, said)
	}
}
