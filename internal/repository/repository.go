// Package repository is what tests that build programs share: where the
// repository is, and a lock so that parallel test processes build once.
package repository

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// marker is a file that the root of the repository has, and the root of no other
// module in it.
const marker = ".ci/tools/lib.sh"

// Root returns the absolute path of the repository. A test runs in the directory
// of its package, so that is one of the directories above, also for a test of a
// nested module.
var Root = sync.OnceValues(func() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, marker)); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find repository: no directory above %s has %s", start, marker)
		}
	}
})

// Lock creates a file and blocks until no other process has locked it. The lock
// ends with unlock or with the process.
func Lock(path string) (unlock func(), err error) {
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
