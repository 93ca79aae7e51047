package e2e

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// badPlugin is a plugin that cannot be loaded, and how that is reported.
type badPlugin struct {
	name   string
	write  func(t *testing.T, path string) // writes the module; nil: the conformance kit's guest of that name
	policy string                          // beside the module
	// writePolicy writes that file instead.
	writePolicy func(t *testing.T, path string)
	state       string   // in /plugins; default: failed
	step        string   // of loading, that fails; "" for a plugin that waits
	message     []string // parts of lastError: what is wrong, where, and what to do
}

var podManagerKind = abi.Kind{APIVersion: "example.thole.dev/v1", Kind: "PodManager"}

// badPlugins has an entry for each way in which loading a plugin can fail.
var badPlugins = []badPlugin{
	// The file.
	{name: "is-a-directory", write: writeDirectory, step: "read", message: []string{
		"is-a-directory.wasm: is a directory: put a file in its place",
	}},
	{name: "dangling-link", write: writeDanglingLink, step: "read", message: []string{
		"dangling-link.wasm: is a symbolic link to a file that is not there: put the file there",
	}},
	{name: "link-out", write: writeLinkOut, step: "read", message: []string{
		"link-out.wasm: is a symbolic link that leads out of the plugin directory, or has an absolute path: put the file itself there",
	}},
	{name: "named-pipe", write: writePipe, step: "read", message: []string{
		"named-pipe.wasm: is not a regular file: put one in its place",
	}},
	{name: "oversize", write: writeOversized, step: "read", message: []string{
		"oversize.wasm: is larger than 16 MiB: build it with TinyGo",
	}},
	{name: "Not_A_Label", write: writeConformanceGuest("correct"), step: "load", message: []string{
		`"Not_A_Label": the name is not a DNS label`,
		"rename the file",
	}},

	// The module.
	{name: "not-wasm", step: "parse", message: []string{"not WebAssembly", "build the plugin with the SDK"}},
	{name: "empty-file", step: "parse", message: []string{
		"the file is empty",
		"copy or build the file again, under another name, and rename it into place when it is whole",
	}},
	{name: "truncated", step: "parse", message: []string{
		"truncated: the bytes end early",
		"copy or build the file again, under another name, and rename it into place when it is whole",
	}},
	{name: "count-bomb", step: "parse", message: []string{
		"4294967295 functions do not fit the 1 bytes left",
		"copy or build the file again",
	}},
	{name: "other-version", step: "verify", message: []string{
		`export "thole_v1" is missing, "thole_v2" is there`,
		"build it with an SDK for that version",
	}},
	{name: "missing-marker", step: "verify", message: []string{
		`export "thole_v1" is missing`,
		"build it with the SDK",
	}},
	{name: "missing-export", step: "verify", message: []string{
		`export "reconcile" is missing: export a function (i32) -> i32 under this name`,
	}},
	{name: "wrong-signature", step: "verify", message: []string{
		`export "reconcile" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`,
	}},
	{name: "unknown-import", step: "verify", message: []string{
		`import "thole/v1.outptu" is not known to this host: did you mean "thole/v1.output"?`,
	}},
	{name: "unknown-import-module", step: "verify", message: []string{
		`import "env.abort" is not known to this host: a plugin can import from thole/v1 and wasi_snapshot_preview1 only`,
	}},
	{name: "huge-memory", step: "verify", message: []string{
		`export "memory" starts with 4096 MiB, the plugin's limit is 64 MiB`,
		"raise limits.memoryMiB",
	}},
	{name: "initialize-traps", step: "initialize", message: []string{
		"run _initialize: panic: trap: unreachable",
		"run its tests",
	}},
	{name: "describe-without-manifest", step: "describe", message: []string{
		"it wrote no manifest: pass it to output before it returns 0",
	}},

	// The manifest.
	{name: "manifest-not-json", step: "manifest", message: []string{
		"read manifest: the text is not UTF-8",
		"build it with the SDK of this host's version",
	}},
	{name: "manifest-unknown-field", step: "manifest", message: []string{
		`unknown field "controlers", did you mean "controllers"?`,
	}},
	{name: "manifest-other-name", step: "manifest", message: []string{
		`name is "other-plugin", but the file is manifest-other-name.wasm: the two must be equal, rename one`,
	}},
	{name: "manifest-same-controller-twice", step: "manifest", message: []string{
		`controllers[1].name: "twin" is given twice`,
		"correct what the plugin registers",
	}},
	{name: "manifest-without-kind", step: "manifest", message: []string{"controllers[0].for.kind: is required"}},

	{name: "keeps-copies-of-secrets", step: "manifest", write: writeEmptyPlugin(keepingCopies("v1", "Secret")), message: []string{
		`controllers[0].changes: "annotation" would copy the content of v1 Secret into its annotations: use memory`,
	}},
	{name: "keeps-copies-of-accounts", step: "manifest", write: writeEmptyPlugin(keepingCopies("v1", "ServiceAccount")), message: []string{
		`would copy the content of v1 ServiceAccount into its annotations`,
	}},
	{name: "keeps-copies-of-roles", step: "manifest", write: writeEmptyPlugin(keepingCopies("rbac.authorization.k8s.io/v1", "Role")), message: []string{
		`would copy the content of rbac.authorization.k8s.io/v1 Role into its annotations`,
	}},

	// Its kinds.
	{
		name: "z-overlaps-podmanager", step: "overlap", write: writeEmptyPlugin(controllerFor(podManagerKind)),
		message: []string{
			`controller "z-overlaps-podmanager/main" and "podmanager/podmanager" both write the condition Ready of ` +
				`example.thole.dev/v1 PodManager`,
			"only one of them may have it",
		},
	},
	{
		name: "overlaps-itself", step: "overlap",
		write: writeEmptyPlugin(latecomerController("a", "Twin"), latecomerController("b", "Twin")),
		message: []string{
			`controller "overlaps-itself/b" and "overlaps-itself/a" both write the condition Twin of e2e.thole.dev/v1 Latecomer`,
			"only one of them may have it",
		},
	},
	{name: "kind-not-served", state: "waiting", write: writeEmptyPlugin(controllerFor(latecomer)), message: []string{
		"the API server does not serve e2e.thole.dev/v1 Latecomer: install its CRD; retrying",
	}},
	{
		name: "kind-without-list", step: "kind",
		write: writeEmptyPlugin(controllerFor(abi.Kind{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"})),
		message: []string{
			`authorization.k8s.io/v1 SubjectAccessReview cannot be listed: its API has no verb "list"`,
			"do not name it in For, Owns, Reads or Watches of a controller",
		},
	},
	{
		name: "reads-kind-without-list", step: "kind",
		write: writeEmptyPlugin(abi.Controller{
			Name: "main", For: abi.Kind{APIVersion: "v1", Kind: "ServiceAccount"}.All(), Reads: abi.AllOf(abi.Kind{APIVersion: "v1", Kind: "Binding"}),
		}),
		message: []string{
			`v1 Binding cannot be listed: its API has no verb "list"`,
			"do not name it in For, Owns, Reads or Watches of a controller",
		},
	},
	{
		name: "label-selector", step: "kind",
		write: writeEmptyPlugin(abi.Controller{
			Name: "main", For: abi.Followed{Kind: abi.Kind{APIVersion: "v1", Kind: "ServiceAccount"}, Selector: abi.Selector{LabelSelector: "app in x"}},
		}),
		message: []string{`controller "main": v1 ServiceAccount: labelSelector "app in x"`},
	},
	{
		name: "field-selector", step: "kind", policy: allowsServiceAccounts,
		write: writeEmptyPlugin(abi.Controller{
			Name: "main", For: abi.Followed{Kind: abi.Kind{APIVersion: "v1", Kind: "ServiceAccount"}, Selector: abi.Selector{FieldSelector: "spec.x=y"}},
		}),
		message: []string{`fieldSelector spec.x=y) cannot be followed`, `"spec.x" is not a known field selector`},
	},
	{
		name: "two-field-selectors", step: "kind",
		write: writeEmptyPlugin(abi.Controller{
			Name: "main", For: abi.Followed{Kind: abi.Kind{APIVersion: "v1", Kind: "Pod"}, Selector: abi.Selector{FieldSelector: "spec.nodeName=y"}},
			Reads: abi.AllOf(abi.Kind{APIVersion: "v1", Kind: "Pod"}),
		}),
		message: []string{`controller "main": v1 Pod is followed by the fieldSelectors "spec.nodeName=y" and ""`},
	},
	{
		name: "index-of-unknown-field", step: "kind", policy: allowsServiceAccounts,
		write: writeEmptyPlugin(abi.Controller{
			Name: "main", For: abi.Kind{APIVersion: "v1", Kind: "ServiceAccount"}.All(), Reads: abi.AllOf(abi.Kind{APIVersion: "apps/v1", Kind: "Deployment"}),
			Indexes: []abi.Index{
				{Name: "by-label", Kind: abi.Kind{APIVersion: "apps/v1", Kind: "Deployment"}, Field: "metadata.labels.app"},
				{Name: "by-secret", Kind: abi.Kind{APIVersion: "apps/v1", Kind: "Deployment"}, Field: "spec.template.spec.volumes[*].secret.secretname"},
			},
		}),
		message: []string{
			`controller "main": index "by-secret": field "spec.template.spec.volumes[*].secret.secretname": in the schema of apps/v1 Deployment `,
			`"spec.template.spec.volumes[*].secret" has no field "secretname", did you mean "secretName"?`,
		},
	},

	// Kinds that its policy does not allow.
	{
		name: "asks-for-secrets", state: "waiting",
		write: writeEmptyPlugin(abi.Controller{
			Name: "main", For: abi.Kind{APIVersion: "v1", Kind: "Namespace"}.All(), Reads: abi.AllOf(abi.Kind{APIVersion: "v1", Kind: "Secret"}),
		}),
		message: []string{
			"write to asks-for-secrets.yaml, beside the module, and leave its other fields as they are: {apiVersion: thole.dev/v1alpha1, allow: [" +
				"{groups: [''], kinds: [Namespace], verbs: [get, list, watch]}, {groups: [''], kinds: [Secret], verbs: [get, list, watch], namespaces: ['*']}]}",
			"and to the file of --config: {allow: {entries: {asks-for-secrets: [{groups: [''], kinds: [Namespace], ",
		},
	},
	{
		name: "asks-for-admin", state: "waiting",
		write: writeEmptyPlugin(abi.Controller{
			Name: "main", For: podManagerKind.All(), Conditions: abi.Conditions{Target: "Admin"},
			Writes: []abi.Kind{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}, {APIVersion: "v1", Kind: "Namespace"}},
		}),
		message: []string{
			"allow: [{groups: [''], kinds: [Namespace], verbs: [create, patch, delete]}, {groups: [rbac.authorization.k8s.io], kinds: [ClusterRoleBinding], verbs: [create, patch, delete]}]}",
		},
	},

	// The policy beside it.
	{
		name: "misspelt-policy", step: "policy", policy: "apiVersion: thole.dev/v1alpha1\nallows: []",
		write:   writeEmptyPlugin(latecomerController("main", "Misspelt")),
		message: []string{"misspelt-policy.yaml", `unknown field "allows", did you mean "allow"?`},
	},
	{
		name: "policy-without-version", step: "policy", policy: "limits: {concurrency: 1}",
		write:   writeEmptyPlugin(latecomerController("main", "Old")),
		message: []string{"policy-without-version.yaml", "apiVersion: Required value: the first line of a policy is apiVersion: thole.dev/v1alpha1"},
	},
	{
		name: "broken-policy", step: "policy", policy: "config: [unclosed",
		write:   writeEmptyPlugin(latecomerController("main", "Broken")),
		message: []string{"broken-policy.yaml", "not valid YAML: line 1"},
	},
	{
		name: "policy-links-out", step: "read", writePolicy: writeLinkOut,
		write:   writeEmptyPlugin(latecomerController("main", "LinksOut")),
		message: []string{"policy-links-out.yaml: is a symbolic link that leads out of the plugin directory"},
	},
	{
		name: "policy-too-large", step: "read", policy: "apiVersion: thole.dev/v1alpha1\n" + strings.Repeat("#", 128<<10),
		write:   writeEmptyPlugin(latecomerController("main", "Large")),
		message: []string{"policy-too-large.yaml: is larger than 128 KiB: shorten its config"},
	},
	{
		name: "policy-with-aliases", step: "policy", policy: "apiVersion: thole.dev/v1alpha1\nconfig: {a: &a [x, x], b: &b [*a, *a], c: [*b, *b]}",
		write:   writeEmptyPlugin(latecomerController("main", "Aliases")),
		message: []string{"policy-with-aliases.yaml", "aliases such as *a are not supported: write the value again"},
	},
	{
		name: "policy-of-mistakes", step: "policy", policy: "apiVersion: thole.dev/v1alpha1\n" + manyMistakes(),
		write:   writeEmptyPlugin(latecomerController("main", "Mistakes")),
		message: []string{"policy-of-mistakes.yaml", `unknown field "field`},
	},
	{
		name: "policy-http-not-allowed", step: "policy", policy: "{apiVersion: thole.dev/v1alpha1, http: {hosts: [{host: a.example, methods: [GET]}]}}",
		write:   writeEmptyPlugin(latecomerController("main", "HTTP")),
		message: []string{"policy-http-not-allowed.yaml: http.hosts[0]: Forbidden: "},
	},
	{
		name: "policy-not-allowed", step: "policy", policy: "{apiVersion: thole.dev/v1alpha1, allow: [{groups: [''], kinds: [Secret], verbs: [get]}]}",
		write: writeEmptyPlugin(latecomerController("main", "NotAllowed")),
		message: []string{
			"policy-not-allowed.yaml: allow[0]: Forbidden: the host's configuration does not allow this much to the plugin",
			"have it allowed in the file of --config: {allow: {entries: {policy-not-allowed: [{groups: [''], kinds: [Secret], verbs: [get]}]}}}",
		},
	},
}

// longestMessage is of a module or a policy, however much is wrong with it.
const longestMessage = 13_000

const allowsServiceAccounts = "{apiVersion: thole.dev/v1alpha1, allow: [{groups: [''], kinds: [ServiceAccount], verbs: [get, list, watch]}]}"

// A host gets every bad plugin beside a good one. Each is reported in /plugins, by
// one line of the log and in the metrics, and the good one works as if it were
// alone.
func TestBadPluginsAreRefusedAndOthersKeepRunning(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	good := podmanager(t, wasmbuild.TinyGo)
	d.install("podmanager", good)
	p, proxy := startWithProxy(t, d, ns, "allow: {entries: {field-selector: [{groups: [''], kinds: [ServiceAccount], verbs: ['*']}], index-of-unknown-field: [{groups: [''], kinds: [ServiceAccount], verbs: ['*']}]}}")
	p.awaitRunning("podmanager", 1)
	for _, bad := range badPlugins {
		bad.install(t, d)
	}
	for _, bad := range badPlugins {
		t.Run(bad.name, func(t *testing.T) { bad.expectReported(t, p) })
	}
	p.awaitRunning("podmanager", 1) // the host is ready, because no other plugin is being loaded
	if counts := proxy.Succeeded("secrets", "namespaces"); counts.Reads()+counts.Writes() != 0 {
		t.Errorf("requests about what no policy allows: %v", counts)
	}
	t.Run("the good plugin works", func(t *testing.T) { expectServed(t, ns, "beside-bad-plugins") })
	t.Run("refused module beside a running revision", func(t *testing.T) {
		d.install("podmanager", good[:len(good)/2])
		await.Until(t, "the new module is refused", func() bool {
			return strings.Contains(p.Plugin("podmanager").LastError, "truncated")
		})
		if s := p.Plugin("podmanager"); s.State != "degraded" || s.Revision != 1 || s.FailedStep != "parse" {
			t.Errorf("podmanager is %+v", s)
		}
		expectServed(t, ns, "by-the-previous-revision")
		d.install("podmanager", good[:len(good)/3])
		await.Until(t, "another refused module is counted", func() bool { return p.loadFailures("podmanager", "parse") == 2 })
		if refused := p.Log.Events("PluginRefused", "plugin", "podmanager"); len(refused) != 2 {
			t.Errorf("two refused modules are logged as %v", refused)
		}
		d.install("podmanager", good)
		await.Until(t, "the running module is accepted again", func() bool { return p.Plugin("podmanager").LastError == "" })
		if restored := p.Log.Events("PluginRestored", "plugin", "podmanager"); len(restored) != 1 || restored[0]["revision"] != 1.0 {
			t.Errorf("the restored module is logged as %v", restored)
		}
	})
	t.Run("corrected plugins", func(t *testing.T) {
		installCRD(t, "host/internal/e2e/testdata/badinput/latecomer.yaml")
		t.Cleanup(func() { removeCRD(t, "latecomers.e2e.thole.dev") })
		d.install("truncated", emptyPlugin("truncated", latecomerController("main", "Whole")))
		p.awaitRunning("kind-not-served", 1)
		p.awaitRunning("truncated", 1)
		latecomers := schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: "latecomers"}
		create(t, latecomers, "Latecomer", ns, "latecomer", map[string]any{})
		await.Until(t, "both plugins have reconciled the object", func() bool {
			o := get(t, latecomers, ns, "latecomer")
			return ready(o) && condition(o, "Whole")["status"] == "True"
		})
	})
	t.Run("plugin directory removed and created again", func(t *testing.T) {
		// The directory must disappear at once. While its files are removed one by
		// one, the host sees plugins that are removed, and not an unreadable directory.
		removed := d.path + ".removed"
		must(t, os.Rename(d.path, removed))
		must(t, os.RemoveAll(removed))
		await.Until(t, "the error is logged", func() bool { return len(p.Log.Errors().With("@module", "thole.source")) == 1 })
		expectServed(t, ns, "without-directory")
		must(t, os.Mkdir(d.path, 0o755))
		d.install("podmanager", good)
		await.Until(t, "the other plugins are gone", func() bool {
			all, ok := p.Plugins()
			return ok && len(all) == 1 && all[0].Name == "podmanager"
		})
		p.awaitRunning("podmanager", 1)
		expectServed(t, ns, "with-directory")
		if errs := p.Log.Errors().With("@module", "thole.source"); len(errs) != 1 {
			t.Errorf("one unreadable directory is logged as %v", errs)
		}
	})
	p.stop()
}

func (b badPlugin) expectReported(t *testing.T, p *process) {
	state, event, level, field := "failed", "PluginRefused", "error", "error"
	if b.state == "waiting" {
		state, event, level, field = b.state, "PluginWaiting", "warn", "reason"
	}
	await.Until(t, "it is "+state, func() bool { return p.Plugin(b.name).State == state })
	s := p.Plugin(b.name)
	if n := len(s.LastError); n > longestMessage {
		t.Errorf("lastError has %d bytes", n)
	}
	for _, part := range b.message {
		if !strings.Contains(s.LastError, part) {
			t.Errorf("lastError is %s\nwant %s", s.LastError, part)
		}
	}
	lines := p.Log.Since(0).With("plugin", b.name, "@level", level)
	if len(lines) != 1 || lines[0]["event"] != event || !strings.Contains(lines[0].String(field), s.LastError) {
		t.Errorf("it is logged as %v\nwant one %s with %q", lines, event, s.LastError)
	}
	if b.step != "" && (s.FailedStep != b.step || p.loadFailures(b.name, b.step) != 1) {
		t.Errorf("rejected for %q, %d failures of step %q are counted", s.FailedStep, p.loadFailures(b.name, b.step), b.step)
	}
	t.Log(s.LastError)
}
