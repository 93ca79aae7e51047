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

// Host is how to run thole: on a kubeconfig, with the rights of the host, and
// with all that it has to tell.
type Host struct {
	Program    string   // path of thole
	Plugins    string   // their directory
	Kubeconfig string   // path
	Config     string   // text of the configuration file; "" for none
	CacheDir   string   // of compiled plugins, and of the user's other programs
	Args       []string // further ones
	Env        []string // further ones
}

// Start runs thole until the test ends. The test fails if thole does not end
// well, and shows the end of its log if it has failed.
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
	args := []string{
		"run", "--plugins", h.Plugins, "--kubeconfig", h.Kubeconfig, "--host-identity",
		"--listen", "127.0.0.1:0", "--log-level", "debug",
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

// Process is a running thole.
type Process struct {
	Log *Log

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	err   error         // of its exit; set before ended is closed
	stop  sync.Once
}

// Run runs a command that is thole. Its log goes to a file of the test.
func Run(tb testing.TB, cmd *exec.Cmd) (*Process, error) {
	tb.Helper()
	file, err := os.Create(filepath.Join(tb.TempDir(), "log"))
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has its own
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Log: &Log{path: file.Name()}, cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Stop ends the process as an administrator does, and says what was wrong with
// how it ended. A second call does nothing.
func (p *Process) Stop() (err error) {
	p.stop.Do(func() {
		p.Signal(syscall.SIGTERM)
		late := time.AfterFunc(await.Limit, func() { p.Signal(syscall.SIGKILL) })
		defer late.Stop()
		if <-p.ended; p.err != nil {
			err = fmt.Errorf("thole ended with %w:\n%s", p.err, p.Log.Tail(20))
		}
		err = errors.Join(err, p.race())
	})
	return err
}

// Kill ends the process without a chance to do anything. A second call does
// nothing.
func (p *Process) Kill() (err error) {
	p.stop.Do(func() {
		p.Signal(syscall.SIGKILL)
		<-p.ended
		err = p.race()
	})
	return err
}

// Signal sends a signal. That it fails if the process has ended is told by its
// exit.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *Process) race() error {
	if text := p.Log.Text(); strings.Contains(text, "WARNING: DATA RACE") {
		return fmt.Errorf("thole has a data race:\n%s", text[strings.Index(text, "WARNING: DATA RACE"):])
	}
	return nil
}

// Died returns nil while the process runs, else how it ended.
func (p *Process) Died() error {
	select {
	case <-p.ended:
		return fmt.Errorf("thole ended: %s:\n%s", p.cmd.ProcessState, p.Log.Tail(20))
	default:
		return nil
	}
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }
