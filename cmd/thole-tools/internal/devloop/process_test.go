//go:build unix

package devloop

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// startShell starts a script and returns when it has written "up" to standard
// error.
func startShell(t *testing.T, script string) *process {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess("shell", log, exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the script runs", func() bool { return strings.Contains(readText(t, log), "up\n") })
	return p
}

func TestStopAsksTheProcessToEnd(t *testing.T) {
	p := startShell(t, "trap 'echo asked >&2; exit 0' TERM; echo up >&2; while :; do sleep 0.1; done")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if got := tail(p.log); !slices.Equal(got, []string{"up", "asked"}) {
		t.Errorf("the log ends with %q", got)
	}
}

// TestInterruptOfBothIsNoLossOfTheProcess has a child that Ctrl-C ends before it ends
// the session.
func TestInterruptOfBothIsNoLossOfTheProcess(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // else the child ignores it if this process does
	defer signal.Stop(signals)
	p := startShell(t, "echo up >&2; kill -INT $$")
	<-p.done
	over := make(chan struct{})
	time.AfterFunc(interruptTimeout/10, func() { close(over) })
	p.interruptTimeout = time.Minute
	p.watch(over, nil, func(err error) { t.Error(err) })
	p.interruptTimeout = time.Millisecond
	lost := false
	p.watch(nil, nil, func(error) { lost = true })
	if !lost {
		t.Error("a process that only itself was interrupted is not lost")
	}
}

func TestHurryKillsAProcess(t *testing.T) {
	for name, stopping := range map[string]bool{"before it is stopped": false, "while it is stopped": true} {
		t.Run(name, func(t *testing.T) {
			p := startShell(t, "trap '' TERM; echo up >&2; while :; do sleep 0.1; done")
			over, hurry := make(chan struct{}), make(chan struct{})
			if stopping {
				close(over)
			}
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				p.watch(over, hurry, func(err error) { t.Errorf("a process that was killed is reported: %v", err) })
			}()
			close(hurry)
			if err := p.stop(); err != nil {
				t.Error(err)
			}
			if _, ok := errors.AsType[*exec.ExitError](p.err); !ok {
				t.Errorf("it was not killed: %v", p.err)
			}
			<-watched
		})
	}
}

func TestWatchReportsAProcessThatEndsByItself(t *testing.T) {
	p := startShell(t, "echo up >&2; exit 3")
	lost := make(chan error, 1)
	p.watch(nil, nil, func(err error) { lost <- err })
	err := <-lost
	if err.Error() != "the shell ended: exit status 3" {
		t.Errorf("it reports %v", err)
	}
	if err := withLog(err); !strings.HasSuffix(err.Error(), "exit status 3; the end of its log:\n    up") {
		t.Errorf("with its log: %v", err)
	}
}

func TestTail(t *testing.T) {
	log := filepath.Join(t.TempDir(), "the.log")
	if got := tail(log); !strings.Contains(got[0], "no such file") {
		t.Errorf("no file: %q", got)
	}
	for text, want := range map[string]string{"": "the.log is empty", "1\n2\n3\n4\n5\n6\n7\n8\n9\n": "2 3 4 5 6 7 8 9"} {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(tail(log), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
