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

// These tests are about the program itself: its messages, its exit codes, and
// that it leaves no process running.

func TestSIGTERMEndsTheComponents(t *testing.T) {
	skipShort(t)
	c := Start(t)
	children := childrenOf(t, c.process.pid(), 3)
	if err := c.stop(); err != nil { // exit code 0
		t.Fatal(err)
	}
	if left := living(children); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	expectNotServing(t, c)
}

func TestSIGKILLOfTheParentEndsItsComponents(t *testing.T) {
	skipShort(t)
	c := Start(t)
	create(t, clientFor(t, c.Config), configMap("kept"))
	children := childrenOf(t, c.process.pid(), 3)
	c.process.kill(t)
	eventually(t, "the children to be gone", func() error { return countIs(len(living(children)), 0) })
	expectNotServing(t, c)

	// The directory can be used for another start.
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	_, err := clientFor(t, c.Config).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Errorf("get what was created before: %v", err)
	}
}

// Right after the parent was killed, the directory is still locked by components
// that are about to end.
func TestStartWaitsForTheComponentsOfAKilledParent(t *testing.T) {
	skipShort(t)
	c := Start(t)
	c.process.kill(t)
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
}

func TestClosedStandardInputEndsTheComponents(t *testing.T) {
	skipShort(t)
	c := Start(t)
	children := childrenOf(t, c.process.pid(), 3)
	if err := c.process.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the children to be gone", func() error { return countIs(len(living(children)), 0) })
}

func TestEndOfAComponentEndsTheCluster(t *testing.T) {
	skipShort(t)
	for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		t.Run(component, func(t *testing.T) {
			c, err := StartMain()
			if err != nil {
				t.Fatal(err)
			}
			children := childrenOf(t, c.process.pid(), 3)
			if err := syscall.Kill(componentOf(t, children, component), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			said := c.process.wait()
			expectSaid(t, said, 1, component+" ended: signal: killed", "logs/"+component+".log")
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

func TestDirectoryOfARunningClusterIsRefused(t *testing.T) {
	skipShort(t)
	c := Start(t)
	expectSaid(t, try(t, "--dir", c.dir()), 1,
		"directory "+c.dir()+" is in use", "pid "+strconv.Itoa(c.process.pid()))
}

func TestDirectoryWithOtherContentIsRefused(t *testing.T) {
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

func TestPortInUseIsRefused(t *testing.T) {
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

func TestWrongUseIsRefusedWithTheRightOne(t *testing.T) {
	skipShort(t)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no directory":       {nil, "--dir is required: name a directory"},
		"unknown flag":       {[]string{"--dir", dir, "--colour"}, "unknown flag: --colour"},
		"port out of range":  {[]string{"--dir", dir, "--port", "70000"}, `invalid value "70000" for --port: want a number from 0 to 65535`},
		"port not a number":  {[]string{"--dir", dir, "--port", "abc"}, `invalid value "abc" for --port: want a number from 0 to 65535`},
		"not a boolean":      {[]string{"--dir", dir, "--stop-with-stdin=maybe"}, `invalid value "maybe" for --stop-with-stdin: want true or false`},
		"unknown controller": {[]string{"--dir", dir, "--without-controllers=replicaset"}, `--without-controllers: "replicaset" is none of clusterrole-aggregation-controller`},
		"argument":           {[]string{"--dir", dir, "now"}, `unexpected argument "now": thole-devcluster takes flags only`},
		"component by hand":  {[]string{"component", "etcd"}, "only thole-devcluster itself starts a component"},
		"unknown component":  {[]string{"component", "kubelet"}, `unknown component "kubelet"`},
	} {
		t.Run(name, func(t *testing.T) {
			expectSaid(t, try(t, c.args...), 2, c.want, "Run 'thole-devcluster --help' for usage.")
		})
	}
}

func TestKubeconfigIsWrittenToTheNamedFile(t *testing.T) {
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
		t.Error("exit code 0 after SIGKILL")
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

// expectNotServing fails the test if the cluster still serves on its port.
func expectNotServing(t *testing.T, c *Cluster) {
	t.Helper()
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(c.Config.Host + "/version")
	if err != nil {
		return // refused, or served by another program, which may have the port by now
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

func componentOf(t *testing.T, pids []int, component string) int {
	t.Helper()
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), "\x00component\x00"+component+"\x00") {
			return pid
		}
	}
	t.Fatalf("no process among %v is %s", pids, component)
	return 0
}
