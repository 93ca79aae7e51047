// Package supervise runs this same executable again, once per role, and holds
// on to what it started.
//
// A role does not outlive its parent, however that one ends. On Linux the
// kernel kills it (PR_SET_PDEATHSIG); everywhere it holds the reading end of a
// pipe, the lifeline, whose writing end only the parent has, and exits when
// the pipe closes. The kernel acts at once, the pipe has no thread to depend
// on.
//
// Descriptors of a role: 0 nothing, 1 and 2 its log, 3 the lifeline, 4 the
// pipe on which it reports to be ready, from 5 on what it was handed.
package supervise

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Spec says what to start.
type Spec struct {
	Name string   // of the role, for messages
	Args []string // of this executable
	Dir  string   // working directory
	Log  string   // path; what is there becomes Log.1
	// Files are handed to the role; the caller keeps and closes its own.
	Files []*os.File
}

// Process is a started role.
type Process struct {
	spec     Spec
	cmd      *exec.Cmd
	lifeline *os.File // never written to; open as long as the role may live
	ready    chan struct{}
	done     chan struct{}
	err      error // of the exit; read after done is closed
}

// Start starts a role. The calling goroutine must be locked to a thread that
// lives as long as the process: when that thread ends the kernel kills the
// role.
func Start(spec Spec) (*Process, error) {
	p, err := start(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return p, nil
}

func start(spec Spec) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := createLog(spec.Log)
	if err != nil {
		return nil, err
	}
	defer closeAll(log)
	held, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer closeAll(held)
	report, reporter, err := os.Pipe()
	if err != nil {
		closeAll(lifeline)
		return nil, err
	}
	defer closeAll(reporter)

	cmd := exec.Command(self, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = append([]*os.File{held, reporter}, spec.Files...)
	cmd.SysProcAttr = processAttributes()
	if err := cmd.Start(); err != nil {
		closeAll(lifeline, report)
		return nil, err
	}
	p := &Process{spec: spec, cmd: cmd, lifeline: lifeline, ready: make(chan struct{}), done: make(chan struct{})}
	go p.awaitReport(report)
	go p.awaitExit()
	return p, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// awaitReport takes one byte for "ready"; the end of the pipe says nothing.
func (p *Process) awaitReport(report *os.File) {
	defer closeAll(report)
	if _, err := io.ReadFull(report, make([]byte, 1)); err == nil {
		close(p.ready)
	}
}

func (p *Process) awaitExit() {
	p.err = p.cmd.Wait()
	closeAll(p.lifeline)
	close(p.done)
}

// Ready is closed when the role reported to be ready.
func (p *Process) Ready() <-chan struct{} { return p.ready }

// Done is closed when the role has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err tells how the role ended and shows the end of its log. It may be called
// after Done is closed.
func (p *Process) Err() error {
	state := p.cmd.ProcessState.String()
	return fmt.Errorf("%s ended: %s; %s", p.spec.Name, state, tail(p.spec.Log))
}

// LogTail shows the end of the role's log, for an error about a role that
// lives but does not get ready.
func (p *Process) LogTail() string { return tail(p.spec.Log) }

// Stop asks the role to end, and kills it when it has not after grace.
func (p *Process) Stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return
	case <-time.After(grace):
	}
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal reaches the role's whole process group, which it leads.
func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}
