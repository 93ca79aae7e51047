// Package datadir is the directory of a development cluster: its layout, and the
// lock that keeps a second cluster out.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names inside the directory. Components have the directory as their working
// directory and use the names as relative paths: the path of a socket must not
// exceed some hundred bytes, which an absolute one might.
const (
	AuditPolicy = "audit-policy.yaml"
	EtcdData    = "etcd"
	EtcdSocket  = "etcd.sock"
	Kubeconfig  = "kubeconfig"
	Logs        = "logs"
	PKI         = "pki"

	lockFile = "lock"
)

// orphanWait is how long Open waits for the components of a parent that is dead:
// they are being killed, and hold the lock until they have ended.
const orphanWait = 10 * time.Second

// Dir is an open, locked directory.
type Dir struct {
	path string
	lock *os.File
}

// Open creates the directory if necessary, makes it readable by its owner only
// and locks it. It refuses a directory with other content.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find directory %s: %w", path, err)
	}
	if err := prepare(path); err != nil {
		return nil, err
	}
	lock, err := openLocked(filepath.Join(path, lockFile), orphanWait)
	if err != nil {
		return nil, fmt.Errorf("directory %s %w", path, err)
	}
	d := &Dir{path: path, lock: lock}
	for _, sub := range []string{EtcdData, Logs, PKI} {
		if err := os.MkdirAll(d.Path(sub), 0o700); err != nil {
			d.Close()
			return nil, fmt.Errorf("create directory: %w", err)
		}
	}
	return d, nil
}

// Path returns the absolute path of a name inside the directory.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Lock returns the locked file. The lock belongs to the open file, not to a
// process: the directory stays locked until every process that has inherited the
// file has closed it or ended.
func (d *Dir) Lock() *os.File { return d.lock }

// Close closes the locked file.
func (d *Dir) Close() { _ = d.lock.Close() }

// prepare makes sure that path is a directory of a cluster, or an empty one, and
// that only its owner can read it. It does not change a directory with other
// content.
func prepare(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	isLock := func(e fs.DirEntry) bool { return e.Name() == lockFile }
	if len(entries) > 0 && !slices.ContainsFunc(entries, isLock) {
		return fmt.Errorf("directory %s holds other files and no cluster: name an empty or a new one", path)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return fmt.Errorf("restrict directory to its owner: %w", err)
	}
	return nil
}

// openLocked opens and locks a file and writes the id of this process to it. The
// error is worded as the end of a message.
func openLocked(path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot be locked: %w", err)
	}
	if err := lock(f, patience); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lock fails at once if the process whose id is in the file is alive. If it is
// dead, its components are about to end, and lock waits for them.
func lock(f *os.File, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return os.WriteFile(f.Name(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("cannot be locked: %w", err)
		}
		if pid, ok := readPID(f.Name()); ok && alive(pid) {
			return fmt.Errorf("is in use by the cluster with pid %d: stop that one or name another directory", pid)
		}
		if time.Now().After(deadline) {
			return errors.New("is in use by another cluster: stop that one or name another directory")
		}
	}
}

func readPID(path string) (pid int, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return pid, err == nil && pid > 0
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
