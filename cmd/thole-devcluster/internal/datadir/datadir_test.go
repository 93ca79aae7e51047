package datadir

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOpenCreatesADirectoryForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "cluster")
	open(t, path)
	for _, name := range []string{"", EtcdData, Logs, PKI} {
		expectMode(t, filepath.Join(path, name), 0o700)
	}
}

func TestOpenRestrictsAnEmptyDirectoryToItsOwner(t *testing.T) {
	path := t.TempDir()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	expectMode(t, path, 0o700)
}

func TestOpenRefusesADirectoryWithOtherContent(t *testing.T) {
	path := t.TempDir()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	expectError(t, err, path+" holds other files")
	expectMode(t, path, 0o755)
}

func TestOpenOfAFileFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	expectError(t, err, path)
}

func TestClosedDirectoryCanBeOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster")
	open(t, path).Close()
	open(t, path)
}

func TestOpenFailsWhileTheLockingProcessLives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster")
	open(t, path)
	_, err := Open(path)
	expectError(t, err, fmt.Sprintf("directory %s is in use by the cluster with pid %d", path, os.Getpid()))
}

// The parent is dead, and a component that has inherited the lock ends later.
func TestOpenWaitsForTheOrphansOfADeadParent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster")
	d := open(t, path)
	writeLock(t, d, fmt.Sprint(deadPID(t)))
	time.AfterFunc(100*time.Millisecond, d.Close)
	open(t, path)
}

func TestOpenStopsWaitingForOrphans(t *testing.T) {
	for name, content := range map[string]string{"a dead process is named": fmt.Sprint(deadPID(t)), "no process is named": "", "not a number": "x"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cluster")
			writeLock(t, open(t, path), content)
			_, err := openLocked(filepath.Join(path, lockFile), 50*time.Millisecond)
			expectError(t, err, "is in use by another cluster")
		})
	}
}

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func writeLock(t *testing.T, d *Dir, content string) {
	t.Helper()
	if err := os.WriteFile(d.Path(lockFile), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// deadPID is the id of a process that has just ended.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func expectMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to contain %q", err, want)
	}
}
