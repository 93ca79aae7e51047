//go:build unix

// Package wasmbuild compiles guests for tests, by the same script that builds
// the plugins of the repository: .ci/tools/plugin-build.
//
// TinyGo optimises a whole program for seconds, and many packages test with the
// same few guests. So outputs are kept in .tools/wasm, one per guest and
// toolchain, beside a digest of everything that went into them. A file lock
// around each makes parallel test processes wait for one build instead of
// running their own.
//
// The sources are read by this process and not only by the compiler: that is
// how the go command learns that a cached test result depends on them.
package wasmbuild

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// A Toolchain compiles a guest.
type Toolchain string

// The toolchains that plugins may be written for.
const (
	TinyGo Toolchain = "tinygo"
	Go     Toolchain = "go"
)

// Toolchains lists every toolchain, for tests that hold for all of them.
var Toolchains = []Toolchain{TinyGo, Go}

// Build returns the module that toolchain makes of the main package in dir.
// A relative dir is relative to the repository's root, as in
// "plugins/podmanager"; an absolute one may lie in a module of its own. When
// the build fails, or the toolchain is missing, the test fails.
//
// The bytes are shared between callers: do not change them.
func Build(tb testing.TB, toolchain Toolchain, dir string) []byte {
	tb.Helper()
	root, err := repositoryRoot()
	if err != nil {
		tb.Fatal(err)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	g := guest{root: root, dir: filepath.Clean(dir), toolchain: toolchain}
	built, _ := modules.LoadOrStore(g, sync.OnceValues(g.module))
	wasm, err := built.(func() ([]byte, error))()
	if err != nil {
		tb.Fatalf("build %s with %s: %v", dir, toolchain, err)
	}
	return wasm
}

// modules holds what this process has built: guest to func() ([]byte, error).
var modules sync.Map

// A guest is a main package and the toolchain that compiles it.
type guest struct {
	root      string // of the repository, absolute
	dir       string // of the package, absolute
	toolchain Toolchain
}

// module returns the compiled guest, building it unless the kept output was
// built from the same inputs.
func (g guest) module() ([]byte, error) {
	kept := filepath.Join(g.cache(), g.name())
	unlock, err := lock(kept + ".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()

	inputs, err := g.inputs()
	if err != nil {
		return nil, err
	}
	digest, _ := os.ReadFile(kept + ".inputs")
	if wasm, err := os.ReadFile(kept + ".wasm"); err == nil && bytes.Equal(digest, inputs) {
		return wasm, nil
	}
	// Without the digest first, so that no moment shows the new digest beside
	// the old output.
	if err := os.RemoveAll(kept + ".inputs"); err != nil {
		return nil, err
	}
	if _, err := g.script("-o", kept+".wasm", g.dir); err != nil {
		return nil, err
	}
	if err := os.WriteFile(kept+".inputs", inputs, 0o600); err != nil {
		return nil, err
	}
	return os.ReadFile(kept + ".wasm")
}

// script runs plugin-build and returns what it prints; its error holds what it
// says.
func (g guest) script(args ...string) ([]byte, error) {
	if g.toolchain == Go {
		args = append([]string{"-go"}, args...)
	}
	return output(exec.Command(filepath.Join(g.root, scriptPath), args...))
}

const scriptPath = ".ci/tools/plugin-build"

func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, stderr.Bytes())
	}
	return out, nil
}

// lock takes the exclusive lock of a file, waiting for another process to give
// it up; the kernel releases it when the process ends.
func lock(file string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return func() { _ = f.Close() }, nil
}

// repositoryRoot is the nearest folder above the test's that holds both go.mod
// and the script: a test of a nested module finds the repository too.
var repositoryRoot = sync.OnceValues(func() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isFile(filepath.Join(dir, "go.mod")) && isFile(filepath.Join(dir, scriptPath)) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no repository above %s: go.mod and %s not found", start, scriptPath)
		}
	}
})

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
