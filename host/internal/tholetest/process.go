package tholetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/await"
)

// Host describes how to run thole: on a kubeconfig, with the rights of the host,
// and with the most verbose log that tests need.
type Host struct {
	Program    string   // path of thole
	Plugins    string   // path of the plugin directory
	Kubeconfig string   // path
	Config     string   // text of the configuration file; "" for none
	CacheDir   string   // XDG_CACHE_HOME, which has the compile cache
	LogLevel   string   // "" for debug
	Args       []string // further arguments
	Env        []string // further environment variables
}

// Start runs thole until the test ends. The test fails if thole exits with an
// error or has a data race; if the test fails, it shows the end of the log.
func (h Host) Start(tb testing.TB) *Process {
	tb.Helper()
	p, err := Run(tb, h.command(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Stop(); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			tb.Logf("log of thole:\n%s", p.Log.Tail(40))
		}
	})
	return p
}

func (h Host) command(tb testing.TB) *exec.Cmd {
	tb.Helper()
	level := h.LogLevel
	if level == "" {
		level = "debug"
	}
	args := []string{
		"run", "--plugins", h.Plugins, "--kubeconfig", h.Kubeconfig, "--host-identity",
		"--listen", "127.0.0.1:0", "--log-level", level,
	}
	if h.Config != "" {
		file := filepath.Join(tb.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(h.Config), 0o600); err != nil {
			tb.Fatal(err)
		}
		args = append(args, "--config", file)
	}
	cmd := exec.Command(h.Program, append(args, h.Args...)...)
	cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+h.CacheDir), h.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Process is a thole that was started. It may have exited.
type Process struct {
	Log *Log
	// TokenFile has the token for a host that serves TLS; "" for one that does not.
	TokenFile string

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited
	err  error         // of its exit; set before done is closed
	stop sync.Once
}

// Run starts a command that runs thole. Its output goes to a file of the test.
func Run(tb testing.TB, cmd *exec.Cmd) (*Process, error) {
	tb.Helper()
	file, err := os.Create(filepath.Join(tb.TempDir(), "log"))
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has a descriptor of its own
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Log: &Log{path: file.Name()}, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Stop ends the process by SIGTERM. It returns an error if the process did not
// exit with 0, had a data race, or wrote a line that does not have the schema of the log. A second call, also after Kill, does nothing.
func (p *Process) Stop() (err error) {
	p.stop.Do(func() {
		p.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(await.Limit, func() { p.Signal(syscall.SIGKILL) })
		defer kill.Stop()
		if <-p.done; p.err != nil {
			err = fmt.Errorf("thole exited: %w:\n%s", p.err, p.Log.Tail(20))
		}
		err = errors.Join(err, p.dataRace(), checkTypes(p.Log.Since(0)))
	})
	return err
}

// Kill ends the process by SIGKILL. It returns an error if the process had a data
// race, or wrote a line that does not have the schema of the log. A second call, also after Stop, does nothing.
func (p *Process) Kill() (err error) {
	p.stop.Do(func() {
		p.Signal(syscall.SIGKILL)
		<-p.done
		err = errors.Join(p.dataRace(), checkTypes(p.Log.Since(0)))
	})
	return err
}

// Signal sends a signal. A process that has exited gets none, which Stop and
// Exited report.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// dataRace returns the report of the race detector, nil if there is none. The
// report is no line of the log but output of the Go runtime.
func (p *Process) dataRace() error {
	if _, report, found := strings.Cut(p.Log.text(), "WARNING: DATA RACE"); found {
		return fmt.Errorf("thole has a data race:\n%s", report)
	}
	return nil
}

// Exited returns an error that describes how the process exited, nil while it runs.
func (p *Process) Exited() error {
	select {
	case <-p.done:
		return fmt.Errorf("thole exited: %s:\n%s", p.cmd.ProcessState, p.Log.Tail(20))
	default:
		return nil
	}
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Killed reports whether the process has exited by SIGKILL.
func (p *Process) Killed() bool {
	select {
	case <-p.done:
		status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		return ok && status.Signal() == syscall.SIGKILL
	default:
		return false
	}
}
