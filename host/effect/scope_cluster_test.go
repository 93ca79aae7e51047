package effect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestApplyTouchesOnlyWhatIsThePrimarys(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	other := w.create(widget, `{"metadata":{"name":"other"}}`)

	w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c","ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"other","uid":%q,"controller":true}]}}`, other.UID))
	for _, in := range []Intents{apply(configObject, "v"), adopt(apply(configObject, "v")), {Delete: []abi.Ref{{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}} {
		_, failure := w.Intents(t.Context(), target, in)
		if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonControlled || !strings.Contains(failure.Message, "Widget other") {
			t.Fatalf("got %+v", failure)
		}
	}
	if got := w.live(configMap, "c"); field(got, "data") != "" {
		t.Errorf("touched: %s", got.Raw)
	}
	for _, r := range w.wire.take() {
		if r.method != "GET" {
			t.Errorf("sent %s", r)
		}
	}
}

func TestApplyAdoptsOnlyWhenAsked(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	before := w.create(configMap, `{"metadata":{"name":"c"},"data":{"k":"theirs","more":"1"}}`)

	_, failure := w.Intents(t.Context(), target, apply(configObject, "v"))
	if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonNotAdopted || !strings.Contains(failure.Message, "adopt") {
		t.Fatalf("got %+v", failure)
	}
	// A field that somebody else holds with another value is a conflict that
	// stays: it is told, nothing is taken over.
	_, failure = w.Intents(t.Context(), target, adopt(apply(configObject, "v")))
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != reasonFields || failure.Conflict || !strings.Contains(failure.Message, ".data.k") {
		t.Fatalf("got %+v", failure)
	}
	if got := w.live(configMap, "c"); got.ResourceVersion != before.ResourceVersion {
		t.Fatalf("touched: %s", got.Raw)
	}

	w.intents(target, adopt(apply(configObject, "theirs")))
	got := w.seen(configMap, "c")
	if owner := got.Controller(); owner == nil || owner.UID != target.Object.UID || field(got, "data", "more") != `"1"` {
		t.Fatalf("got %s", got.Raw)
	}
	// From now on it is a child like any other.
	w.intents(target, adopt(apply(configObject, "v")))
	if got := w.live(configMap, "c"); field(got, "data", "k") != `"v"` {
		t.Errorf("got %s", got.Raw)
	}
}

func TestApplyReachesAsFarAsItMay(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap, namespace), list(secret, namespace))
	elsewhere := `{"apiVersion":"v1","kind":%q,"metadata":{"name":"x","namespace":"kube-system"}}`
	for name, c := range map[string]struct {
		in     Intents
		class  abi.Class
		reason string
	}{
		"a kind that is not declared":    {apply(serviceObject), abi.ClassDenied, reasonUndeclared},
		"another version of one":         {apply(`{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}`), abi.ClassDenied, reasonUndeclared},
		"a foreign namespace":            {apply(elsewhere, "Secret"), abi.ClassDenied, reasonScope},
		"a deletion in one":              {Intents{Delete: []abi.Ref{{APIVersion: "v1", Kind: "Secret", Namespace: "kube-system", Name: "x"}}}, abi.ClassDenied, reasonScope},
		"a path instead of a name":       {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../../kube-system/configmaps/x"}}`), abi.ClassABI, reasonInvalid},
		"a path instead of a namespace":  {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":".."}}`), abi.ClassABI, reasonInvalid},
		"a path to delete":               {Intents{Delete: []abi.Ref{{APIVersion: "v1", Kind: "Secret", Name: ".."}}}, abi.ClassABI, reasonInvalid},
		"no name":                        {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x-"}}`), abi.ClassABI, reasonInvalid},
		"no kind":                        {apply(`{"metadata":{"name":"x"}}`), abi.ClassABI, reasonInvalid},
		"a name given twice":             {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","name":"y"}}`), abi.ClassABI, reasonInvalid},
		"a namespace of a cluster's":     {apply(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","namespace":"y"}}`), abi.ClassABI, reasonInvalid},
		"a controller of the guest's":    {apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","ownerReferences":[{"uid":"u","controller":true}]}}`), abi.ClassABI, reasonInvalid},
		"one object twice":               {Intents{Apply: append(apply(configObject, "1").Apply, apply(configObject, "2").Apply...)}, abi.ClassABI, reasonInvalid},
		"one object applied and deleted": {Intents{Apply: apply(configObject, "1").Apply, Delete: []abi.Ref{{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}, abi.ClassABI, reasonInvalid},
		"a good intent before a bad one": {Intents{Apply: append(apply(configObject, "1").Apply, apply(serviceObject).Apply...)}, abi.ClassDenied, reasonUndeclared},
	} {
		t.Run(name, func(t *testing.T) {
			_, failure := w.Intents(t.Context(), target, c.in)
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

func TestApplyAcrossNamespacesByPolicy(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.CrossNamespace = true })
	target := w.owner(list(configMap), list(secret))
	there := w.create(namespace, `{"metadata":{"generateName":"there-"}}`).Name

	w.intents(target, apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":%q}}`, there))
	w.ns = there
	if got := w.live(secret, "x"); got == nil || len(got.OwnerReferences) != 0 {
		t.Errorf("got %v", got)
	}
	for _, in := range []Intents{
		apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":%q}}`, there),
		apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":%q,"ownerReferences":[{"uid":%q}]}}`, there, target.Object.UID),
	} {
		_, failure := w.Intents(t.Context(), target, in)
		if failure == nil || failure.Reason != reasonScope || !strings.Contains(failure.Message, "cannot be owned") {
			t.Errorf("got %+v", failure)
		}
	}
}

func TestApplyOfAClusterScopedPrimary(t *testing.T) {
	w := newCluster(t)
	o := w.create(tree, `{"metadata":{"generateName":"t-"}}`)
	target := Target{controller(list(configMap), nil), o}
	_, failure := w.Intents(t.Context(), target, apply(configObject, "v"))
	if failure == nil || failure.Reason != reasonInvalid || !strings.Contains(failure.Message, "metadata.namespace is required") {
		t.Errorf("got %+v", failure)
	}
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":%q}}`, w.ns))
	if got := w.live(configMap, "c"); got.Controller() == nil || got.Controller().UID != o.UID {
		t.Errorf("got %s", got.Raw)
	}
}

func TestApplyOfThePrimaryItself(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(widget), nil)
	self := apply(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"w","labels":{"x":"1"}}}`)
	_, failure := w.Intents(t.Context(), target, self)
	if failure == nil || failure.Reason != reasonScope || !strings.Contains(failure.Message, "cannot own itself") {
		t.Errorf("got %+v", failure)
	}
	target.Controller = controller(nil, list(widget))
	w.intents(target, self)
	if got := w.live(widget, "w"); got.Labels["x"] != "1" || len(got.OwnerReferences) != 0 {
		t.Errorf("got %s", got.Raw)
	}
}
