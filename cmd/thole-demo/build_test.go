//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const repository = "../.." // from the folder that a test runs in

// binaries are what a demo runs, each built by what `make demo` builds it with.
type binaries struct{ devcluster, thole, plugins string }

var build = sync.OnceValues(func() (b binaries, err error) {
	root, err := filepath.Abs(repository)
	if err != nil {
		return b, err
	}
	if buildDir, err = os.MkdirTemp("", "thole-demo-test-"); err != nil {
		return b, err
	}
	b = binaries{filepath.Join(root, "bin/thole-devcluster"), filepath.Join(buildDir, "thole"), filepath.Join(root, "bin/plugins")}
	return b, errors.Join(
		dependOnSources(root),
		buildDevcluster(root, b.devcluster),
		command(root, "go", "build", "-o", b.thole, "./cmd/thole"),
		command(root, "make", "-s", "bin/plugins/podmanager.wasm"),
	)
})

func built(t *testing.T) binaries {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// buildDevcluster builds the control plane if it is missing. Tests of other
// packages may want to do the same at the same time; the lock is the one of
// host/internal/devcluster.
func buildDevcluster(root, binary string) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o750); err != nil {
		return err
	}
	lock, err := os.OpenFile(binary+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(binary); err == nil {
		return nil
	}
	return command(root, "make", "-s", "devcluster")
}

func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS") {
			cmd.Env = append(cmd.Env, variable) // not those of a make that runs this test
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// dependOnSources looks at everything that the binaries are built from, for
// that is how the go command learns that a cached test result depends on it.
func dependOnSources(root string) error {
	var errs []error
	for _, dir := range []string{"abi", "sdk", "host", "plugins", "cmd"} {
		errs = append(errs, filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		}))
	}
	return errors.Join(errs...)
}
