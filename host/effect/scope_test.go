package effect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

func TestObjectOfAnotherControllerIsNeverChanged(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	other := w.create(widget, `{"metadata":{"name":"other"}}`)

	before := w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c","ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"other","uid":%q,"controller":true}]}}`, other.UID))
	for _, in := range []*abi.Result{apply(configObject, "v"), adopt(apply(configObject, "v")), {Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}}} {
		_, failure := w.PerformIntents(t.Context(), target, in)
		if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonControlled || !strings.Contains(failure.Message, "Widget other") {
			t.Fatalf("got %+v", failure)
		}
	}
	if got := w.live(configMap, "c"); got.ResourceVersion != before.ResourceVersion {
		t.Errorf("changed: %s", got.Raw)
	}
}

func TestApplyAdoptsOnlyWhenAsked(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	before := w.create(configMap, `{"metadata":{"name":"c"},"data":{"k":"theirs","more":"1"}}`)

	_, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v"))
	if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonNotAdopted || !strings.Contains(failure.Message, "sdk.Adopt()") {
		t.Fatalf("got %+v", failure)
	}
	// A field that another manager owns with another value is a conflict that
	// lasts. It is reported, and nothing is adopted.
	_, failure = w.PerformIntents(t.Context(), target, adopt(apply(configObject, "v")))
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != reasonFieldConflict || failure.Conflict || !strings.Contains(failure.Message, ".data.k") {
		t.Fatalf("got %+v", failure)
	}
	if got := w.live(configMap, "c"); got.ResourceVersion != before.ResourceVersion {
		t.Fatalf("changed: %s", got.Raw)
	}

	w.intents(target, adopt(apply(configObject, "theirs")))
	got := w.seen(configMap, "c")
	if owner := got.Controller(); owner == nil || owner.UID != target.Object.UID || field(got, "data", "more") != `"1"` {
		t.Fatalf("got %s", got.Raw)
	}
	// After the adoption the object is a child like any other.
	w.intents(target, adopt(apply(configObject, "v")))
	if got := w.live(configMap, "c"); field(got, "data", "k") != `"v"` {
		t.Errorf("got %s", got.Raw)
	}
}

func TestIntentsOutOfScopeAreRefusedBeforeAnyRequest(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap, namespace), list(secret, namespace))
	elsewhere := `{"apiVersion":"v1","kind":%q,"metadata":{"name":"x","namespace":"kube-system"}}`
	for name, c := range map[string]struct {
		in     *abi.Result
		class  abi.Class
		reason string
	}{
		"an undeclared kind":                   {apply(serviceObject), abi.ClassDenied, reasonNotDeclared},
		"an undeclared version":                {apply(`{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}`), abi.ClassDenied, reasonNotDeclared},
		"another namespace":                    {apply(elsewhere, "Secret"), abi.ClassDenied, reasonNotAllowed},
		"a delete in another namespace":        {&abi.Result{Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "Secret", Namespace: "kube-system", Name: "x"}}}}, abi.ClassDenied, reasonNotAllowed},
		"a path instead of a name":             {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../../kube-system/configmaps/x"}}`), abi.ClassABI, reasonInvalid},
		"a path instead of a namespace":        {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":".."}}`), abi.ClassABI, reasonInvalid},
		"a path instead of a name to delete":   {&abi.Result{Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "Secret", Name: ".."}}}}, abi.ClassABI, reasonInvalid},
		"no name":                              {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x-"}}`), abi.ClassABI, reasonInvalid},
		"no kind":                              {apply(`{"metadata":{"name":"x"}}`), abi.ClassABI, reasonInvalid},
		"a duplicate name":                     {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","name":"y"}}`), abi.ClassABI, reasonInvalid},
		"a namespace of a cluster-scoped kind": {apply(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","namespace":"y"}}`), abi.ClassABI, reasonInvalid},
		"an owner reference with controller":   {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","ownerReferences":[{"uid":"u","controller":true}]}}`), abi.ClassABI, reasonInvalid},
		"two applies of one object":            {&abi.Result{Apply: append(apply(configObject, "1").Apply, apply(configObject, "2").Apply...)}, abi.ClassABI, reasonInvalid},
		"an apply and a delete of one object":  {&abi.Result{Apply: apply(configObject, "1").Apply, Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}}, abi.ClassABI, reasonInvalid},
		"a valid apply before a denied one":    {&abi.Result{Apply: append(apply(configObject, "1").Apply, apply(serviceObject).Apply...)}, abi.ClassDenied, reasonNotDeclared},
	} {
		t.Run(name, func(t *testing.T) {
			_, failure := w.PerformIntents(t.Context(), target, c.in)
			if failure == nil || failure.Class != c.class || failure.Reason != c.reason || failure.Conflict {
				t.Errorf("got %+v", failure)
			}
			w.expectSent()
		})
	}

	// A cluster-scoped kind that is declared in writes is written, not owned.
	w.intents(target, apply(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"x":"1"}}}`, w.ns))
	if got := w.live(namespace, w.ns); got.Labels["x"] != "1" || len(got.OwnerReferences) != 0 {
		t.Errorf("got %s", got.Raw)
	}
}

func TestPolicyAllowsApplyAcrossNamespaces(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.Allow = allowing(rights.Any) })
	target := w.owner(list(configMap), list(secret))
	there := w.create(namespace, `{"metadata":{"generateName":"there-"}}`).Name

	w.intents(target, apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":%q}}`, there))
	w.ns = there
	if got := w.live(secret, "x"); got == nil || len(got.OwnerReferences) != 0 {
		t.Errorf("got %v", got)
	}
	for _, in := range []*abi.Result{
		apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":%q}}`, there),
		apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":%q,"ownerReferences":[{"uid":%q}]}}`, there, target.Object.UID),
	} {
		_, failure := w.PerformIntents(t.Context(), target, in)
		if failure == nil || failure.Reason != reasonOutOfScope || !strings.Contains(failure.Message, "cannot be owned") {
			t.Errorf("got %+v", failure)
		}
	}
}

func TestClusterScopedPrimaryMustNameANamespace(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.Allow = allowing(rights.Any) })
	o := w.create(tree, `{"metadata":{"generateName":"t-"}}`)
	target := Target{Controller: controller(list(configMap), nil), Object: o}
	_, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v"))
	if failure == nil || failure.Reason != reasonInvalid || !strings.Contains(failure.Message, "metadata.namespace is required") {
		t.Errorf("got %+v", failure)
	}
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":%q}}`, w.ns))
	if got := w.live(configMap, "c"); got.Controller() == nil || got.Controller().UID != o.UID {
		t.Errorf("got %s", got.Raw)
	}
}

func TestApplyOfThePrimaryNeedsWrites(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(widget), nil)
	self := apply(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"w","labels":{"x":"1"}}}`)
	_, failure := w.PerformIntents(t.Context(), target, self)
	if failure == nil || failure.Reason != reasonOutOfScope || !strings.Contains(failure.Message, "cannot own itself") {
		t.Errorf("got %+v", failure)
	}
	target.Controller = controller(nil, list(widget))
	w.intents(target, self)
	if got := w.live(widget, "w"); got.Labels["x"] != "1" || len(got.OwnerReferences) != 0 {
		t.Errorf("got %s", got.Raw)
	}
}

func TestTwoIntentsForOneObjectAreRefused(t *testing.T) {
	const of = `{"apiVersion":"test.thole.dev/%s","kind":"Widget","metadata":{"name":"other"}}`
	for name, in := range map[string]*abi.Result{
		"applied in two versions": {Apply: slices.Concat(apply(of, "v1").Apply, apply(of, "v2").Apply)},
		"applied and deleted":     {Apply: apply(of, "v1").Apply, Delete: []abi.Delete{{Ref: widget.Kind.Ref("", "other")}}},
		"applied and deleted by its uid": {
			Apply: apply(of, "v1").Apply, Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "test.thole.dev/v2", Kind: "Widget", Name: "other", UID: "u"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := newFake(t, respond(404, "application/json", `{}`))
			target.Controller = controller(list(widget, widgetV2), nil)
			_, failure := w.PerformIntents(t.Context(), target, in)
			if failure == nil || failure.Reason != reasonInvalid || !strings.Contains(failure.Error(), "Widget other: the object is named by two intents") {
				t.Errorf("got %+v", failure)
			}
			w.expectSent()
		})
	}
}

func TestPolicyNamespacesBoundEveryWrite(t *testing.T) {
	w := newCluster(t)
	there := w.create(namespace, `{"metadata":{"generateName":"there-"}}`).Name
	bound := func(namespaces ...string) {
		w.start(func(c *Config) { c.Allow, c.Namespaces = allowing(rights.Any), namespaces })
	}
	expectDenied := func(what string, failure *Failure, namespace string) {
		t.Helper()
		if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonOutOfScope ||
			!strings.Contains(failure.Message, fmt.Sprintf("namespace %q is not one of the policy namespaces (", namespace)) {
			t.Errorf("%s: got %+v", what, failure)
		}
		w.expectSent()
	}
	target := w.owner(list(configMap), list(secret, namespace))
	elsewhere := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":%q}}`

	bound(w.ns)
	for what, in := range map[string]*abi.Result{
		"apply":  apply(elsewhere, there),
		"delete": {Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "Secret", Namespace: there, Name: "x"}}}},
	} {
		_, failure := w.PerformIntents(t.Context(), target, in)
		expectDenied(what, failure, there)
	}
	w.intents(target, apply(configObject, "v"))
	w.intents(target, apply(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"x":"1"}}}`, there))

	bound(there)
	w.intents(target, apply(elsewhere, there))
	w.wire.take()
	_, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v"))
	expectDenied("a child", failure, w.ns)
	_, failure = w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"size":2}}`)})
	expectDenied("the patch of the primary", failure, w.ns)
	_, failure = w.EnsureFinalizer(t.Context(), target)
	expectDenied("the finalizer", failure, w.ns)
	_, failure = w.WriteStatus(t.Context(), target, Status{Patch: []byte(`{"note":"x"}`)})
	expectDenied("the status", failure, w.ns)

	// What was shared before stays, and holds nothing up.
	bound(w.ns)
	w.shares.add(sharerOf(target.Controller, target.Object.Key()), secret.Kind, object.Key{Namespace: there, Name: "x"}, false)
	if report, failure := w.Release(t.Context(), target, true); failure != nil || len(report.Writes) != 0 {
		t.Errorf("got %+v, %+v", report, failure)
	}
	w.expectSent()
	if line := w.logs.Next(t); line.Message != "the fields of a primary stay on an object" {
		t.Errorf("logged %v", line)
	}

	w.Namespaces = []string{} // none at all
	_, failure = w.PerformIntents(t.Context(), target, apply(configObject, "v"))
	expectDenied("without any namespace", failure, w.ns)
}

// What a plugin may not set on any object: a finalizer would keep it for ever, suspend would
// keep other plugins from it, and the record of another apply would mislead the host.
func TestWhatIsForTheHostAndForOthersIsNotApplied(t *testing.T) {
	const with = `{"apiVersion":"v1","kind":%q,"metadata":{"name":"c","finalizers":["example.com/mine","other.thole.dev/main"],
"labels":{"a":"b","thole.dev/managed-by":"other"},
"annotations":{"a":"b","reconcile.thole.dev/\u0073uspend":"true","thole.dev/applied":"x","main.other.thole.dev/applied-0":"x"}}}`
	w := newCluster(t)
	target := w.owner(list(configMap), list(secret))
	for _, r := range list(configMap, secret) {
		in := apply(with, r.Kind.Kind)
		w.intents(target, in)
		o := w.seen(r, "c")
		if len(o.Finalizers) != 0 || o.Labels["a"] != "b" || o.Annotations["a"] != "b" || len(o.Annotations) != 2 || len(o.Labels) != 1 {
			t.Errorf("got %s", o.Raw)
		}
		for name, value := range o.Annotations {
			if value == "x" || strings.Contains(name, "suspend") {
				t.Errorf("got %s", o.Raw)
			}
		}
		w.edit(r, "c", "", `{"metadata":{"finalizers":["example.com/theirs"],"annotations":{"reconcile.thole.dev/suspend":"true"}}}`)
		read := w.seen(r, "c")
		w.intents(target, &abi.Result{Apply: []abi.Apply{{Object: read.Raw}}}) // as it was read
		w.edit(r, "c", "", `{"metadata":{"finalizers":null,"annotations":{"reconcile.thole.dev/suspend":null}}}`)
		w.seen(r, "c")
		w.intents(target, &abi.Result{Apply: []abi.Apply{{Object: read.Raw}}})
		if o := w.seen(r, "c"); len(o.Finalizers) != 0 || o.Annotations["reconcile.thole.dev/suspend"] != "" {
			t.Errorf("what others have taken away is back: %s", o.Raw)
		}
	}
}

// The garbage collector deletes an object whose owners do not exist, whoever made it, and
// with the owners.
func TestOwnersMustBeThere(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), list(secret))
	other := w.create(configMap, `{"metadata":{"name":"other"}}`)
	w.store.put(other)
	w.store.put(w.live(namespace, w.ns))
	const with = `{"apiVersion":"v1","kind":%q,"metadata":{"name":"c","ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q}]}}`
	for _, r := range list(configMap, secret) {
		for name, ref := range map[string][4]string{
			"made up":                        {"v1", "ConfigMap", "other", "00000000-0000-0000-0000-000000000000"},
			"another kind":                   {"v1", "Secret", "other", string(other.UID)},
			"another name":                   {"v1", "ConfigMap", "others", string(other.UID)},
			"a kind that is not followed":    {"v1", "Node", "n", "u"},
			"a path":                         {"../metrics", "A", "..", "u"},
			"the primary under another name": {"v1", "ConfigMap", "w2", string(target.Object.UID)},
		} {
			if name == "the primary under another name" && r == configMap {
				continue // is replaced by the host's own reference
			}
			_, failure := w.PerformIntents(t.Context(), target, apply(with, r.Kind.Kind, ref[0], ref[1], ref[2], ref[3]))
			if failure == nil || w.live(r, "c") != nil {
				t.Errorf("%s %s: %v", r.Kind, name, failure)
			}
		}
		w.intents(target, apply(with, r.Kind.Kind, "v1", "ConfigMap", "other", other.UID))
		if o := w.seen(r, "c"); o.OwnerReferences[len(o.OwnerReferences)-1].UID != other.UID {
			t.Errorf("got %s", o.Raw)
		}
	}
	w.intents(target, apply(strings.Replace(with, `"c"`, `"d"`, 1), "Secret", target.Object.Kind.APIVersion, "Widget", "w", target.Object.UID))
	w.intents(target, apply(strings.Replace(with, `"c"`, `"e"`, 1), "Secret", "v1", "Namespace", w.ns, w.live(namespace, w.ns).UID))
}
