// Package datadir is the directory that a development cluster lives in: what
// lies where, and the lock that keeps a second cluster out.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names inside the directory. Roles run with the directory as their working
// directory and use these as they are; a path to a socket may not exceed some
// hundred bytes, so only a relative one always fits.
const (
	EtcdData   = "etcd"
	EtcdSocket = "etcd.sock"
	Kubeconfig = "kubeconfig"
	Logs       = "logs"
	PKI        = "pki"

	lockFile = "lock"
)

// leftoverWait is how long Open waits for the roles of a parent that is
// already dead; they are being killed.
const leftoverWait = 10 * time.Second

// Dir is an open, locked directory.
type Dir struct {
	path string
	lock *os.File
}

// Open makes the directory when it is missing, closes it to other users and
// locks it. A directory with foreign content is refused.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find directory %s: %w", path, err)
	}
	if err := claim(path); err != nil {
		return nil, err
	}
	lock, err := acquire(path, leftoverWait)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock}
	for _, sub := range []string{EtcdData, Logs, PKI} {
		if err := os.MkdirAll(d.Path(sub), 0o700); err != nil {
			d.Close()
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	return d, nil
}

// Path is the absolute path of a name inside the directory.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Lock is the locked file. The lock belongs to the open file, not to a
// process: who inherits it keeps the directory taken until it ends.
func (d *Dir) Lock() *os.File { return d.lock }

// Close gives up this process's share of the lock.
func (d *Dir) Close() { _ = d.lock.Close() }

// claim makes sure that path is a directory of ours that only we can read. It
// changes the mode of no directory that holds anything else.
func claim(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	if len(entries) > 0 && !holds(entries, lockFile) {
		return fmt.Errorf("directory %s holds other files and no cluster: name an empty or a new one", path)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return fmt.Errorf("close directory to others: %w", err)
	}
	return nil
}

func holds(entries []fs.DirEntry, name string) bool {
	for _, e := range entries {
		if e.Name() == name {
			return true
		}
	}
	return false
}

// acquire locks the directory and leaves this process's id in the lock file.
// While the process named there is alive the directory is taken; when it is
// dead its roles are about to be, and acquire waits for them.
func acquire(path string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	deadline := time.Now().Add(wait)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, leavePID(f)
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock directory %s: %w", path, err)
		}
		pid, known := readPID(f)
		if known && alive(pid) {
			_ = f.Close()
			return nil, fmt.Errorf("directory %s is in use by the cluster with pid %d: stop that one or name another directory", path, pid)
		}
		if time.Now().After(deadline) {
			_ = f.Close()
			return nil, fmt.Errorf("directory %s is in use by another cluster: stop that one or name another directory", path)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func leavePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	return nil
}

func readPID(f *os.File) (int, bool) {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid, err == nil && pid > 0
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
