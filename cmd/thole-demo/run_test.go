//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a demo may take, which is 10 s on a machine at rest.
const patience = 5 * time.Minute

// running is a demo in a process and a process group of its own, with a
// temporary directory of its own.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	tmp    string
	stdout *os.File
	lines  *bufio.Reader
	told   strings.Builder
	stderr bytes.Buffer
}

// startDemo starts one with flags that win over the usual ones.
func startDemo(t *testing.T, flags ...string) *running {
	t.Helper()
	b := built(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, tmp: t.TempDir(), stdout: reader, lines: bufio.NewReader(reader)}
	r.cmd = exec.Command(self, append([]string{
		"--devcluster", b.devcluster, "--thole", b.thole, "--plugins", b.plugins, "--manifests", filepath.Join(repository, "plugins"),
	}, flags...)...)
	r.cmd.Env = append(os.Environ(), childMark+"=1", "DEMO_ONCE=", "TMPDIR="+r.tmp)
	r.cmd.Stdout, r.cmd.Stderr = writer, &r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	stuck := time.AfterFunc(2*patience, func() { r.cmd.Process.Kill() }) // some demos wait for their own end
	t.Cleanup(func() {
		stuck.Stop()
		r.cmd.Process.Kill()
		r.cmd.Wait()
		reader.Close()
	})
	return r
}

// tells reads the story until a line has contained text.
func (r *running) tells(text string) {
	r.t.Helper()
	if strings.Contains(r.told.String(), text) {
		return
	}
	for {
		line, err := r.lines.ReadString('\n')
		r.told.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			r.t.Fatalf("the demo ended before it told %q:\n%s\n%s", text, r.told.String(), r.stderr.String())
		}
	}
}

// signal sends it to the whole group, as a terminal does.
func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(-r.cmd.Process.Pid, s); err != nil {
		r.t.Fatal(err)
	}
}

// ends waits for the end and returns the whole story.
func (r *running) ends(code int) string {
	r.t.Helper()
	rest, _ := io.ReadAll(r.lines) // an error if the test has closed it
	r.told.Write(rest)
	err := r.cmd.Wait()
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.t.Fatalf("exit code %d (%v), want %d:\n%s\n%s", got, err, code, r.told.String(), r.stderr.String())
	}
	// Roles of a control plane that was killed die some moments after it.
	eventually(r.t, "the processes to be gone", func() bool { return len(r.processes()) == 0 })
	return r.told.String()
}

// leavesNothing fails if a file or a directory is left.
func (r *running) leavesNothing() {
	r.t.Helper()
	entries, err := os.ReadDir(r.tmp)
	if err != nil || len(entries) > 0 {
		r.t.Errorf("left: %v, %v", entries, err)
	}
}

// leavesLogs fails unless logs are all that is left, the named ones among them.
func (r *running) leavesLogs(names ...string) {
	r.t.Helper()
	ours, _ := filepath.Glob(r.tmp + "/thole-demo-*/logs/*")
	roles, _ := filepath.Glob(r.tmp + "/thole-demo-*/control-plane/logs/*")
	files := slices.Concat(ours, roles)
	for _, name := range names {
		if !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == name }) {
			r.t.Errorf("%s is not among %q", name, files)
		}
	}
	err := filepath.WalkDir(r.tmp, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Base(filepath.Dir(path)) != logs {
			r.t.Errorf("left: %s", path)
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}

// processes are the demo and its children: what runs with its TMPDIR.
func (r *running) processes() (pids []int) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, path := range environments {
		environment, err := os.ReadFile(path) // fails when it has ended
		if err == nil && bytes.Contains(environment, []byte("TMPDIR="+r.tmp+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// process is the child that runs a binary of that name.
func (r *running) process(binary string) int {
	r.t.Helper()
	for _, pid := range r.processes() {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if path, _, _ := strings.Cut(string(line), "\x00"); filepath.Base(path) == binary {
			return pid
		}
	}
	r.t.Fatalf("no process runs %s", binary)
	return 0
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return holds(), nil }); errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waited in vain for %s", what)
	}
}
