package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// directory is a directory of plugins.
type directory struct {
	t    *testing.T
	path string
}

func newDirectory(t *testing.T) directory { return directory{t, t.TempDir()} }

// install puts a module in place as one is told to: by a rename.
func (d directory) install(name string, wasm []byte) {
	d.t.Helper()
	partial := filepath.Join(d.path, "."+name+".partial")
	if err := os.WriteFile(partial, wasm, 0o644); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(partial, filepath.Join(d.path, name+".wasm")); err != nil {
		d.t.Fatal(err)
	}
}

func podmanager(t *testing.T, toolchain wasmbuild.Toolchain) []byte {
	t.Helper()
	return wasmbuild.Build(t, toolchain, "plugins/podmanager")
}

// process is a running thole.
type process struct {
	*tholetest.Process
	t *testing.T
}

// thole starts the program on a directory of plugins; config is the text of
// its configuration file. It is stopped with the test, and fails it if it did
// not end well or found a data race.
func thole(t *testing.T, d directory, namespace, config string) *process {
	t.Helper()
	return tholeOn(t, cluster.Kubeconfig, d, namespace, config)
}

// tholeOn is thole with another kubeconfig than the administrator's.
func tholeOn(t *testing.T, kubeconfig string, d directory, namespace, config string) *process {
	t.Helper()
	return &process{host(d.path, kubeconfig, namespace, config).Start(t), t}
}

func host(plugins, kubeconfig, namespace, config string) tholetest.Host {
	return tholetest.Host{
		Program: program, Plugins: plugins, Kubeconfig: kubeconfig, Config: config,
		CacheDir: filepath.Join(filepath.Dir(program), "cache"), Args: []string{"--namespace", namespace},
	}
}

// counted is thole behind a proxy that counts its requests.
func counted(t *testing.T, d directory, namespace, config string) (*process, *tholetest.Proxy) {
	t.Helper()
	proxy := tholetest.NewProxy(t, cluster.Config)
	return tholeOn(t, tholetest.Kubeconfig(t, proxy.Cluster, api.AuthInfo{}), d, namespace, config), proxy
}

// stop ends the process as an administrator would.
func (p *process) stop() {
	p.t.Helper()
	if err := p.Stop(); err != nil {
		p.t.Error(err)
	}
}

// kill ends the process without a chance to do anything.
func (p *process) kill() {
	p.t.Helper()
	if err := p.Kill(); err != nil {
		p.t.Error(err)
	}
}

// expectNoErrors fails if the host has logged an error.
func (p *process) expectNoErrors() {
	p.t.Helper()
	for _, line := range p.Log.Errors() {
		p.t.Errorf("error in the log: %v", line)
	}
}

// ready waits until the plugin runs at that generation or a later one and the
// host says that it is ready.
func (p *process) ready(plugin string, generation int) {
	p.t.Helper()
	await.Until(p.t, plugin+" runs, and the host is ready", func() bool { return p.Runs(plugin, generation) })
}

// alive: the process answers, and is as ready as it should be.
func (p *process) alive(t *testing.T, readiness int) {
	t.Helper()
	if status, body := p.Ask("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d: %s", status, body)
	}
	await.Until(t, "/readyz answers as it should", func() bool {
		status, body := p.Ask("/readyz")
		return status == readiness && (readiness == http.StatusOK || strings.Contains(body, "[-] API server: "))
	})
}

// works checks that podmanager does its work.
func (p *process) works(t *testing.T, ns, name string) {
	t.Helper()
	primary(t, podManagers, "PodManager", ns, name, map[string]any{"image": "a:1"})
	await.Until(t, name+" is Ready with its Pod", func() bool {
		return image(get(t, pods, ns, name)) == "a:1" && ready(get(t, podManagers, ns, name))
	})
}
