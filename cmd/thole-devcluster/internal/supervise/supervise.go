// Package supervise starts this same executable again, once per component, and
// stops what it has started.
//
// A component does not outlive its parent, however the parent ends. On Linux the
// kernel kills it (PR_SET_PDEATHSIG). Everywhere it holds the reading end of a
// pipe, the lifeline, and exits when the pipe is closed; only the parent has the
// writing end. The kernel acts at once, while the pipe does not depend on the
// thread that started the component.
//
// File descriptors of a component: 0 is /dev/null, 1 and 2 are its log, 3 is the
// lifeline, 4 the pipe on which it reports to be ready, and the files that it
// inherits begin at 5.
package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	lifelineFD = 3
	reportFD   = 4
	firstFD    = 5
)

// Spec describes a component.
type Spec struct {
	Name string   // for messages
	Args []string // arguments of this executable
	Dir  string   // working directory
	Log  string   // path of the log; an existing file is renamed to Log.1
	// Files are inherited by the component. The caller closes its own.
	Files []*os.File
}

// Process is a component as its parent sees it.
type Process struct {
	spec     Spec
	cmd      *exec.Cmd
	lifeline *os.File // never written to; open as long as the component may live
	ready    chan struct{}
	done     chan struct{}
}

// Start starts a component. The calling goroutine must be locked to a thread
// that lives as long as the process: when that thread ends, the kernel kills the
// component.
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
	defer log.Close()
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer lifelineEnd.Close()
	report, reportEnd, err := os.Pipe()
	if err != nil {
		_ = lifeline.Close()
		return nil, err
	}
	defer reportEnd.Close()

	cmd := exec.Command(self, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = append([]*os.File{lifelineEnd, reportEnd}, spec.Files...)
	cmd.SysProcAttr = processAttributes()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, lifeline.Close(), report.Close())
	}
	p := &Process{spec: spec, cmd: cmd, lifeline: lifeline, ready: make(chan struct{}), done: make(chan struct{})}
	go p.awaitReport(report)
	go p.awaitExit()
	return p, nil
}

// awaitReport reads the one byte that means "ready". If the component ends
// without it, the pipe is closed, which means nothing.
func (p *Process) awaitReport(report *os.File) {
	defer report.Close()
	if _, err := io.ReadFull(report, make([]byte, 1)); err == nil {
		close(p.ready)
	}
}

func (p *Process) awaitExit() {
	_ = p.cmd.Wait() // Err describes the state of the process
	_ = p.lifeline.Close()
	close(p.done)
}

// Ready returns a channel that is closed when the component reports to be ready.
func (p *Process) Ready() <-chan struct{} { return p.ready }

// Done returns a channel that is closed when the component has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err describes how the component ended, with the last lines of its log. It must
// not be called before Done is closed.
func (p *Process) Err() error {
	return fmt.Errorf("%s ended: %s; %s", p.spec.Name, p.cmd.ProcessState, p.LogTail())
}

// Stop asks the component to end and kills it if it has not after grace.
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

// signal sends a signal to the process group that the component leads.
func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// LogTail returns the last lines of the component's log, worded as the end of a
// message.
func (p *Process) LogTail() string {
	lines, err := lastLines(p.spec.Log)
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	if len(lines) == 0 {
		return fmt.Sprintf("its log %s is empty", p.spec.Log)
	}
	return fmt.Sprintf("the last lines of its log %s:\n    %s", p.spec.Log, strings.Join(lines, "\n    "))
}

const (
	tailLines = 10
	tailBytes = 16 << 10
)

// createLog creates an empty log and keeps the one of the previous run.
func createLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
}

func lastLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tailBytes), tailBytes))
	if err != nil {
		return nil, err
	}
	lines := strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
	return lines[max(0, len(lines)-tailLines):], nil
}

// Component is a component as it sees itself.
type Component struct{ report *os.File }

// Attach must be the first call of a process that Start started. From here on
// the process ends when its parent does.
func Attach() (*Component, error) {
	lifeline, report := os.NewFile(lifelineFD, "lifeline"), os.NewFile(reportFD, "report")
	if !isPipe(lifeline) || !isPipe(report) {
		return nil, errors.New("only thole-devcluster itself starts a component")
	}
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		os.Exit(1)
	}()
	return &Component{report}, nil
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// Ready reports to the parent that the component serves. It must not be called
// more than once.
func (c *Component) Ready() {
	_, _ = c.report.Write([]byte{'\n'})
	_ = c.report.Close()
}

// File returns the i-th of the inherited files.
func (c *Component) File(i int) *os.File { return os.NewFile(uintptr(firstFD+i), "inherited") }
