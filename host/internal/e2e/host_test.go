package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// directory is a plugin directory.
type directory struct {
	tb   testing.TB
	path string
}

func newDirectory(tb testing.TB) directory { return directory{tb, tb.TempDir()} }

// install writes a module under its final name in one step.
func (d directory) install(name string, wasm []byte) {
	d.tb.Helper()
	replaceFile(d.tb, filepath.Join(d.path, name+".wasm"), wasm)
}

// installPolicy writes the policy of a plugin: the fields after apiVersion.
func (d directory) installPolicy(name, fields string) {
	d.tb.Helper()
	d.installFile(name+".yaml", "apiVersion: thole.dev/v1alpha1\n"+fields)
}

func (d directory) installFile(name, text string) {
	d.tb.Helper()
	replaceFile(d.tb, filepath.Join(d.path, name), []byte(text))
}

// installExample writes the module and the policy of a plugin of plugins.
func (d directory) installExample(name string) {
	d.tb.Helper()
	policy, err := os.ReadFile(filepath.Join("..", "..", "..", "plugins", name, "policy.yaml"))
	must(d.tb, err)
	d.installFile(name+".yaml", string(policy))
	d.install(name, wasmbuild.Build(d.tb, wasmbuild.TinyGo, "plugins/"+name))
}

// allowAll is a configuration that leaves it to the policies what plugins may do.
const allowAll = `allow: {entries: {"*": [{groups: ["*"], kinds: ["*"], verbs: ["*"], namespaces: ["*"]}]}}` + "\n"

// replaceFile writes a file under a temporary name and renames it, so that nobody
// sees a part of it.
func replaceFile(tb testing.TB, path string, content []byte) {
	tb.Helper()
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
	must(tb, os.WriteFile(partial, content, 0o644))
	must(tb, os.Rename(partial, path))
}

func writeFile(tb testing.TB, dir, name, text string) {
	tb.Helper()
	must(tb, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// must ends the test if there is an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func podmanager(tb testing.TB, toolchain wasmbuild.Toolchain) []byte {
	tb.Helper()
	return wasmbuild.Build(tb, toolchain, "plugins/podmanager")
}

// process is a running thole.
type process struct {
	*tholetest.Process
	tb testing.TB
}

// start runs thole on a plugin directory, in one namespace or in all ("").
// config is the text of its configuration file. The process is stopped when the
// test ends, see [tholetest.Host.Start]. options change how it is run.
func start(tb testing.TB, d directory, namespace, config string, options ...func(*tholetest.Host)) *process {
	tb.Helper()
	h := tholetest.Host{
		Program: program, Plugins: d.path, Kubeconfig: cluster.Kubeconfig, Config: config,
		CacheDir: filepath.Join(scratch, "cache"), Args: []string{"--namespace", namespace},
	}
	for _, change := range options {
		change(&h)
	}
	return &process{h.Start(tb), tb}
}

// withKubeconfig makes thole use another kubeconfig than the administrator's.
func withKubeconfig(path string) func(*tholetest.Host) {
	return func(h *tholetest.Host) { h.Kubeconfig = path }
}

// quietlyIn makes thole log no debug lines and keep its compile cache in a
// directory of its own.
func quietlyIn(cacheDir string) func(*tholetest.Host) {
	return func(h *tholetest.Host) { h.LogLevel, h.CacheDir = "info", cacheDir }
}

// startWithProxy is start behind a proxy that counts the requests of the process.
func startWithProxy(tb testing.TB, d directory, namespace, config string) (*process, *tholetest.Proxy) {
	tb.Helper()
	proxy := tholetest.NewProxy(tb, cluster.Config)
	return start(tb, d, namespace, config, withKubeconfig(proxy.Kubeconfig)), proxy
}

// startPodmanager starts thole with the plugin podmanager, whose CRD it installs,
// and waits until the plugin runs.
func startPodmanager(tb testing.TB, namespace, config string) *process {
	tb.Helper()
	installCRD(tb, "plugins/podmanager/crd.yaml")
	d := newDirectory(tb)
	d.install("podmanager", podmanager(tb, wasmbuild.TinyGo))
	p := start(tb, d, namespace, config)
	p.awaitRunning("podmanager", 1)
	return p
}

// stop ends the process by SIGTERM and expects an orderly exit.
func (p *process) stop() {
	p.tb.Helper()
	if err := p.Stop(); err != nil {
		p.tb.Error(err)
	}
}

// kill ends the process by SIGKILL.
func (p *process) kill() {
	p.tb.Helper()
	if err := p.Kill(); err != nil {
		p.tb.Error(err)
	}
}

// expectNoErrors expects that the process has logged no error.
func (p *process) expectNoErrors() {
	p.tb.Helper()
	for _, line := range p.Log.Errors() {
		p.tb.Errorf("error in the log: %v", line)
	}
}

// awaitRunning waits until a plugin runs at that revision or a later one and the
// host is ready.
func (p *process) awaitRunning(plugin string, revision int) {
	p.tb.Helper()
	await.Until(p.tb, plugin+" runs and the host is ready", func() bool { return p.Running(plugin, revision) })
}

// expectHealth expects that the process is live, and waits until its readiness has
// that HTTP status. A host that is not ready must name the API server as the reason.
func (p *process) expectHealth(t *testing.T, readiness int) {
	t.Helper()
	if status, body := p.Get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz returned %d: %s", status, body)
	}
	await.Until(t, "/readyz returns "+http.StatusText(readiness), func() bool {
		status, body := p.Get("/readyz")
		return status == readiness && (readiness == http.StatusOK || strings.Contains(body, "[-] API server: "))
	})
}

// loadFailures returns how many modules of a plugin have failed at a step of
// loading.
func (p *process) loadFailures(plugin, step string) int {
	return int(p.Metrics().Sum("thole_plugin_load_failures_total", "plugin", plugin, "reason", step))
}

// awaitFailedRuns waits until failed runs of a controller are counted. They are
// counted after their object has been written.
func (p *process) awaitFailedRuns(t *testing.T, controller, class string) {
	t.Helper()
	await.Until(t, "a run of class "+class+" is counted", func() bool {
		return p.Metrics().Sum("thole_reconcile_errors_total", "class", class, "controller", controller) > 0
	})
}

// awaitReconciled waits until, after the mark, every object has had a run that
// succeeded with that number of writes. Objects are named with their controller:
// "secret namespace/name".
func (p *process) awaitReconciled(t *testing.T, mark, writes int, objects ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, o := range objects {
		missing[o] = true
	}
	await.Within(t, 5*await.Limit, "every object has been reconciled", func() bool {
		lines := p.Log.Since(mark)
		mark += len(lines)
		for _, line := range lines.Reconciled() {
			if line["writes"] == float64(writes) {
				delete(missing, line.String("controller")+" "+line.String("object"))
			}
		}
		return len(missing) == 0
	})
}

// expectNoRepetition expects that of the lines about one subject no two in a row
// have the same value of a field. A line without the field ends a series: what it
// reports is over.
func expectNoRepetition(t *testing.T, lines tholetest.Lines, subject, field string) {
	t.Helper()
	last := map[string]string{}
	for _, line := range lines {
		about, value := line.String(subject), line.String(field)
		if about == "" {
			continue
		}
		if value != "" && last[about] == value {
			t.Errorf("logged again about %s: %v", about, line)
		}
		last[about] = value
	}
}
