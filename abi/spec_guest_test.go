package abi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

// TestGuestInSpecPassesConformanceCheck builds the guest that SPEC.md shows.
func TestGuestInSpecPassesConformanceCheck(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(spec), "```go\n")
	source, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("SPEC.md has no Go example")
	}
	wasm := buildGuest(t, source)
	if err := tck.Check(wasm); err != nil {
		t.Error(err)
	}
}

func buildGuest(t *testing.T, source string) []byte {
	t.Helper()
	dir := t.TempDir()
	main, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "hello.wasm")
	if err := os.WriteFile(main, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, main)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
