package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRelease_GuestsRunOnArm64 runs the conformance kit, and the calculations that the engine's compiler for arm64
// gets wrong, in an emulator of it.
func TestRelease_GuestsRunOnArm64(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil || runtime.GOARCH == "arm64" {
		t.Skipf("there is no emulator, or no need for one: %v: on Debian qemu-user has it", err)
	}
	for _, c := range []struct{ folder, tests, one string }{
		{".", "^TestConformance$", "TestConformance"},
		{"meter", "^TestRemainder|^TestHostile", "TestRemaindersAmongManyValues"},
	} {
		t.Run(c.folder, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "arm64.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", binary, "./"+c.folder)
			build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			test := exec.CommandContext(t.Context(), emulator, binary, "-test.run", c.tests, "-test.v")
			test.Dir = c.folder
			if out, err := test.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+c.one+" ") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
