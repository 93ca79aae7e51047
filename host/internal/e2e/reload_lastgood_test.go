package e2e

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// badReload is a module, or a policy, that fails at a step of its load.
type badReload struct {
	step   string
	wasm   func(soakModules) []byte // nil: the good one stays
	policy string
	told   string // in the reason
}

// badReloads has one for each step, in the order of a load.
var badReloads = []badReload{
	{step: "read", wasm: func(soakModules) []byte { return make([]byte, 16<<20+1) }, told: "larger than 16 MiB"},
	{step: "policy", policy: "confg: {}", told: `unknown field "confg", did you mean "config"?`},
	{step: "parse", wasm: func(m soakModules) []byte { return m.plain[:len(m.plain)/2] }, told: "truncated"},
	{step: "verify", wasm: kitGuest("missing-export"), told: `export "reconcile" is missing`},
	{step: "compile", wasm: func(soakModules) []byte { return guestWith(abi.ExportReconcile, tck.I64Const(0)) }, told: "type"},
	{step: "instantiate", wasm: kitGuest("start-traps"), told: "unreachable"},
	{step: "initialize", wasm: kitGuest("initialize-traps"), told: "unreachable"},
	{step: "describe", wasm: kitGuest("describe-traps"), told: "unreachable"},
	{step: "warm", wasm: kitGuest("warm-traps"), told: "unreachable"},
	{step: "manifest", wasm: kitGuest("manifest-other-name"), told: "the two must be equal, rename one"},
	{step: "kind", wasm: func(soakModules) []byte {
		return plugin(soakName(1), controllerFor(abi.Kind{APIVersion: "v1", Kind: "Binding"}))
	}, told: "v1 Binding cannot be watched"},
	{step: "overlap", wasm: func(m soakModules) []byte {
		return bytes.ReplaceAll(soakModule(m.plain, 1, 0), []byte(soakKind(1)), []byte(soakKind(0)))
	}, told: "both write the condition Ready"},
}

func kitGuest(name string) func(soakModules) []byte {
	return func(soakModules) []byte {
		c, ok := tck.CaseOf(name)
		if !ok {
			panic("the kit has no guest " + name)
		}
		return c.Wasm()
	}
}

// guestWith is a guest of which one function (i32) -> i32 has that body.
func guestWith(export string, body ...[]byte) []byte {
	var m tck.Module
	m.Memory(1)
	m.ExportMemory(abi.ExportMemory)
	m.Export(abi.ExportMarker, m.Func(nil, nil, nil))
	m.Export(abi.ExportDescribe, m.Func(nil, []wasm.ValueType{wasm.I32}, nil, tck.I32Const(0)))
	m.Export(export, m.Func([]wasm.ValueType{wasm.I32}, []wasm.ValueType{wasm.I32}, nil, body...))
	return m.Bytes()
}

// TestTheLastGoodGenerationServes puts a module in place for each step at which
// a load can fail, while objects change: the generation before serves them, and
// the reason is in the log, the metrics, /plugins and an Event on the host's
// pod.
func TestTheLastGoodGenerationServes(t *testing.T) {
	r := newReplaced(t)
	p := r.dir.plugins[1]
	stop := r.keepChanging()
	for _, bad := range badReloads {
		t.Run(bad.step, func(t *testing.T) {
			generation := r.host.Plugin(soakName(1)).Generation
			mark := r.host.Log.Mark()
			if bad.policy != "" {
				r.dir.put(r.dir.policyFile(p), []byte(bad.policy))
			} else {
				r.dir.put(r.dir.file(p), bad.wasm(r.dir.modules))
			}
			r.expectRefused(t, bad, generation, mark)
			r.expectServes(t, p)
			if bad.policy != "" {
				r.dir.noPolicy(p)
			} else {
				r.dir.put(r.dir.file(p), r.good)
			}
			await.Until(t, "the good one is taken as it was", func() bool {
				s := r.host.Plugin(soakName(1))
				return s.State == "running" && s.LastError == "" && s.Generation == generation
			})
		})
	}
	stop()
	r.expectNoFailedRuns()
	r.host.stop()
}

// replaced is a host with two plugins, one of which is replaced by bad ones.
type replaced struct {
	t    *testing.T
	ns   string
	kind schema.GroupVersionResource // of the one that is replaced
	dir  *soakDirectory
	host *process
	good []byte
	n    int // objects that were made later
}

func newReplaced(t *testing.T) *replaced {
	t.Helper()
	r := &replaced{t: t, ns: namespace(t)}
	installSoakKind(t, 0)
	r.kind = installSoakKind(t, 1)
	for i := range 10 {
		done(t, create(t.Context(), r.kind, soakKind(1), r.ns, fmt.Sprintf("object-%d", i), map[string]any{"text": "at first"}))
	}
	r.dir = newSoakDirectory(t, nil, 2, 0)
	r.good = soakModule(r.dir.modules.plain, 1, r.dir.version)
	how := host(r.dir.path, cluster.Kubeconfig, r.ns, soakLimits)
	how.CacheDir = filepath.Dir(r.dir.path)
	how.Env = []string{"POD_NAME=host", "POD_NAMESPACE=" + r.ns, "POD_UID=00000000-0000-0000-0000-000000000000"}
	r.host = &process{how.Start(t), t}
	r.host.ready(soakName(0), 1)
	r.host.ready(soakName(1), 1)
	r.expectServes(t, r.dir.plugins[1])
	return r
}

// keepChanging changes one object after the other.
func (r *replaced) keepChanging() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var changes sync.WaitGroup
	changes.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
			err := patchSpec(r.t.Context(), r.kind, r.ns, fmt.Sprintf("object-%d", n%10), "text", fmt.Sprint("change ", n))
			if err != nil && ctx.Err() == nil {
				r.t.Errorf("change an object: %v", err)
				return
			}
		}
	})
	stop = func() {
		cancel()
		changes.Wait()
	}
	r.t.Cleanup(stop)
	return stop
}

// expectServes: an object that is made now is reconciled by the version that is
// noted as good. Not one that is changed: it would be slowed as one in a loop
// of writes after some versions.
func (r *replaced) expectServes(t *testing.T, p *soakPlugin) (made *unstructured.Unstructured) {
	t.Helper()
	r.n++
	name := fmt.Sprint("made-", r.n)
	done(t, create(t.Context(), r.kind, soakKind(1), r.ns, name, map[string]any{"text": "as it is"}))
	await.Until(t, name+" is reconciled by "+p.version, func() bool {
		made = get(t, r.kind, r.ns, name)
		return r.asWanted(made, p.version)
	})
	return made
}

// asWanted says whether an object and its child are as a version wants them.
func (r *replaced) asWanted(o *unstructured.Unstructured, version string) bool {
	r.t.Helper()
	child, text := get(r.t, configMaps, r.ns, o.GetName()), field(o, "spec", "text")
	return ready(o) && field(o, "status", "version") == version && field(o, "status", "text") == text &&
		field(child, "data", "version") == version && field(child, "data", "text") == text
}

// expectRefused: the reason is told in all places.
func (r *replaced) expectRefused(t *testing.T, bad badReload, generation, mark int) {
	t.Helper()
	name := soakName(1)
	await.Until(t, "/plugins says that it is refused at "+bad.step, func() bool { return r.host.Plugin(name).RejectedFor == bad.step })
	s := r.host.Plugin(name)
	if s.State != "degraded" || s.Generation != generation || !strings.Contains(s.LastError, bad.told) {
		t.Errorf("/plugins says %+v, not %q", s, bad.told)
	}
	lines := tholetest.With(r.host.Log.Since(mark), "new generation refused, the last good one goes on", "plugin", name, "step", bad.step)
	if len(lines) != 1 || !strings.Contains(lines[0].String("error"), bad.told) {
		t.Errorf("the log tells it in %d lines: %v", len(lines), lines)
	}
	await.Until(t, "it is counted", func() bool { return r.host.loadFailures(name, bad.step) == 1 })
	r.expectEvent(t, "PluginRefused", "at step "+bad.step, bad.told)
}

// expectEvent waits for an Event on the pod of the host.
func (r *replaced) expectEvent(t *testing.T, reason string, told ...string) {
	t.Helper()
	await.Until(t, "an Event "+reason+" on the pod says "+strings.Join(told, " and "), func() bool {
		all, err := clients.CoreV1().Events(r.ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=host,reason=" + reason})
		done(t, err)
		for _, e := range all.Items {
			if e.InvolvedObject.Kind == "Pod" && containsAll(e.Message, append(told, fmt.Sprintf("plugin %q", soakName(1)))) {
				return true
			}
		}
		return false
	})
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// expectNoFailedRuns: none of either plugin failed.
func (r *replaced) expectNoFailedRuns() {
	r.t.Helper()
	_, text := r.host.Ask("/metrics")
	if n := metrics(text).sum("controller_runtime_reconcile_errors_total"); n != 0 {
		r.t.Errorf("%v runs failed", n)
	}
}
