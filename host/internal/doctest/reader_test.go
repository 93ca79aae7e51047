//go:build unix

package doctest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/await"
)

// reader follows the steps of a document. It has a home directory and a shell of
// its own.
type reader struct {
	home      string
	env       []string
	dir       string // of the shell
	output    string // of the last block of sh
	current   string // the terminal that the last block of sh opened; "" if it did not
	terminals map[string]*terminal
	log       func(format string, args ...any)
}

// terminal runs one command, which stays until it is interrupted.
type terminal struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of the command; set before ended is closed
	file  string
	mark  int // length of the output when the last step did something
}

// newReader returns a reader in a directory. env is added to the environment.
func newReader(t *testing.T, dir string, env ...string) *reader {
	t.Helper()
	r := &reader{home: t.TempDir(), dir: dir, terminals: map[string]*terminal{}, log: t.Logf}
	r.env = append(append(os.Environ(), "HOME="+r.home), env...)
	t.Cleanup(r.close)
	return r
}

// close kills what a failed test has left.
func (r *reader) close() {
	for _, term := range r.terminals {
		_ = syscall.Kill(-term.cmd.Process.Pid, syscall.SIGKILL) // fails if it has ended
		<-term.ended
	}
}

// follow takes every step. The error has the line of the one that does not work.
func (r *reader) follow(steps []step) error {
	for _, s := range steps {
		begin := time.Now()
		if err := r.take(s); err != nil {
			return fmt.Errorf("line %d: %w", s.line, err)
		}
		r.log("line %d: %s %s, %s", s.line, s.language, s.directive, time.Since(begin).Round(time.Millisecond))
	}
	for name, term := range r.terminals {
		if !term.hasEnded() {
			return fmt.Errorf("at the end the command in terminal %s is still running: say how it is ended", name)
		}
	}
	return nil
}

func (r *reader) take(s step) error {
	verb, name, _ := strings.Cut(s.directive, " ")
	switch {
	case verb == "skip" && name != "":
		return nil
	case verb == "interrupt" && s.language == "":
		return r.interrupt(name)
	case s.directive == "" && s.language == "sh":
		return r.run(s.text, true)
	case s.directive == "fails" && s.language == "sh":
		return r.run(s.text, false)
	case verb == "terminal" && s.language == "sh":
		return r.open(name, s.text)
	case s.directive == "" && s.language == "text" && r.current != "":
		return r.expectShown(r.current, s.text)
	case s.directive == "" && s.language == "text":
		return r.expectOutput(s.text)
	case verb == "terminal" && s.language == "text":
		return r.expectShown(name, s.text)
	case s.directive != "":
		return fmt.Errorf("the comment %q is none for a block of %q", s.directive, s.language)
	}
	file, ok := s.file()
	switch {
	case !ok || !filepath.IsLocal(file):
		return fmt.Errorf("it is not clear what to do with this block of %q: the line before it must end with the name of a file in backticks and a colon", s.language)
	case s.language == "diff":
		return r.edit(file, s.text)
	default:
		return r.write(file, s.text)
	}
}

// state has the variables and the directory of the shell, as commands.
func (r *reader) state() string { return filepath.Join(r.home, ".state") }

// prelude restores the state of the shell.
func (r *reader) prelude() string {
	return fmt.Sprintf("set -euo pipefail; cd %q; [ ! -e %[2]q ] || source %[2]q\n", r.dir, r.state())
}

func (r *reader) bash(script string) *exec.Cmd {
	cmd := exec.Command("bash", "-c", r.prelude()+script)
	cmd.Env, cmd.Dir = r.env, r.dir
	return cmd
}

// run runs the commands of a block.
func (r *reader) run(commands string, succeeds bool) error {
	r.act()
	directory := filepath.Join(r.home, ".directory")
	cmd := r.bash(commands + fmt.Sprintf("\nexport -p >%q; pwd >%q\n", r.state(), directory))
	out, err := cmd.CombinedOutput()
	r.output, r.current = string(out), ""
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && !failed:
		return err
	case failed && succeeds:
		return fmt.Errorf("%w:\n%s", err, out)
	case failed: // the shell stays as it was
		return nil
	case !succeeds:
		return fmt.Errorf("the command did not fail:\n%s", out)
	}
	pwd, err := os.ReadFile(directory)
	r.dir = strings.TrimSpace(string(pwd))
	return err
}

// open starts a command in a terminal of its own.
func (r *reader) open(name, command string) error {
	r.act()
	if old := r.terminals[name]; old != nil && !old.hasEnded() {
		return fmt.Errorf("terminal %s is busy", name)
	}
	file, err := os.CreateTemp(r.home, ".output-")
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := r.bash("exec " + command)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	term := &terminal{cmd: cmd, ended: make(chan struct{}), file: file.Name()}
	go func() {
		term.err = cmd.Wait()
		close(term.ended)
	}()
	r.terminals[name], r.current = term, name
	return nil
}

func (t *terminal) hasEnded() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// shown returns what was shown since the last step that did something.
func (t *terminal) shown() string {
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err.Error()
	}
	return string(text[t.mark:])
}

// act is called before a step that does something: what is shown later is shown
// because of it.
func (r *reader) act() {
	for _, t := range r.terminals {
		t.mark += len(t.shown())
	}
}

// interrupt presses Ctrl-C.
func (r *reader) interrupt(name string) error {
	t := r.terminals[name]
	if t == nil || t.hasEnded() {
		return fmt.Errorf("nothing runs in terminal %s", name)
	}
	r.act()
	if err := syscall.Kill(-t.cmd.Process.Pid, syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-t.ended:
	case <-time.After(await.Limit):
		return fmt.Errorf("the command in terminal %s does not end:\n%s", name, t.shown())
	}
	if t.err != nil {
		return fmt.Errorf("the command in terminal %s ended with %w:\n%s", name, t.err, t.shown())
	}
	return nil
}

func (r *reader) expectOutput(expected string) error {
	if lines := missing(expected, r.output); len(lines) > 0 {
		return fmt.Errorf("the output has not the line %q:\n%s", lines[0], r.output)
	}
	return nil
}

// expectShown waits for lines in a terminal.
func (r *reader) expectShown(name, expected string) error {
	t := r.terminals[name]
	if t == nil {
		return fmt.Errorf("there is no terminal %s", name)
	}
	var lines []string
	err := await.Success(func() error {
		over := t.hasEnded() // before the output is read
		if lines = missing(expected, t.shown()); len(lines) == 0 || over {
			return nil
		}
		return fmt.Errorf("terminal %s does not show %q:\n%s", name, lines[0], t.shown())
	})
	if err == nil && len(lines) > 0 {
		return fmt.Errorf("the command in terminal %s has ended and did not show %q:\n%s", name, lines[0], t.shown())
	}
	return err
}

// write replaces a file by a rename, as editors do.
func (r *reader) write(name, text string) error {
	r.act()
	path := filepath.Join(r.dir, name)
	partial := filepath.Join(filepath.Dir(path), ".partial~")
	if err := os.WriteFile(partial, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

func (r *reader) edit(name, diff string) error {
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	changed, err := applyDiff(string(text), diff)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.write(name, changed)
}
