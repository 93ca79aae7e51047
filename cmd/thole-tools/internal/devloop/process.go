package devloop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	stopTimeout = time.Minute // for a child process to end after it was asked to; a second is usual
	tailLines   = 8

	interruptTimeout = time.Second // the default of process.interruptTimeout
)

// process is a child process. It has a process group of its own, so that Ctrl-C
// at the terminal reaches only this process, which ends its children in order.
type process struct {
	name string // for people
	log  string // path of the file that has its standard error

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; valid after done

	interruptTimeout time.Duration // for this process to end after Ctrl-C has ended the child
}

// startProcess starts cmd, with its standard error in the file log.
func startProcess(name, log string, cmd *exec.Cmd) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = file
	setProcessGroup(cmd)
	// A grandchild could keep the pipes open for longer than the child lives.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{}), interruptTimeout: interruptTimeout}
	go func() {
		p.err = cmd.Wait()
		_ = file.Close()
		close(p.done)
	}()
	return p, nil
}

// endedError reports a child process that ended by itself.
type endedError struct{ *process }

func (e endedError) Error() string {
	how := "exit status 0"
	if e.err != nil {
		how = e.err.Error()
	}
	return fmt.Sprintf("the %s ended: %s", e.name, how)
}

// withLog adds the end of its log to an error about a child process that ended.
func withLog(err error) error {
	ended, ok := errors.AsType[endedError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w; the end of its log:\n    %s", err, strings.Join(tail(ended.log), "\n    "))
}

// watch calls lost if the process ends before over is closed. When hurry is closed
// it kills the process. Ctrl-C in the moment before a child process has a group of
// its own ends it, and reaches this process too: over has some time to be closed.
func (p *process) watch(over, hurry <-chan struct{}, lost func(error)) {
	select {
	case <-p.done:
		if isInterrupted(p.cmd.ProcessState) {
			select {
			case <-over:
				return
			case <-time.After(p.interruptTimeout):
			}
		}
		lost(endedError{p})
		return
	case <-over:
	case <-hurry:
	}
	select {
	case <-p.done:
	case <-hurry:
		p.kill()
	}
}

// stop asks the process to end and blocks until it has.
func (p *process) stop() error {
	_ = terminate(p.cmd.Process) // fails if it has ended
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.done:
		return nil
	case <-timeout.C:
		p.kill()
		return fmt.Errorf("stop the %s: it did not end within %s and was killed", p.name, stopTimeout)
	}
}

func (p *process) kill() {
	_ = killGroup(p.cmd.Process)
	<-p.done
}

// tail returns the last lines of a log.
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

const (
	removeTimeout = 20 * time.Second
	removePause   = 50 * time.Millisecond
)

// removeAll removes a directory that child processes have written to. It tries
// for a while: processes that were killed a moment ago may still be writing.
func removeAll(dir string) error {
	deadline := time.Now().Add(removeTimeout)
	for {
		err := os.RemoveAll(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(removePause)
	}
}
