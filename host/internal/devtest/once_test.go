//go:build linux

package devtest

import (
	"regexp"
	"strings"
	"testing"
)

const podmanager = "../../../plugins/podmanager"

// TestOnceEndsWhenTheSampleIsReady is what `make demo` shows with DEMO_ONCE=1.
func TestOnceEndsWhenTheSampleIsReady(t *testing.T) {
	t.Parallel()
	w := newWork(t, podmanager)
	term := inTerminal(t, w.thole("dev", "--once", "plugin"))
	text := mask(term.ends(0))
	expectInOrder(t, text,
		"object     podmanager/sample: created by thole-dev",
		"object     podmanager/sample: finalizer podmanager.thole.dev/podmanager added",
		"object     {green}podmanager/sample: Ready=True Succeeded",
		"ready      {green}PodManager default/sample, TOOK after it was applied",
		"stopped    nothing is left behind")
	expectInOrder(t, text,
		"runs       {green}podmanager revision 1, version",
		"reconcile  default/sample: success, 3 writes, TOOK",
		"ready ")
	w.expectNothingLeft()
}

func TestRelease_StandardGoBuildsThePlugin(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	w.write("plugin/other.go", "//go:build tinygo\n\npackage main\n\nvar _ = onlyGo\n")
	term := inTerminal(t, w.thole("dev", "--once", "--go", "plugin"))
	expectInOrder(t, mask(term.ends(0)), "runs       ", "ready ")
}

// TestOnceEndsForAKindWithoutConditions: its status has a required member, and the plugin wants
// nothing of it, as one for HTTPRoutes may.
func TestOnceEndsForAKindWithoutConditions(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	crd := w.read("plugin/crd.yaml")
	before, _, _ := strings.Cut(crd, "            status:\n")
	w.write("plugin/crd.yaml", before+"            status: {type: object, required: [parents], properties: {parents: {type: array, items: {type: string}}}}\n")
	w.edit("main.go", "r.Status.Greeting = text", "_ = text")
	term := inTerminal(t, w.thole("dev", "--once", "plugin"))
	expectInOrder(t, mask(term.ends(0)), "reconcile  {faint}default/world: success, nothing to write, TOOK", "ready      {green}Hello default/world, TOOK after it was applied")
}

// TestChildOfTheSampleIsShown runs no session with --once: that may end before the watch of the Pods tells
// of the Pod.
func TestChildOfTheSampleIsShown(t *testing.T) {
	t.Parallel()
	w := newWork(t, podmanager)
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("object     pod/sample: created by thole/podmanager/podmanager, owned by podmanager/sample")
	term.interrupt()
	term.ends(0)
	w.expectNothingLeft()
}

// A plugin that is being written has no policy yet.
func TestThePluginIsAllowedWhatItsManifestAsksFor(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	w.edit("main.go", `Kind: "Hello"},`, `Kind: "Hello"}, Writes: []sdk.Kind{{APIVersion: "v1", Kind: "Secret"}},`)
	term := inTerminal(t, w.thole("dev", "--once", "plugin"))
	expectInOrder(t, mask(term.ends(0)), "the plugin is allowed what its manifest asks for, as if this were its policy; thole run needs such a file beside the module",
		"policy={apiVersion: thole.dev/v1alpha1, allow: [{groups: [''], kinds: [Secret], verbs: [create, patch, delete]}]}", "ready ")
	w.write("plugin/policy.yaml", "apiVersion: thole.dev/v1alpha1\nallow: [{groups: [''], kinds: [ConfigMap], verbs: [get]}]\n")
	term = inTerminal(t, w.thole("dev", "plugin"))
	term.shows("the policy does not allow what the manifest asks for")
	term.interrupt()
	text := mask(term.ends(0))
	expectInOrder(t, text, "waits ", "the policy does not allow what the manifest asks for")
	if strings.Contains(text, "runs       ") || strings.Contains(text, "ready      ") {
		t.Errorf("the plugin runs all the same:\n%s", text)
	}
	w.expectNothingLeft()
}

// The other system of the plugin is not there, so the sample does not become Ready.
func TestSampleWaitsForTheConversion(t *testing.T) {
	t.Parallel()
	w := newWork(t, "../../../plugins/mykind")
	w.edit("sample.yaml", "  otherInfo: world\n", "") // there is a default
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("mykind/sample: created by thole-dev")
	term.shows("mykind/sample: finalizer ") // the host's first write, which would have brought what is converted
	term.interrupt()
	text := mask(term.ends(0))
	expectInOrder(t, text, "runs ", "applied    MyKind default/sample", "mykind/sample: created by thole-dev")
	if strings.Contains(text, "mykind/sample: spec: ") {
		t.Errorf("the spec of the sample was not converted:\n%s", text)
	}
	w.expectNothingLeft()
}

// Before the API server asks the plugin it would store the sample as it is. Of the kinds with the name
// Node kubectl takes that of Kubernetes.
func TestSampleWaitsForTheReviews(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	w.edit("crd.yaml", "hello", "node", "Hello", "Node")
	w.edit("sample.yaml", "kind: Hello", "kind: Node")
	w.edit("main.go", `import "github.com/thole-dev/thole/sdk"`, `import (
	"errors"

	"github.com/thole-dev/thole/sdk"
)`, `Kind: "Hello"},`, `Kind: "Node"},
		Mutate: sdk.Mutate(func(_ *sdk.Review, _, o *sdk.Object[Spec, Status]) error {
			if o.Spec.Name == "world" {
				o.Spec.Name = "moon"
			}
			return nil
		}),
		Validate: sdk.Validate(func(_ *sdk.Review, _, o *sdk.Object[Spec, Status]) error {
			if o.Spec.Name != "moon" {
				return errors.New("not the moon")
			}
			return nil
		}),`)
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("kubectl delete")
	w.edit("sample.yaml", "spec:\n  name: world", "spec:\n  name: mars")
	term.shows("not the moon")
	term.interrupt()
	text := mask(term.ends(0))
	expectInOrder(t, text, "runs ", "applied    Node default/world", "default/world: greeted name=moon",
		"kubectl get nodes.example.com -n default\nkubectl edit nodes.example.com world -n default\nkubectl delete nodes.example.com world -n default\n",
		"changed    sample.yaml", "apply Node default/world of sample.yaml: admission webhook ")
	if strings.Contains(text, "name=world") {
		t.Errorf("the sample was stored as it is:\n%s", text)
	}
	w.expectNothingLeft()
}

func TestOnceFailsWithTheReasonWhenTheSampleIsNotReadyInTime(t *testing.T) {
	t.Parallel()
	w := newWork(t, podmanager)
	w.edit("sample.yaml", "image: nginx:1.29", `image: "two words"`)
	term := inTerminal(t, w.thole("dev", "--once", "--timeout", "40s", "plugin"))
	expectInOrder(t, mask(term.ends(1)),
		"reconcile  {red}default/sample: failed (stalled), 1 write, TOOK; InvalidImage: ",
		"stopped    nothing is left behind",
		"thole: the sample is not Ready after TOOK",
		"    PodManager default/sample has Stalled=True InvalidImage: spec.image must name an image",
		"    plugin podmanager is running")
	w.expectNothingLeft()
}

func TestOnceFailsWhenThePluginDoesNotBuild(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	w.edit("main.go", "r.Status.Greeting", "r.Status.Farewell")
	term := inTerminal(t, w.thole("dev", "--once", "plugin"))
	expectInOrder(t, mask(term.ends(1)), "plugin/main.go:20:16: r.Status.Farewell undefined", "thole: the plugin does not build")
	w.expectNothingLeft()
}

func TestOnceFailsWhenTheSampleCannotBeApplied(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	w.edit("sample.yaml", "kind: Hello", "kind: Hullo")
	term := inTerminal(t, w.thole("dev", "--once", "--timeout", "1s", "plugin"))
	expectInOrder(t, mask(term.ends(1)),
		"apply Hullo default/world of sample.yaml: the API server does not serve the kind: apply its CustomResourceDefinition",
		"thole: the sample is not Ready after TOOK",
		"no object of sample.yaml could be applied")
	w.expectNothingLeft()
}

func TestOnceFailsWithTheReasonWhenThePluginIsRefused(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	w.edit("main.go", `Name: "hello"`, `Name: "Hello!"`)
	// The name is stated: without it a module that is refused has none.
	term := inTerminal(t, w.thole("dev", "--once", "--timeout", "60s", "--name", "greeter", "plugin"))
	expectInOrder(t, mask(term.ends(1)),
		"thole: the sample is not Ready after TOOK",
		`    plugin greeter is failed: manifest: plugin "greeter": read manifest: controllers[0].name: "Hello!" is not a DNS label`)
	w.expectNothingLeft()
}

// expectInOrder fails unless the parts are in the text, each after the one before.
func expectInOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	text = regexp.MustCompile(` +\n`).ReplaceAllString(text, "\n")
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("%q is missing, or too early:\n%s", part, text)
			return
		}
		rest = after
	}
}
