// Package devcluster starts a real Kubernetes API server for tests. It builds
// cmd/thole-devcluster if necessary, starts it in a temporary directory, and
// removes both afterwards.
//
// One for all tests of a package, each in a namespace of its own:
//
//	func TestMain(m *testing.M) { devcluster.Main(m) }
//
//	cluster := devcluster.Shared(t)
//	client, err := kubernetes.NewForConfig(cluster.Config)
//
// One for a test that stops, restores or configures it:
//
//	cluster := devcluster.Start(t, "--audit-log", path)
//
// The cluster has no node: pods are created and stay pending. It stops when the
// test process ends, also after a panic, a timeout or SIGKILL.
package devcluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/thole-dev/thole/host/internal/await"
)

// Cluster is a running control plane.
type Cluster struct {
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Config is read from Kubeconfig. It has client-go's default limit of 5
	// requests per second; change it in a copy.
	Config *rest.Config

	flags   []string // of the program, without those that this package sets
	home    string   // removed at the end; the cluster's directory is in it
	process *process
}

// Start starts a cluster for one test and stops it when the test ends. A cluster
// that has failed by then fails the test. The program gets the flags at each start.
// With -short the test is skipped.
func Start(tb testing.TB, flags ...string) *Cluster {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts a control plane")
	}
	c, err := StartMain(flags...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// StartMain starts a cluster in a TestMain that does more than [Main]. The caller
// must stop it. The program gets the flags at each start.
func StartMain(flags ...string) (*Cluster, error) {
	home, err := os.MkdirTemp("", "devcluster-")
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{home: home, flags: flags}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	return c, nil
}

// Stop stops the cluster and removes its directory. It fails if the cluster had
// already ended or does not stop in time. A second call has no effect.
func (c *Cluster) Stop() error {
	return errors.Join(c.stop(), os.RemoveAll(c.home))
}

// Restart stops the cluster and starts it again with the same data on the same
// port: for a client, the API server is away for some seconds.
func (c *Cluster) Restart() error { return c.restart(func() error { return nil }) }

// Save keeps a copy of etcd's data under a name. The cluster is restarted for it,
// as by [Cluster.Restart], so that nothing writes meanwhile.
func (c *Cluster) Save(name string) error {
	if !isFileName(name) {
		return fmt.Errorf("save cluster: %q is not a file name", name)
	}
	return c.restart(func() error { return os.CopyFS(c.saved(name), os.DirFS(c.etcd())) })
}

// Restore puts back the data that Save has kept under a name, as an administrator
// restores etcd from a backup: all later writes are lost, and resourceVersions that
// clients have seen are given to other writes. A saved state can be restored
// repeatedly.
func (c *Cluster) Restore(name string) error {
	if _, err := os.Stat(c.saved(name)); err != nil || !isFileName(name) {
		return fmt.Errorf("restore cluster: nothing was saved as %q", name)
	}
	return c.restart(func() error {
		if err := os.RemoveAll(c.etcd()); err != nil {
			return err
		}
		return os.CopyFS(c.etcd(), os.DirFS(c.saved(name)))
	})
}

// restart stops the cluster, calls stopped, and starts the cluster on its port.
func (c *Cluster) restart(stopped func() error) error {
	server, err := url.Parse(c.Config.Host)
	if err != nil {
		return fmt.Errorf("restart cluster: %w", err)
	}
	if err := c.stop(); err != nil {
		return err
	}
	if err := stopped(); err != nil {
		return fmt.Errorf("restart cluster: %w", err)
	}
	return c.start("--port", server.Port())
}

func (c *Cluster) dir() string { return filepath.Join(c.home, "cluster") }

func (c *Cluster) etcd() string { return filepath.Join(c.dir(), "etcd") }

func (c *Cluster) saved(name string) string { return filepath.Join(c.home, "saved", name) }

func isFileName(name string) bool {
	return name == filepath.Base(name) && name != "." && name != ".." && name != "/"
}

func (c *Cluster) start(args ...string) error {
	binary, err := Binary()
	if err != nil {
		return err
	}
	c.process, err = launch(binary, c.home, slices.Concat([]string{"--dir", c.dir()}, c.flags, args)...)
	if err != nil {
		return err
	}
	c.Kubeconfig = filepath.Join(c.dir(), "kubeconfig")
	c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return errors.Join(fmt.Errorf("read kubeconfig: %w", err), c.stop())
	}
	return nil
}

func (c *Cluster) stop() error {
	if c.process == nil {
		return nil
	}
	p := c.process
	c.process = nil
	return p.stop()
}

// process is a running thole-devcluster. It needs no goroutine, so that tests can
// look for leaked ones while it runs.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer // the cluster stops when it is closed, at the latest by our end
	stderr string    // the path of a file
}

// launch starts the binary and returns when the cluster is ready. Its standard
// error goes to a file in home.
func launch(binary, home string, args ...string) (_ *process, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start cluster: %w", err)
		}
	}()
	stderr, err := os.Create(filepath.Join(home, "stderr"))
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd := exec.Command(binary, append([]string{"--stop-with-stdin"}, args...)...)
	cmd.Stderr = stderr
	// A fifth less of the processor, for 60 MiB: most of what a start allocates stays.
	cmd.Env = append(os.Environ(), "GOGC=300")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, stdin: stdin, stderr: stderr.Name()}
	// The program limits the time of its start, so that there is always a line or
	// an end.
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		return nil, p.wait()
	}
	return p, nil
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended; wait returns why
	kill := time.AfterFunc(await.Limit, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.wait(); err != nil {
		return fmt.Errorf("stop cluster: %w", err)
	}
	return nil
}

// wait returns nil for exit code 0, else an error with the program's messages.
func (p *process) wait() error {
	err := p.cmd.Wait()
	_ = p.stdin.Close()
	if err == nil {
		return nil
	}
	messages, readErr := os.ReadFile(p.stderr)
	return errors.Join(fmt.Errorf("%w: %s", err, strings.TrimSpace(string(messages))), readErr)
}
