// Package child runs programs as children of a command: one that ends takes
// its children with it, in its own order.
package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	stopGrace = time.Minute // for a child to end by itself, once asked; it takes a second on a machine at rest
	tailLines = 8
)

// Process is a child. It is in a process group of its own, so that Ctrl-C
// reaches only us and the children end in our order.
type Process struct {
	Name string // for people
	Log  string // path of what it writes to standard error

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of its end; read after done
}

// Start starts cmd. What it says on standard error is kept in the file log and
// copied to said, if there is one.
func Start(name, log string, cmd *exec.Cmd, said io.Writer) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = file
	if said != nil {
		cmd.Stderr = io.MultiWriter(file, said)
	}
	ownGroup(cmd)
	// A grandchild could hold on to the pipes for longer than the child lives.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &Process{Name: name, Log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		_ = file.Close()
		close(p.done)
	}()
	return p, nil
}

// Output runs cmd, which must have a context, and returns all that it says. If
// the context ends, so do the processes that it has started.
func Output(cmd *exec.Cmd) ([]byte, error) {
	ownGroup(cmd)
	cmd.Cancel = func() error { return kill(cmd.Process) }
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// Ended is a child that ended without being asked to.
type Ended struct{ *Process }

func (e Ended) Error() string {
	how := "exit status 0"
	if e.err != nil {
		how = e.err.Error()
	}
	return fmt.Sprintf("the %s ended: %s", e.Name, how)
}

// Watch calls lost when the process ends before over is closed.
func (p *Process) Watch(over <-chan struct{}, lost func(error)) {
	select {
	case <-p.done:
		lost(Ended{p})
	case <-over:
	}
}

// Stop asks the process to end and waits for it, until hurry is closed.
func (p *Process) Stop(hurry <-chan struct{}) error {
	_ = terminate(p.cmd.Process) // fails when it has ended
	patience := time.NewTimer(stopGrace)
	defer patience.Stop()
	select {
	case <-p.done:
		return nil
	case <-hurry:
		p.kill()
		return nil
	case <-patience.C:
		p.kill()
		return fmt.Errorf("stop the %s: it did not end within %s and was killed", p.Name, stopGrace)
	}
}

func (p *Process) kill() {
	_ = kill(p.cmd.Process)
	<-p.done
}

// Tail is the last lines of a log.
func Tail(log string) []string {
	text, err := os.ReadFile(log)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if lines[0] == "" {
		return []string{filepath.Base(log) + " is empty"}
	}
	return lines[max(0, len(lines)-tailLines):]
}
