//go:build linux

package devtest

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
)

// firstLine is shown before anything is started.
const firstLine = "starting the embedded control plane"

// unfinished are the ways to start a session, with the exit codes of one that ends
// before the sample is Ready.
var unfinished = map[string]struct {
	flags []string
	code  int
}{
	"until Ctrl-C": {nil, 0},
	"once":         {[]string{"--once"}, 1},
}

func TestInterruptWhileStartingLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range unfinished {
		t.Run(name, func(t *testing.T) {
			w := newWork(t, "testdata/hello")
			term := inTerminal(t, w.thole(append([]string{"dev", "plugin"}, c.flags...)...))
			term.shows(firstLine)
			term.interrupt()
			term.ends(c.code)
			w.expectNothingLeft()
		})
	}
}

func TestSignalOfAServiceManagerLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("default/world: success")
	if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	term.ends(0)
	w.expectNothingLeft()
}

func TestSecondInterruptDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("ready in")
	// A control plane that does not answer would be waited for.
	if err := syscall.Kill(w.controlPlane(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	term.interrupt()
	term.shows("Ctrl-C again does not wait")
	term.interrupt()
	term.ends(0)
	w.expectNothingLeft()
}

func TestKilledSessionTakesItsControlPlaneAlong(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("ready in")
	if err := term.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := term.cmd.Wait(); err == nil {
		t.Fatal("killed, and yet exit code 0")
	}
	await.Until(t, "its processes have ended", func() bool { return len(w.processes()) == 0 })
}

func TestEndOfTheControlPlaneEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("ready in")
	if err := syscall.Kill(w.controlPlane(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	expectInOrder(t, mask(term.ends(1)), "thole: the control plane ended: signal: killed; the end of its log:\n    ")
	w.expectNothingLeft()
}

// TestClosedOutputEndsTheSession: plain lines without a terminal, and the end of
// the reader is the end of the session.
func TestClosedOutputEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, c := range unfinished {
		t.Run(name, func(t *testing.T) {
			w := newWork(t, "testdata/hello")
			cmd := w.thole(append([]string{"dev", "plugin"}, c.flags...)...)
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout = writer
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			pipe := &terminal{t: t, cmd: cmd, screen: reader}
			pipe.shows(firstLine)
			if text := pipe.shown.String(); strings.Contains(text, "\x1b") {
				t.Errorf("escapes without a terminal: %q", text)
			}
			reader.Close()
			err = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d (%v), want %d", got, err, c.code)
			}
			w.expectNothingLeft()
		})
	}
}
