package devcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/thole-dev/thole/internal/repository"
)

const (
	binaryPath = "bin/thole-devcluster"
	sourcePath = "cmd/thole-devcluster"
)

// Binary returns the path of thole-devcluster. It builds the program if that is
// missing or older than its sources; parallel test processes build it once.
func Binary() (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	binary, source := filepath.Join(root, binaryPath), filepath.Join(root, sourcePath)
	if ok, err := upToDate(binary, source); ok || err != nil {
		return binary, err
	}
	unlock, err := repository.Lock(binary + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if ok, err := upToDate(binary, source); ok || err != nil {
		return binary, err // another process has built it
	}
	return binary, build(root)
}

// upToDate reports whether the binary exists and no source is newer. The go
// command would find out as well, by reading all of Kubernetes for some seconds.
func upToDate(binary, source string) (bool, error) {
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

func newestSource(source string) (newest time.Time, err error) {
	err = filepath.WalkDir(source, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !isSource(e.Name()) {
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

func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") ||
		name == "go.mod" || name == "go.sum" || name == "buildflags"
}

// build does what make does. With other flags, all of Kubernetes would be compiled
// once more.
func build(root string) error {
	cmd := exec.Command(".ci/go-build", sourcePath, binaryPath)
	cmd.Dir = root
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr // how far it is
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", sourcePath, err)
	}
	return nil
}
