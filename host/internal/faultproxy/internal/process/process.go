// Package process signals the process of the client.
package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Target is the process that rules of the faults "kill" and "stop" signal.
type Target struct {
	mu      sync.Mutex
	process *os.Process // nil if none is set
}

// Set makes a running process the target. A later process of the same id is not
// it, where the system has handles of processes, as Linux does.
func (t *Target) Set(pid int) error {
	if pid <= 1 || pid == os.Getpid() {
		return fmt.Errorf("%d is not the id of a process that may be signalled: want that of the client", pid)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.Signal(0))
	}
	if err != nil {
		return fmt.Errorf("process %d cannot be signalled: %w", pid, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release()
	t.process = p
	return nil
}

// Signal sends a signal. A process that has ended needs none.
func (t *Target) Signal(s syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.process == nil {
		return errors.New("no process is set to signal: PUT its id to /process")
	}
	if err := t.process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", t.process.Pid, err)
	}
	return nil
}

// Close releases the handle of the process.
func (t *Target) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release()
}

func (t *Target) release() {
	if t.process != nil {
		_ = t.process.Release()
		t.process = nil
	}
}
