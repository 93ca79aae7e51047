package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	stopGrace = time.Minute // for a child to end by itself, once asked; it takes a second on a machine at rest
	tailLines = 8
)

// process is a child. It is in a process group of its own, so that Ctrl-C
// reaches only us and the children end in our order; the kernel kills it if we
// die without asking.
type process struct {
	name string // for people
	log  string // path of what it writes to standard error
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of its end; read after done
}

// launch starts cmd. What it says on standard error is kept in the file log
// and copied to said, if there is one.
func launch(name, log string, cmd *exec.Cmd, said io.Writer) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = file
	if said != nil {
		cmd.Stderr = io.MultiWriter(file, said)
	}
	cmd.SysProcAttr = processAttributes()
	// A grandchild could hold on to the pipes for longer than the child lives.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		_ = file.Close()
		close(p.done)
	}()
	return p, nil
}

// ended is a child that ended without being asked to.
type ended struct{ *process }

func (e ended) Error() string {
	how := "exit status 0"
	if e.err != nil {
		how = e.err.Error()
	}
	return fmt.Sprintf("the %s ended: %s", e.name, how)
}

// watch calls lost when the process ends before over is closed.
func (p *process) watch(over <-chan struct{}, lost func(error)) {
	select {
	case <-p.done:
		lost(ended{p})
	case <-over:
	}
}

// stop asks the process to end and waits for it, until hurry is closed.
func (p *process) stop(hurry <-chan struct{}) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
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
		return fmt.Errorf("stop the %s: it did not end within %s and was killed", p.name, stopGrace)
	}
}

func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// tail is the last lines of the log.
func tail(log string) []string {
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
