package effect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestObjectOfAnotherControllerIsNeverChanged(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	other := w.create(widget, `{"metadata":{"name":"other"}}`)

	before := w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c","ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"other","uid":%q,"controller":true}]}}`, other.UID))
	for _, in := range []*abi.Result{apply(configObject, "v"), adopt(apply(configObject, "v")), {Delete: []abi.Ref{{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}} {
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
	if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonNotAdopted || !strings.Contains(failure.Message, "adopt") {
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
		"another namespace":                    {apply(elsewhere, "Secret"), abi.ClassDenied, reasonOutOfScope},
		"a delete in another namespace":        {&abi.Result{Delete: []abi.Ref{{APIVersion: "v1", Kind: "Secret", Namespace: "kube-system", Name: "x"}}}, abi.ClassDenied, reasonOutOfScope},
		"a path instead of a name":             {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../../kube-system/configmaps/x"}}`), abi.ClassABI, reasonInvalid},
		"a path instead of a namespace":        {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":".."}}`), abi.ClassABI, reasonInvalid},
		"a path instead of a name to delete":   {&abi.Result{Delete: []abi.Ref{{APIVersion: "v1", Kind: "Secret", Name: ".."}}}, abi.ClassABI, reasonInvalid},
		"no name":                              {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x-"}}`), abi.ClassABI, reasonInvalid},
		"no kind":                              {apply(`{"metadata":{"name":"x"}}`), abi.ClassABI, reasonInvalid},
		"a duplicate name":                     {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","name":"y"}}`), abi.ClassABI, reasonInvalid},
		"a namespace of a cluster-scoped kind": {apply(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","namespace":"y"}}`), abi.ClassABI, reasonInvalid},
		"an owner reference with controller":   {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","ownerReferences":[{"uid":"u","controller":true}]}}`), abi.ClassABI, reasonInvalid},
		"two applies of one object":            {&abi.Result{Apply: append(apply(configObject, "1").Apply, apply(configObject, "2").Apply...)}, abi.ClassABI, reasonInvalid},
		"an apply and a delete of one object":  {&abi.Result{Apply: apply(configObject, "1").Apply, Delete: []abi.Ref{{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}, abi.ClassABI, reasonInvalid},
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
	w := newCluster(t, func(c *Config) { c.CrossNamespace = true })
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
	w := newCluster(t)
	o := w.create(tree, `{"metadata":{"generateName":"t-"}}`)
	target := Target{controller(list(configMap), nil), o}
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

func TestIntentsForTwoVersionsOfOneObjectAreRefused(t *testing.T) {
	w, target := newFake(t, respond(404, "application/json", `{}`))
	target.Controller = controller(list(widget, widgetV2), nil)
	const of = `{"apiVersion":"test.thole.dev/%s","kind":"Widget","metadata":{"name":"other"}}`
	in := &abi.Result{Apply: slices.Concat(apply(of, "v1").Apply, apply(of, "v2").Apply)}
	_, failure := w.PerformIntents(t.Context(), target, in)
	if failure == nil || failure.Reason != reasonInvalid || !strings.Contains(failure.Message, "named by two intents") {
		t.Errorf("got %+v", failure)
	}
	w.expectSent()
}

func TestPolicyNamespacesBoundEveryWrite(t *testing.T) {
	w := newCluster(t)
	there := w.create(namespace, `{"metadata":{"generateName":"there-"}}`).Name
	bound := func(namespaces ...string) {
		w.start(func(c *Config) { c.CrossNamespace, c.Namespaces = true, namespaces })
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
		"delete": {Delete: []abi.Ref{{APIVersion: "v1", Kind: "Secret", Namespace: there, Name: "x"}}},
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
