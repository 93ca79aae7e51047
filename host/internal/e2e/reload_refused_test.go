package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// badReload is a module, or a policy, whose load fails at a step.
type badReload struct {
	step    string
	wasm    func(*testing.T, soakModules) []byte // nil: the module stays as it is
	policy  string
	message string // part of the reason
}

// badReloads has an entry for each step, in the order of a load.
var badReloads = []badReload{
	{step: "read", wasm: func(*testing.T, soakModules) []byte { return make([]byte, 16<<20+1) }, message: "larger than 16 MiB"},
	{step: "policy", policy: "apiVersion: thole.dev/v1alpha1\nconfg: {}", message: `unknown field "confg", did you mean "config"?`},
	{step: "parse", wasm: func(_ *testing.T, m soakModules) []byte { return m.plain[:len(m.plain)/2] }, message: "truncated"},
	{step: "verify", wasm: reloadGuest("missing-export"), message: `export "reconcile" is missing`},
	{step: "compile", wasm: func(*testing.T, soakModules) []byte { return guestWithInvalidReconcile() }, message: "type"},
	{step: "instantiate", wasm: reloadGuest("start-traps"), message: "unreachable"},
	{step: "initialize", wasm: reloadGuest("initialize-traps"), message: "unreachable"},
	{step: "describe", wasm: reloadGuest("describe-traps"), message: "unreachable"},
	{step: "warm", wasm: reloadGuest("warm-traps"), message: "unreachable"},
	{step: "manifest", wasm: reloadGuest("manifest-other-name"), message: "the two must be equal, rename one"},
	{step: "kind", wasm: func(*testing.T, soakModules) []byte {
		return emptyPlugin(soakName(1), controllerFor(abi.Kind{APIVersion: "v1", Kind: "Binding"}))
	}, message: "v1 Binding cannot be listed"},
	{step: "overlap", wasm: func(_ *testing.T, m soakModules) []byte {
		return bytes.ReplaceAll(soakModule(m.plain, 1, 0), []byte(soakKind(1)), []byte(soakKind(0)))
	}, message: "both write the condition Ready"},
}

func reloadGuest(name string) func(*testing.T, soakModules) []byte {
	return func(t *testing.T, _ soakModules) []byte { return conformanceGuest(t, name) }
}

// guestWithInvalidReconcile returns a guest whose function reconcile returns a
// value of another type than it declares, which only the compiler finds.
func guestWithInvalidReconcile() []byte {
	var m tck.Module
	m.Memory(1)
	m.ExportMemory(abi.ExportMemory)
	m.Export(abi.ExportMarker, m.Func(nil, nil, nil))
	m.Export(abi.ExportDescribe, m.Func(nil, []wasm.ValueType{wasm.I32}, nil, tck.I32Const(0)))
	m.Export(abi.ExportReconcile, m.Func([]wasm.ValueType{wasm.I32}, []wasm.ValueType{wasm.I32}, nil, tck.I64Const(0)))
	return m.Bytes()
}

// For each step at which a load can fail, the plugin gets a file that fails there,
// while its objects change. The previous revision serves them, and the log, the
// metrics, /plugins and an Event on the host's Pod have the reason.
func TestPreviousRevisionServesWhileAReloadIsRefused(t *testing.T) {
	t.Parallel()
	r := newReloaded(t)
	p := r.dir.plugins[1]
	stop := r.keepChanging()
	for _, bad := range badReloads {
		t.Run(bad.step, func(t *testing.T) {
			revision := r.host.Plugin(p.name()).Revision
			mark := r.host.Log.Mark()
			if bad.policy != "" {
				replaceFile(t, r.dir.policyFile(p), []byte(bad.policy))
			} else {
				replaceFile(t, r.dir.file(p), bad.wasm(t, r.dir.modules))
			}
			r.expectRefused(t, bad, revision, mark)
			r.expectServedBy(t, p)
			if bad.policy != "" {
				r.dir.removePolicy(p)
			} else {
				replaceFile(t, r.dir.file(p), r.good)
			}
			await.Until(t, "the good module is accepted without a restart", func() bool {
				s := r.host.Plugin(p.name())
				return s.State == "running" && s.LastError == "" && s.Revision == revision
			})
		})
	}
	stop()
	if n := r.host.Metrics().Sum("controller_runtime_reconcile_errors_total"); n != 0 {
		t.Errorf("%v runs failed", n)
	}
	r.host.stop()
}

// reloaded is a host with two plugins, the second of which is reloaded.
type reloaded struct {
	t    *testing.T
	ns   string
	kind schema.GroupVersionResource // of the second plugin
	dir  *soakDirectory
	pod  *corev1.Pod // of the host; it does not exist
	host *process
	good []byte // the module that the second plugin runs at first
	n    int    // counts the objects that were created by expectServedBy
}

func newReloaded(t *testing.T) *reloaded {
	t.Helper()
	r := newReloadedDirectory(t)
	ownCache := func(h *tholetest.Host) { h.CacheDir = t.TempDir() }
	r.host = start(t, r.dir.directory, r.ns, soakLimits, inPod(r.pod), ownCache)
	r.host.awaitRunning(soakName(0), 1)
	r.host.awaitRunning(soakName(1), 1)
	r.expectServedBy(t, r.dir.plugins[1])
	return r
}

// newReloadedDirectory returns the directory and the objects of a host that is yet to be started.
func newReloadedDirectory(t *testing.T) *reloaded {
	t.Helper()
	r := &reloaded{t: t, ns: namespace(t)}
	installSoakCRD(t, 0)
	r.kind = installSoakCRD(t, 1)
	for i := range 10 {
		create(t, r.kind, soakKind(1), r.ns, fmt.Sprintf("object-%d", i), map[string]any{"text": "at first"})
	}
	r.dir = newSoakDirectory(t, nil, 2, 0)
	r.good = soakModule(r.dir.modules.plain, 1, r.dir.version)
	r.pod = &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "host", Namespace: r.ns, UID: types.UID(r.ns)},
	}
	return r
}

// keepChanging changes one object after the other.
func (r *reloaded) keepChanging() (stop func()) {
	return repeat(r.t, 50*time.Millisecond, func(n int) error {
		return patchSpec(r.t.Context(), r.kind, r.ns, fmt.Sprintf("object-%d", n%10), "text", fmt.Sprint("change ", n))
	})
}

// expectServedBy expects that an object that is created now is reconciled by the
// version that a plugin is recorded to have.
func (r *reloaded) expectServedBy(t *testing.T, p *soakPlugin) (created *unstructured.Unstructured) {
	t.Helper()
	r.n++
	name := fmt.Sprint("created-", r.n)
	create(t, r.kind, soakKind(1), r.ns, name, map[string]any{"text": "as it is"})
	await.Until(t, name+" is reconciled by "+p.version, func() bool {
		created = get(t, r.kind, r.ns, name)
		return r.isFrom(created, p.version)
	})
	return created
}

// isFrom reports whether an object and its child are as a version wants them.
func (r *reloaded) isFrom(o *unstructured.Unstructured, version string) bool {
	r.t.Helper()
	child, text := get(r.t, configMaps, r.ns, o.GetName()), field(o, "spec", "text")
	return ready(o) && field(o, "status", "version") == version && field(o, "status", "text") == text &&
		field(child, "data", "version") == version && field(child, "data", "text") == text
}

// expectRefused expects that a reload was refused, reported everywhere, and that
// the revision keeps running.
func (r *reloaded) expectRefused(t *testing.T, bad badReload, revision, mark int) {
	t.Helper()
	name := soakName(1)
	await.Until(t, "step "+bad.step+" has failed", func() bool { return r.host.Plugin(name).FailedStep == bad.step })
	s := r.host.Plugin(name)
	if s.State != "degraded" || s.Revision != revision || !strings.Contains(s.LastError, bad.message) {
		t.Errorf("/plugins shows %+v, want the message %q", s, bad.message)
	}
	lines := r.host.Log.Since(mark).Events("PluginRefused", "plugin", name, "step", bad.step)
	if len(lines) != 1 || !strings.Contains(lines[0].String("error"), bad.message) || lines[0].String("running") == "" {
		t.Errorf("the refusal is logged as %v", lines)
	}
	await.Until(t, "the failure is counted", func() bool { return r.host.loadFailures(name, bad.step) == 1 })
	awaitPodEvent(t, r.pod, "Warning", "PluginRefused", fmt.Sprintf("plugin %q", name), "at step "+bad.step, bad.message)
}
