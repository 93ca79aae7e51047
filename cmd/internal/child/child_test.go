//go:build unix

package child

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines tells when a text was written.
type lines struct {
	wanted string
	text   strings.Builder
	seen   chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	before := l.text.String()
	l.text.Write(p)
	if !strings.Contains(before, l.wanted) && strings.Contains(l.text.String(), l.wanted) {
		close(l.seen)
	}
	return len(p), nil
}

// shell starts a script and returns when it has said on standard error that it
// is up.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	said := &lines{wanted: "up\n", seen: make(chan struct{})}
	p, err := Start("shell", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c", script), said)
	if err != nil {
		t.Fatal(err)
	}
	<-said.seen
	return p
}

func TestStopAsks(t *testing.T) {
	p := shell(t, "trap 'echo asked >&2; exit 0' TERM; echo up >&2; while :; do sleep 0.1; done")
	if err := p.Stop(nil); err != nil {
		t.Error(err)
	}
	if tail := Tail(p.Log); !slices.Equal(tail, []string{"up", "asked"}) {
		t.Errorf("the log ends with %q", tail)
	}
}

func TestStopInAHurryKills(t *testing.T) {
	p := shell(t, "trap '' TERM; echo up >&2; while :; do sleep 0.1; done")
	hurry := make(chan struct{})
	close(hurry)
	if err := p.Stop(hurry); err != nil {
		t.Error(err)
	}
	if _, ok := errors.AsType[*exec.ExitError](p.err); !ok {
		t.Errorf("it was not killed: %v", p.err)
	}
}

func TestWatchTellsOfAnEnd(t *testing.T) {
	p := shell(t, "echo up >&2; exit 3")
	lost := make(chan error, 1)
	p.Watch(make(chan struct{}), func(err error) { lost <- err })
	if err := <-lost; err.Error() != "the shell ended: exit status 3" {
		t.Errorf("it tells %v", err)
	}
	asked := shell(t, "echo up >&2; exec sleep 3600")
	over := make(chan struct{})
	close(over)
	asked.Watch(over, func(err error) { t.Errorf("an end that was asked for: %v", err) })
	if err := asked.Stop(nil); err != nil {
		t.Error(err)
	}
}

func TestOutput(t *testing.T) {
	out, err := Output(exec.CommandContext(t.Context(), "sh", "-c", "echo a; echo b >&2; exit 2"))
	if string(out) != "a\nb\n" || err == nil {
		t.Errorf("%q, %v", out, err)
	}
}

func TestTail(t *testing.T) {
	log := filepath.Join(t.TempDir(), "the.log")
	if got := Tail(log); !strings.Contains(got[0], "no such file") {
		t.Errorf("no file: %q", got)
	}
	for text, want := range map[string]string{"": "the.log is empty", "1\n2\n3\n4\n5\n6\n7\n8\n9\n": "2 3 4 5 6 7 8 9"} {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(Tail(log), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
