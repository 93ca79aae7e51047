package effect

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// entry returns an entry for one kind.
func entry(r object.Resource, verbs string, namespaces ...string) rights.Entry {
	return rights.Entry{Groups: []string{r.GVR.Group}, Kinds: []string{r.Kind.Kind}, Verbs: strings.Fields(verbs), Namespaces: namespaces}
}

func (w *world) allow(entries ...rights.Entry) {
	w.Helper()
	w.start(func(c *Config) { c.Allow = entries })
	w.wire.take()
}

// expectNotAllowed expects a failure that names the entry that is missing.
func (w *world) expectNotAllowed(what string, failure *Failure, missing string) {
	w.Helper()
	if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonNotAllowed || !strings.HasSuffix(failure.Message, "add to its allow: "+missing) {
		w.Errorf("%s: got %+v, want %s", what, failure, missing)
	}
}

func TestEachWriteNeedsItsVerb(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(secret))
	applied := apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"stringData":{"k":"v"}}`)
	changed := apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"stringData":{"k":"w"}}`)
	deleted := &abi.Result{Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "Secret", Name: "x"}}}}
	needs := func(verb string) string {
		return "{groups: [''], kinds: [Secret], verbs: [" + verb + "]}"
	}

	for verbs, c := range map[string]struct {
		in      *abi.Result
		missing string
	}{
		"create delete": {applied, "patch"},
		"patch delete":  {applied, "create"},
		"create patch":  {deleted, "delete"},
		"get list":      {applied, "patch"},
	} {
		w.allow(entry(secret, verbs))
		_, failure := w.PerformIntents(t.Context(), target, c.in)
		w.expectNotAllowed(c.missing, failure, needs(c.missing))
		for _, r := range w.wire.take() {
			if r.method != "GET" {
				t.Errorf("with %s it sends %s", verbs, r)
			}
		}
	}
	w.allow(entry(secret, "create patch"))
	w.intents(target, applied)
	w.allow(entry(secret, "patch")) // the cache does not show it yet
	w.intents(target, changed)
	w.allow(entry(secret, "delete"))
	_, failure := w.PerformIntents(t.Context(), target, changed)
	w.expectNotAllowed("a change", failure, needs("patch"))
	w.intents(target, deleted)
	if got := w.live(secret, "x"); got != nil {
		t.Errorf("there is %s", got.Raw)
	}
}

// An object that is deleted while it is patched is not created again.
func TestAPatchDoesNotCreate(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(secret))
	const text = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"stringData":{"k":%q}}`
	w.intents(target, apply(text, "v"))
	w.seen(secret, "x")
	w.allow(entry(secret, "patch"))
	w.wire.before = func(request) { w.remove(secret, "x") }
	_, failure := w.PerformIntents(t.Context(), target, apply(text, "w"))
	if got := w.live(secret, "x"); failure == nil || got != nil {
		t.Errorf("%+v, there is %v", failure, got)
	}
}

// An entry for what a plugin writes does not let it do more with what it owns, nor the other
// way round.
func TestAKindInOwnsAndWritesIsWrittenAsTheOneThatIsAllowed(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), list(configMap))
	w.create(configMap, `{"metadata":{"name":"c"},"data":{"k":"theirs"}}`)
	w.allow(entry(configMap, "patch"))
	_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}})
	if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonNotControlled {
		t.Errorf("the delete of what it does not own: %+v", failure)
	}
	if w.live(configMap, "c") == nil {
		t.Error("it was deleted")
	}
	w.allow()
	_, failure = w.PerformIntents(t.Context(), target, apply(configObject, "v"))
	if failure == nil || failure.Reason != reasonNotAdopted {
		t.Errorf("without an entry: %+v", failure)
	}
}

func TestSensitiveKindsAreOwnedByAnEntry(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(secret, configMap), nil)
	w.allow()
	w.intents(target, apply(configObject, "v"))
	w.wire.take()
	_, failure := w.PerformIntents(t.Context(), target, apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`))
	w.expectNotAllowed("a Secret", failure, "{groups: [''], kinds: [Secret], verbs: [patch]}")
	w.expectSent()
	w.allow(entry(secret, "create patch"))
	w.intents(target, apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`))
	if got := w.live(secret, "x"); got.Controller() == nil {
		t.Errorf("got %s", got.Raw)
	}
}

func TestAnEntryForNamespacesDoesNotReachClusterScopedObjects(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(namespace, secret))
	all := []string{rights.Any}
	change := apply(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"x":"1"}}}`, w.ns)
	for _, names := range [][]string{{w.ns}, {"kube-system", w.ns}} {
		w.allow(rights.Entry{Groups: all, Kinds: all, Verbs: all, Namespaces: names})
		_, failure := w.PerformIntents(t.Context(), target, change)
		w.expectNotAllowed("a Namespace", failure, "{groups: [''], kinds: [Namespace], verbs: [patch]}")
		_, failure = w.PerformIntents(t.Context(), target, &abi.Result{Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "Namespace", Name: w.ns}}}})
		w.expectNotAllowed("its delete", failure, "{groups: [''], kinds: [Namespace], verbs: [delete]}")
		w.expectSent()
		_, failure = w.PerformIntents(t.Context(), target, apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":"default"}}`))
		w.expectNotAllowed("another namespace", failure, "{groups: [''], kinds: [Secret], verbs: [patch], namespaces: [default]}")
	}
}

// Of a primary that is no namespaced custom kind nothing is written without an entry.
func TestPrimaryIsWrittenByAnEntryForItsVerb(t *testing.T) {
	w := newCluster(t)
	o := w.create(tree, `{"metadata":{"generateName":"t-"}}`)
	target := Target{Controller: &abi.Controller{Name: "main", For: tree.Kind.All(), Finalizer: true}, Object: o}
	status := Status{Patch: []byte(`{"note":"x"}`)}
	onObject, onStatus := "{groups: [test.thole.dev], kinds: [Tree], verbs: [patch]}", "{groups: [test.thole.dev], kinds: [Tree/status], verbs: [patch]}"

	w.allow(entry(tree, "get list watch create delete", rights.Any))
	_, failure := w.EnsureFinalizer(t.Context(), target)
	w.expectNotAllowed("the finalizer", failure, onObject)
	_, failure = w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)})
	w.expectNotAllowed("the patch", failure, onObject)
	_, failure = w.WriteStatus(t.Context(), target, status)
	w.expectNotAllowed("the status", failure, onStatus)
	w.expectSent()

	w.allow(entry(tree, "patch"))
	if _, failure = w.EnsureFinalizer(t.Context(), target); failure != nil {
		t.Error(failure)
	}
	_, failure = w.WriteStatus(t.Context(), target, status)
	w.expectNotAllowed("the status", failure, onStatus)

	statusOnly := entry(tree, "patch")
	statusOnly.Kinds = []string{"Tree/status"}
	w.allow(statusOnly)
	target.Object = w.live(tree, o.Name)
	if _, failure = w.WriteStatus(t.Context(), target, status); failure != nil {
		t.Error(failure)
	}
	_, failure = w.RemoveFinalizer(t.Context(), target)
	w.expectNotAllowed("the finalizer", failure, onObject)
}

// What a policy has taken away is not even released.
func TestFieldsStayOnObjectsThatMayNotBeWrittenAnyMore(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(secret))
	w.create(secret, `{"metadata":{"name":"x"}}`)
	w.intents(target, apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","labels":{"a":"b"}}}`))
	before := w.Performer
	w.allow()
	w.Inherit(before)
	if report, failure := w.Release(t.Context(), target, true); failure != nil || len(report.Writes) != 0 {
		t.Errorf("got %+v, %+v", report, failure)
	}
	w.expectSent()
	if got := w.live(secret, "x"); got.Labels["a"] != "b" {
		t.Errorf("got %s", got.Raw)
	}
}

func TestChildrenThatMayNotBeWrittenAreNotLabelled(t *testing.T) {
	w := newCluster(t)
	owner := w.create(tree, `{"metadata":{"generateName":"t-"}}`)
	w.child("x", "thole/demo/main", owner, `{}`)
	target := Target{Controller: &abi.Controller{Name: "main", For: tree.Kind.All(), Owns: abi.AllOf(configMap.Kind)}, Object: owner}
	for _, step := range []struct {
		entries rights.Entries
		want    string
	}{
		{nil, ""},
		{rights.Entries{entry(configMap, "patch")}, ""}, // the primary has no namespace
		{rights.Entries{entry(configMap, "create", w.ns)}, ""},
		{rights.Entries{entry(configMap, "patch", w.ns)}, "demo"},
	} {
		w.start(w.inNamespace, func(c *Config) { c.Allow = step.entries })
		w.label(target)
		if got := w.live(configMap, "x").Labels[abi.LabelManagedBy]; got != step.want {
			t.Errorf("with %s it is labelled %q", step.entries, got)
		}
	}
}
