package tholetest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/thole-dev/thole/host/internal/await"
)

// Proxy is a running host/internal/faultproxy between one host and the API server. It
// injects faults and records the requests of this host; the API server's own
// counters cover all of its clients. host/internal/scenario/README.md describes the rules.
type Proxy struct {
	// Kubeconfig is the path of a kubeconfig of the proxy without a user.
	Kubeconfig string
	// Cluster is the proxy for other kubeconfigs. It has TLS, because clients
	// send tokens over TLS only.
	Cluster clientcmdapi.Cluster

	tb      testing.TB
	control string // URL
}

// NewProxy starts a proxy that stops when the test ends. It adds the credentials of
// server to requests without a token.
func NewProxy(tb testing.TB, server *rest.Config) *Proxy {
	tb.Helper()
	program, err := Program("host/internal/faultproxy")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{tb: tb, Kubeconfig: filepath.Join(tb.TempDir(), "kubeconfig")}
	p.control = p.start(exec.Command(program, "--stop-with-stdin", "--kubeconfig-out", p.Kubeconfig,
		"--kubeconfig", Kubeconfig(tb, Server(server, ""), User(server))))
	config, err := clientcmd.LoadFromFile(p.Kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	p.Cluster = *config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	p.Cluster.LocationOfOrigin = ""
	return p
}

// start runs the program until the test ends and returns the URL of its control
// interface.
func (p *Proxy) start(cmd *exec.Cmd) string {
	p.tb.Helper()
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		p.tb.Fatal(err)
	}
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	stop := func() error {
		_ = stdin.Close()
		kill := time.AfterFunc(await.Limit, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("faultproxy: %w: %s", err, &stderr)
		}
		return nil
	}
	control, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if readErr != nil || !ready {
		p.tb.Fatalf("faultproxy printed %q and not that it is ready: %v", line, errors.Join(readErr, stop()))
	}
	p.tb.Cleanup(func() {
		if err := stop(); err != nil {
			p.tb.Error(err)
		}
	})
	return control
}
