package devcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	binaryPath = "bin/thole-devcluster"
	sourcePath = "cmd/thole-devcluster"
	// flagsFile holds the linker's flags, which the Makefile reads too.
	flagsFile = "ldflags"
)

// Binary returns the path of thole-devcluster, which it builds when it is
// missing or older than its sources. Processes that want it at the same time
// build it once.
func Binary() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	binary, source := filepath.Join(root, binaryPath), filepath.Join(root, sourcePath)
	if ok, err := fresh(binary, source); ok || err != nil {
		return binary, err
	}
	unlock, err := lock(binary + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if ok, err := fresh(binary, source); ok || err != nil {
		return binary, err // someone else built it
	}
	return binary, build(binary, source)
}

// repository is the first directory above the working directory that holds the
// sources; a test runs in the directory of its package.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, sourcePath, flagsFile)); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find repository: no directory above %s holds %s", start, sourcePath)
		}
	}
}

// fresh says whether the binary exists and no source is newer.
func fresh(binary, source string) (bool, error) {
	info, err := os.Stat(binary)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	newest, err := newestSource(source)
	return !newest.After(info.ModTime()), err
}

func newestSource(source string) (time.Time, error) {
	var newest time.Time
	err := filepath.WalkDir(source, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !isSource(e) {
			return err
		}
		info, err := e.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	})
	return newest, err
}

func isSource(e fs.DirEntry) bool {
	name := e.Name()
	if strings.HasSuffix(name, "_test.go") {
		return false
	}
	return strings.HasSuffix(name, ".go") || name == "go.mod" || name == "go.sum" || name == flagsFile
}

// lock waits until no other process holds the file.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func build(binary, source string) error {
	flags, err := os.ReadFile(filepath.Join(source, flagsFile))
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "devcluster: building %s; the first time this takes some minutes\n", binaryPath)
	// Built beside its place and moved: who runs the old one is not disturbed,
	// and nobody sees half of the new one.
	finished := binary + ".new"
	// With the flags of the Makefile and no others: other flags would mean
	// compiling all of Kubernetes once more.
	cmd := exec.Command("go", "build", "-ldflags", string(flags), "-o", finished, ".")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", sourcePath, err, out)
	}
	return os.Rename(finished, binary)
}
