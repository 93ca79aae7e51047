//go:build linux

package devtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thole-dev/thole/host/internal/await"
)

// patience is how long a line may take that needs a build: 10 s on a machine
// at rest.
const patience = 2 * await.Limit

// terminal is a program in a pseudo-terminal, as the person in front of it.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	screen *os.File // our side: what is shown, and what is typed
	shown  strings.Builder
	seen   int // bytes of shown that were waited for
}

// inTerminal starts cmd as a shell does: in the foreground of a terminal that
// it is controlled by.
func inTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	screen, inside, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	inside.Close()
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, cmd: cmd, screen: screen}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails when it has ended
		_ = cmd.Wait()
		screen.Close()
	})
	return term
}

func openTerminal() (screen, inside *os.File, err error) {
	if screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(screen.Fd())
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
		var n int
		if n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
			inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
		}
	}
	if err != nil {
		screen.Close()
		return nil, nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	return screen, inside, nil
}

// shows waits until text is shown, after what was waited for before, and the
// line that it is in is complete.
func (term *terminal) shows(text string) {
	term.t.Helper()
	stuck := time.AfterFunc(patience, func() { _ = term.cmd.Process.Kill() })
	defer stuck.Stop()
	for {
		rest := term.shown.String()[term.seen:]
		if at := strings.Index(rest, text); at >= 0 {
			if end := strings.IndexByte(rest[at:], '\n'); end >= 0 {
				term.seen += at + end + 1
				return
			}
		}
		if !term.read() {
			term.t.Fatalf("the program ended, or was killed after %s, before it showed %q:\n%s", patience, text, term.shown.String())
		}
	}
}

// read takes what is shown next; false at the end.
func (term *terminal) read() bool {
	buffer := make([]byte, 4096)
	n, err := term.screen.Read(buffer)
	term.shown.Write(buffer[:n])
	return err == nil // EIO: nobody has the other side open any more
}

// interrupt presses Ctrl-C.
func (term *terminal) interrupt() {
	term.t.Helper()
	if _, err := term.screen.WriteString("\x03"); err != nil {
		term.t.Fatal(err)
	}
}

// ends waits for the end and returns all that was shown.
func (term *terminal) ends(code int) string {
	term.t.Helper()
	stuck := time.AfterFunc(patience, func() { _ = term.cmd.Process.Kill() })
	defer stuck.Stop()
	for term.read() {
	}
	err := term.cmd.Wait()
	if got := term.cmd.ProcessState.ExitCode(); got != code {
		term.t.Fatalf("exit code %d (%v), want %d:\n%s", got, err, code, term.shown.String())
	}
	return term.shown.String()
}
