package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// refusal is a plugin that is not run, and what people read about it.
type refusal struct {
	name   string
	put    func(t *testing.T, path string) // makes the file <name>.wasm; nil: the kit's guest of that name
	policy string                          // beside it
	state  string                          // default failed
	reason string                          // label of thole_plugin_load_failures_total; "" if none is counted
	told   []string                        // in the message: what is wrong, where, and what to do
}

var podManagerKind = abi.Kind{APIVersion: "example.thole.dev/v1", Kind: "PodManager"}

// refusals has a line for each way in which a plugin can be wrong when it is
// loaded.
var refusals = []refusal{
	// The file.
	{name: "is-a-directory", put: putDirectory, reason: "read", told: []string{"is-a-directory.wasm: is a directory: put a file in its place"}},
	{name: "dangling-link", put: putDanglingLink, reason: "read", told: []string{"dangling-link.wasm: is a symbolic link to a file that is not there: put the file there"}},
	{name: "named-pipe", put: putPipe, reason: "read", told: []string{"named-pipe.wasm: is not a regular file: put one in its place"}},
	{name: "oversize", put: putLarge, reason: "read", told: []string{"oversize.wasm: is larger than 16 MiB: build it with TinyGo"}},
	{name: "Not_A_Label", put: putKit("correct"), reason: "load", told: []string{`"Not_A_Label": the name is not a DNS label`, "rename the file"}},

	// The module.
	{name: "not-wasm", reason: "parse", told: []string{"not WebAssembly", "build the plugin with the SDK"}},
	{name: "empty-file", reason: "parse", told: []string{"the file is empty", "copy or build the file again, under another name, and rename it into place when it is whole"}},
	{name: "truncated", reason: "parse", told: []string{"truncated: the bytes end early", "copy or build the file again, under another name, and rename it into place when it is whole"}},
	{name: "count-bomb", reason: "parse", told: []string{"4294967295 functions do not fit the 1 bytes left", "copy or build the file again"}},
	{name: "other-version", reason: "verify", told: []string{`export "thole_v1" is missing, "thole_v2" is there`, "build it with an SDK for that version"}},
	{name: "missing-marker", reason: "verify", told: []string{`export "thole_v1" is missing`, "build it with the SDK"}},
	{name: "missing-export", reason: "verify", told: []string{`export "reconcile" is missing: export a function (i32) -> i32 under this name`}},
	{name: "wrong-signature", reason: "verify", told: []string{`export "reconcile" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`}},
	{name: "unknown-import", reason: "verify", told: []string{`import "thole/v1.outptu" is not known to this host: did you mean "thole/v1.output"?`}},
	{name: "unknown-import-module", reason: "verify", told: []string{`import "env.abort" is not known to this host: a plugin can import from thole/v1 and wasi_snapshot_preview1 only`}},
	{name: "huge-memory", reason: "verify", told: []string{`export "memory" starts with 4096 MiB, the plugin's limit is 64 MiB`, "raise limits.memoryMiB"}},
	{name: "initialize-traps", reason: "initialize", told: []string{"run _initialize: panic: trap: unreachable", "run its tests"}},
	{name: "describe-without-manifest", reason: "describe", told: []string{"it wrote no manifest: call output before it returns 0"}},

	// The manifest.
	{name: "manifest-not-json", reason: "manifest", told: []string{"read manifest: the text is not UTF-8", "build it with the SDK of this host's version"}},
	{name: "manifest-unknown-field", reason: "manifest", told: []string{`unknown field "controlers", did you mean "controllers"?`}},
	{name: "manifest-other-name", reason: "manifest", told: []string{`name is "other-plugin", but the file is manifest-other-name.wasm: the two must be equal, rename one`}},
	{name: "manifest-same-controller-twice", reason: "manifest", told: []string{`controllers[1].name: "twin" is given twice`, "correct what the plugin registers"}},
	{name: "manifest-without-kind", reason: "manifest", told: []string{"controllers[0].for.kind: is required"}},

	// What it is for.
	{name: "rival", put: putPlugin(controllerFor(podManagerKind)), reason: "overlap", told: []string{
		`controller "rival/main" and "podmanager/podmanager" both write the condition Ready of example.thole.dev/v1 PodManager`, "give one of them another conditions.target",
	}},
	{name: "twins", put: putPlugin(late("a", "Twin"), late("b", "Twin")), reason: "overlap", told: []string{
		`controller "twins/b" and "twins/a" both write the condition Twin of e2e.thole.dev/v1 Latecomer`, "give one of them another conditions.target",
	}},
	{name: "too-early", put: putPlugin(controllerFor(latecomer)), state: "waiting", told: []string{
		"the API server does not serve e2e.thole.dev/v1 Latecomer: install its CRD; retrying",
	}},
	{name: "reviewer", put: putPlugin(controllerFor(abi.Kind{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"})), reason: "kind", told: []string{
		`authorization.k8s.io/v1 SubjectAccessReview cannot be watched: its API has no verb "list"`, "do not declare it under for, owns or reads",
	}},
	{name: "binder", put: putPlugin(abi.Controller{
		Name: "main", For: abi.Kind{APIVersion: "v1", Kind: "ServiceAccount"}, Reads: []abi.Kind{{APIVersion: "v1", Kind: "Binding"}},
	}), reason: "kind", told: []string{`v1 Binding cannot be watched: its API has no verb "list"`, "do not declare it under for, owns or reads"}},

	// The policy beside it.
	{name: "misspelt-policy", put: putPlugin(late("main", "Misspelt")), policy: "crossNamespaces: true", reason: "policy", told: []string{
		"misspelt-policy.yaml", `unknown field "crossNamespaces", did you mean "crossNamespace"?`,
	}},
	{name: "broken-policy", put: putPlugin(late("main", "Broken")), policy: "config: [unclosed", reason: "policy", told: []string{"broken-policy.yaml", "not valid YAML: line 1"}},
	{name: "greedy-policy", put: putPlugin(late("main", "Greedy")), policy: "crossNamespace: true", reason: "policy", told: []string{
		"greedy-policy.yaml: crossNamespace: Forbidden: the host's configuration does not allow it", `add "greedy-policy" to allow.crossNamespace in the file of --config`,
	}},
}

// TestBadPluginsAreRefusedAndOthersGoOn installs every bad plugin into a host
// beside a good one: each is told in /plugins, in one line of the log and in
// the metrics, and the good one works as if it were alone.
func TestBadPluginsAreRefusedAndOthersGoOn(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	good := podmanager(t, wasmbuild.TinyGo)
	d.install("podmanager", good)
	p := thole(t, d, ns, "")
	p.ready("podmanager", 1)
	for _, r := range refusals {
		r.install(t, d)
	}
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) { r.expectTold(t, p) })
	}
	p.ready("podmanager", 1) // readiness too: the others have settled
	t.Run("healthy", func(t *testing.T) { p.works(t, ns, "beside") })
	t.Run("refused while a good one runs", func(t *testing.T) {
		d.install("podmanager", good[:len(good)/2])
		await.Until(t, "the new module is refused", func() bool { return strings.Contains(p.Plugin("podmanager").LastError, "truncated") })
		if s := p.Plugin("podmanager"); s.State != "degraded" || s.Generation != 1 || s.RejectedFor != "parse" {
			t.Errorf("podmanager is %+v", s)
		}
		p.works(t, ns, "on-the-last-good-one")
		d.install("podmanager", good[:len(good)/3])
		await.Until(t, "another bad module is told anew", func() bool { return p.loadFailures("podmanager", "parse") == 2 })
		if n := len(p.about("podmanager", "error")); n != 2 {
			t.Errorf("two bad modules are told in %d lines", n)
		}
		d.install("podmanager", good)
		await.Until(t, "the good one is taken as it was", func() bool { return p.Plugin("podmanager").LastError == "" })
	})
	t.Run("corrected", func(t *testing.T) {
		installCRD(t, "host/internal/e2e/testdata/badinput/latecomer.yaml")
		t.Cleanup(func() { uninstallCRD(t, "latecomers.e2e.thole.dev") })
		d.install("truncated", plugin("truncated", late("main", "Whole")))
		p.ready("too-early", 1)
		p.ready("truncated", 1)
		latecomers := schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: "latecomers"}
		primary(t, latecomers, "Latecomer", ns, "at-last", map[string]any{})
		await.Until(t, "the object of the late CRD is Ready", func() bool {
			o := get(t, latecomers, ns, "at-last")
			return ready(o) && condition(o, "Whole")["status"] == "True"
		})
	})
	t.Run("directory removed and made again", func(t *testing.T) {
		// At once: while its files go one by one plugins are gone, and not
		// the directory.
		away := d.path + ".away"
		done(t, os.Rename(d.path, away))
		done(t, os.RemoveAll(away))
		const told = "cannot read the plugin directory, keeping the running plugins: create it, or let the user that the host runs as read it"
		await.Until(t, "it is told", func() bool { return len(p.Log.With(told)) == 1 })
		p.works(t, ns, "without-directory")
		done(t, os.Mkdir(d.path, 0o755))
		d.install("podmanager", good)
		await.Until(t, "what was removed is gone", func() bool {
			all, ok := p.Plugins()
			return ok && len(all) == 1 && all[0].Name == "podmanager"
		})
		p.ready("podmanager", 1)
		p.works(t, ns, "with-directory")
	})
	p.stop()
}

// install puts what is wrong into the directory.
func (r refusal) install(t *testing.T, d directory) {
	t.Helper()
	if r.policy != "" { // before the module, which would run without
		write(t, d.path, r.name+".yaml", r.policy)
	}
	put := r.put
	if put == nil {
		put = putKit(r.name)
	}
	put(t, filepath.Join(d.path, r.name+".wasm"))
}

func (r refusal) expectTold(t *testing.T, p *process) {
	state, level := "failed", "error"
	if r.state != "" {
		state, level = r.state, "warn"
	}
	await.Until(t, "it is "+state, func() bool { return p.Plugin(r.name).State == state })
	s := p.Plugin(r.name)
	for _, text := range r.told {
		if !strings.Contains(s.LastError, text) {
			t.Errorf("/plugins says %s\nand not %s", s.LastError, text)
		}
	}
	lines := p.about(r.name, level)
	if len(lines) != 1 {
		t.Fatalf("%d lines of the log tell it: %v", len(lines), lines)
	}
	if told := fmt.Sprint(lines[0]["error"], lines[0]["reason"]); !strings.Contains(told, s.LastError) {
		t.Errorf("the log says %q, not %q", told, s.LastError)
	}
	if r.reason != "" && (s.RejectedFor != r.reason || p.loadFailures(r.name, r.reason) != 1) {
		t.Errorf("rejected for %q, counted %d times for %q", s.RejectedFor, p.loadFailures(r.name, r.reason), r.reason)
	}
	t.Log(s.LastError)
}
