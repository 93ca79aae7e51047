//go:build linux

package devcluster

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// These are about the program's own behaviour: what it says, what it exits
// with, and that it leaves nothing running.

func TestSIGTERMStopsEverything(t *testing.T) {
	skipShort(t)
	c := Start(t)
	children := childrenOf(t, c.process.pid(), 3)
	if err := c.stop(); err != nil { // exit code 0
		t.Fatal(err)
	}
	if left := living(children); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	expectSilent(t, c)
}

func TestSIGKILLOfTheParentStopsEverything(t *testing.T) {
	skipShort(t)
	c := Start(t)
	create(t, clientFor(t, c.Config), configMap("kept"))
	children := childrenOf(t, c.process.pid(), 3)
	c.process.kill(t)
	eventually(t, "the children to be gone", func() error { return countIs(len(living(children)), 0) })
	expectSilent(t, c)

	// The directory is good for another start.
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	_, err := clientFor(t, c.Config).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Errorf("get what was created before: %v", err)
	}
}

// A start right after the parent was killed finds the directory still taken by
// roles that are about to end.
func TestStartRightAfterSIGKILL(t *testing.T) {
	skipShort(t)
	c := Start(t)
	c.process.kill(t)
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
}

func TestEndOfStandardInputStopsEverything(t *testing.T) {
	skipShort(t)
	c := Start(t)
	children := childrenOf(t, c.process.pid(), 3)
	if err := c.process.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the children to be gone", func() error { return countIs(len(living(children)), 0) })
}

func TestDeathOfARoleIsAFailure(t *testing.T) {
	skipShort(t)
	for _, role := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		t.Run(role, func(t *testing.T) {
			c, err := StartMain()
			if err != nil {
				t.Fatal(err)
			}
			children := childrenOf(t, c.process.pid(), 3)
			if err := syscall.Kill(roleOf(t, children, role), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			said := c.process.wait()
			expectSaid(t, said, 1, role+" ended: signal: killed", "logs/"+role+".log")
			if left := living(children); len(left) > 0 {
				t.Errorf("still running: %v", left)
			}
			c.process = nil
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTakenDirectory(t *testing.T) {
	skipShort(t)
	c := Start(t)
	expectSaid(t, try(t, "--dir", c.dir()), 1,
		"directory "+c.dir()+" is in use", "pid "+strconv.Itoa(c.process.pid()))
}

func TestForeignDirectory(t *testing.T) {
	skipShort(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	expectSaid(t, try(t, "--dir", dir), 1, dir, "holds other files")
	expectMode(t, dir, before.Mode().Perm())
}

func TestTakenPort(t *testing.T) {
	skipShort(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	expectSaid(t, try(t, "--dir", t.TempDir(), "--port", port), 1, "port "+port+" of 127.0.0.1 is in use")
}

func TestWrongUse(t *testing.T) {
	skipShort(t)
	for name, args := range map[string][]string{
		"no directory":   {},
		"unknown flag":   {"--dir", t.TempDir(), "--colour"},
		"no such port":   {"--dir", t.TempDir(), "--port", "70000"},
		"argument":       {"--dir", t.TempDir(), "now"},
		"role by hand":   {"role", "etcd"},
		"role not known": {"role", "kubelet"},
	} {
		t.Run(name, func(t *testing.T) { expectSaid(t, try(t, args...), 2, "wrong use") })
	}
}

func TestKubeconfigElsewhere(t *testing.T) {
	skipShort(t)
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	out := filepath.Join(home, "admin.kubeconfig")
	p, err := launch(binary, home, "--dir", filepath.Join(home, "cluster"), "--kubeconfig-out", out)
	if err != nil {
		t.Fatal(err)
	}
	expectMode(t, out, 0o600)
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err == nil {
		t.Error("killed, and yet exit code 0")
	}
}

// try runs the program to its end.
func try(t *testing.T, args ...string) error {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	return nil
}

func expectSaid(t *testing.T, err error, code int, parts ...string) {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Errorf("ended with %v, want exit code %d", err, code)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("said %q, want it to contain %q", err, part)
		}
	}
}

// expectSilent fails when the cluster still answers where it did.
func expectSilent(t *testing.T, c *Cluster) {
	t.Helper()
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(c.Config.Host + "/version")
	if err != nil {
		return // refused, or somebody else's: the port is for anybody to take now
	}
	response.Body.Close()
	t.Errorf("the API server still answers: %s", response.Status)
}

func childrenOf(t *testing.T, pid, want int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var children []int
	for _, path := range stats {
		if child, parent, ok := readStat(path); ok && parent == pid {
			children = append(children, child)
		}
	}
	if len(children) != want {
		t.Fatalf("process %d has children %v, want %d", pid, children, want)
	}
	return children
}

// readStat returns a process and its parent; a zombie does not count.
func readStat(path string) (pid, parent int, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false
	}
	_, fields, _ := strings.Cut(string(data), ") ")
	var state string
	if _, err := fmt.Sscan(fields, &state, &parent); err != nil || state == "Z" {
		return 0, 0, false
	}
	_, err = fmt.Sscan(string(data), &pid)
	return pid, parent, err == nil
}

func living(pids []int) []int {
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool {
		_, _, ok := readStat(fmt.Sprintf("/proc/%d/stat", pid))
		return !ok
	})
}

func roleOf(t *testing.T, pids []int, role string) int {
	t.Helper()
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.HasSuffix(string(line), "\x00role\x00"+role+"\x00") {
			return pid
		}
	}
	t.Fatalf("no process among %v is %s", pids, role)
	return 0
}
