package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

const shared = "team/shared"

var (
	configMaps = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	secrets    = sdk.Kind{APIVersion: "v1", Kind: "Secret"}
	source     = configMaps.Ref("team", "shared")
)

// newWorld returns a world with the namespaces team, a1 and a2 of team a, and b of team b.
func newWorld(t *testing.T, controller string) *sdktest.World {
	t.Helper()
	w := sdktest.New(t, controller)
	w.CrossNamespace()
	for name, team := range map[string]string{"team": "a", "a1": "a", "a2": "a", "b": "b"} {
		addNamespace(w, name, team)
	}
	return w
}

func addNamespace(w *sdktest.World, name, team string) {
	w.Create(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": sdk.ObjectMeta{Name: name, Labels: map[string]string{"team": team}},
	})
}

// newSource returns a world with a ConfigMap in namespace team that a selector copies.
func newSource(t *testing.T, selector string) *sdktest.World {
	t.Helper()
	w := newWorld(t, "configmap")
	w.Create(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": sdk.ObjectMeta{
			Namespace: "team", Name: "shared",
			Labels:      map[string]string{"app": "x"},
			Annotations: map[string]string{namespacesAnnotation: selector},
		},
		"data": map[string]string{"a": "1"}, "binaryData": map[string]string{"b": "AAE="},
	})
	return w
}

// synced returns a world in which a1 and a2 have their copies.
func synced(t *testing.T) *sdktest.World {
	t.Helper()
	w := newSource(t, "team=a")
	w.Reconcile(shared).ExpectSuccess().
		ExpectWrites("finalizer", "apply v1 ConfigMap a1/shared", "apply v1 ConfigMap a2/shared").
		ExpectEvents().ExpectNext(0)
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
	return w
}

func copyOf(t *testing.T, w *sdktest.World, namespace string) Object {
	t.Helper()
	var o Object
	if !w.Get(configMaps.Ref(namespace, "shared"), &o) {
		t.Fatalf("there is no copy in %s", namespace)
	}
	return o
}

func annotate(w *sdktest.World, selector any) {
	w.Change(source, map[string]any{"metadata": map[string]any{"annotations": map[string]any{namespacesAnnotation: selector}}})
}

func TestSourceIsCopiedIntoSelectedNamespaces(t *testing.T) {
	w := synced(t)
	var original Object
	w.Get(source, &original)

	for _, namespace := range []string{"a1", "a2"} {
		o := copyOf(t, w, namespace)
		if !o.sameContent(&original) {
			t.Errorf("the copy in %s is %+v", namespace, o)
		}
		if fmt.Sprint(o.Metadata.Labels) != "map[configsync.thole.dev/source:team.shared]" ||
			o.Metadata.Annotations[sourceKey] != "team/shared" || o.Metadata.Annotations[uidAnnotation] != original.Metadata.UID ||
			o.Metadata.Annotations[namespacesAnnotation] != "" {
			t.Errorf("the metadata of the copy in %s is %+v", namespace, o.Metadata)
		}
	}
	w.ExpectGone(configMaps.Ref("b", "shared"))
	w.Reconcile("a1/shared").ExpectEmpty().ExpectNoWrites() // the run of the copy
}

func TestSecretIsCopiedWithItsType(t *testing.T) {
	w := newWorld(t, "secret")
	w.Create(`{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth", "immutable": true,
		"metadata": {"namespace": "team", "name": "shared", "annotations": {"configsync.thole.dev/namespaces": "team in (a, b),!x"}},
		"data": {"username": "YQ==", "password": "Yg=="}}`)

	w.Settle(shared).ExpectSuccess()

	for _, namespace := range []string{"a1", "a2", "b"} {
		var o Object
		if !w.Get(secrets.Ref(namespace, "shared"), &o) || o.Type != "kubernetes.io/basic-auth" || !o.Immutable || o.Data["password"] != "Yg==" {
			t.Errorf("the copy in %s is %+v", namespace, o)
		}
	}
}

func TestObjectWithoutAnnotationIsIgnored(t *testing.T) {
	w := newWorld(t, "configmap")
	w.Create(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team", "name": "shared"}}`)
	w.FailReads(configMaps, abi.CodeDenied) // it must not read either
	w.FailReads(namespaceKind, abi.CodeDenied)

	w.Reconcile(shared).ExpectEmpty().ExpectNoWrites().ExpectNext(0)
}

func TestStarSelectsEveryOtherNamespace(t *testing.T) {
	w := newSource(t, " * ")
	w.Settle(shared).ExpectSuccess()
	for _, namespace := range []string{"a1", "a2", "b"} {
		copyOf(t, w, namespace)
	}
	if labels := copyOf(t, w, "team").Metadata.Labels; labels[sourceKey] != "" {
		t.Error("the source was copied over itself")
	}
}

func TestChangeOfSourceUpdatesEveryCopy(t *testing.T) {
	w := synced(t)
	w.Change(source, `{"data": {"a": null, "c": "3"}, "binaryData": null}`)

	w.Reconcile(shared).ExpectSuccess().ExpectWrites("apply v1 ConfigMap a1/shared", "apply v1 ConfigMap a2/shared")
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()

	if o := copyOf(t, w, "a2"); fmt.Sprint(o.Data, o.BinaryData) != "map[c:3] map[]" {
		t.Errorf("the copy has %v %v", o.Data, o.BinaryData)
	}
	w.Change(source, `{"metadata": {"labels": {"app": "y"}}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites() // labels are not copied
}

func TestCopiesFollowLabelsOfNamespaces(t *testing.T) {
	w := synced(t)
	addNamespace(w, "a3", "a")
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("apply v1 ConfigMap a3/shared")

	uid := copyOf(t, w, "a1").Metadata.UID
	w.Change(namespaceKind.Ref("", "a1"), `{"metadata": {"labels": {"team": null}}}`)
	run := w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a1/shared")
	if run.Result.Delete[0].UID != uid {
		t.Error("the deletion has no UID and could delete a later object of that name")
	}
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
}

func TestTerminatingNamespaceIsIgnored(t *testing.T) {
	w := newSource(t, "team=a")
	for _, namespace := range []string{"a1", "a2"} {
		w.Change(namespaceKind.Ref("", namespace), `{"metadata": {"finalizers": ["kubernetes"]}}`)
	}
	w.Delete(namespaceKind.Ref("", "a1"))
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("finalizer", "apply v1 ConfigMap a2/shared")

	w.Delete(namespaceKind.Ref("", "a2"))
	w.Change(source, `{"data": {"a": "2"}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites() // neither applied nor deleted
}

func TestChangedSelectorMovesCopies(t *testing.T) {
	w := synced(t)
	annotate(w, "team=b")

	// A run only deletes or only applies, see plan.perform.
	w.Reconcile(shared).ExpectSuccess().ExpectNext(time.Second).
		ExpectWrites("delete v1 ConfigMap a1/shared", "delete v1 ConfigMap a2/shared")
	w.Reconcile(shared).ExpectSuccess().ExpectNext(0).ExpectWrites("apply v1 ConfigMap b/shared")
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
}

func TestRemovedAnnotationDeletesCopies(t *testing.T) {
	w := synced(t)
	annotate(w, nil)

	w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a1/shared", "delete v1 ConfigMap a2/shared")
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()

	w.Delete(source)
	w.Reconcile(shared).ExpectWrites("release")
	w.ExpectGone(source)
}

func TestCopiesAreDeletedWithSource(t *testing.T) {
	w := synced(t)
	w.Delete(source)

	w.Reconcile(shared).ExpectWrites("delete v1 ConfigMap a1/shared", "delete v1 ConfigMap a2/shared", "release")
	w.ExpectGone(source)
}

func TestRecreatedSourceTakesOverItsCopies(t *testing.T) {
	w := synced(t)
	w.Change(source, `{"metadata": {"finalizers": null}}`) // a user removes the finalizer
	w.Delete(source)
	w.Create(`{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "2"},
		"metadata": {"namespace": "team", "name": "shared", "annotations": {"configsync.thole.dev/namespaces": "team=a"}}}`)

	w.Reconcile(shared).ExpectSuccess().ExpectWrites("finalizer", "apply v1 ConfigMap a1/shared", "apply v1 ConfigMap a2/shared")
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
}

func TestRemovedFinalizerIsAddedAgain(t *testing.T) {
	w := synced(t)
	w.Change(source, `{"metadata": {"finalizers": null}}`)
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("finalizer")
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
}

func TestObjectOfOthersIsNotChanged(t *testing.T) {
	w := newSource(t, "team=a")
	foreign := w.Create(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a1", "name": "shared"}, "data": {"x": "y"}}`)

	run := w.Reconcile(shared).ExpectSuccess().ExpectWrites("finalizer", "apply v1 ConfigMap a2/shared").ExpectEvents("Conflict")
	if event := run.Result.Events[0]; event.Type != sdk.Warning || !strings.Contains(event.Message, "not copied into a1: there is a ConfigMap of this name") {
		t.Errorf("the event is %+v", event)
	}
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectEvents("Conflict")
	annotate(w, nil)
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a2/shared").ExpectEvents()
	if o := copyOf(t, w, "a1"); fmt.Sprint(o.Data, o.Metadata.Labels) != "map[x:y] map[]" {
		t.Errorf("the object was changed: %+v", o)
	}

	annotate(w, "team=a")
	w.Delete(foreign)
	w.Settle(shared).ExpectSuccess().ExpectEvents()
	copyOf(t, w, "a1")
}

// TestCopyIsIdentifiedByLabelAnnotationAndName: an object with only some of them is not a
// copy.
func TestCopyIsIdentifiedByLabelAnnotationAndName(t *testing.T) {
	w := synced(t)
	meta := sdk.ObjectMeta{
		Namespace: "b", Name: "another",
		Labels:      map[string]string{sourceKey: "team.shared"},
		Annotations: map[string]string{sourceKey: "team/shared"},
	}
	w.Create(Object{TypeMeta: configMaps.Type(), Metadata: meta})
	meta.Name, meta.Annotations = "shared", map[string]string{sourceKey: "team/shared.too"} // of another source with the same label
	w.Create(Object{TypeMeta: configMaps.Type(), Metadata: meta})
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
	annotate(w, "team=b")
	w.Reconcile(shared).ExpectSuccess().ExpectEvents("Conflict").
		ExpectWrites("delete v1 ConfigMap a1/shared", "delete v1 ConfigMap a2/shared")
	w.Delete(source)
	w.Reconcile(shared).ExpectWrites("release")
}

func TestTerminatingCopyIsNotWritten(t *testing.T) {
	for _, selector := range []string{"team=a", "team=b"} {
		w := synced(t)
		a1 := configMaps.Ref("a1", "shared")
		w.Change(a1, `{"metadata": {"finalizers": ["example.com/slow"]}}`)
		w.Delete(a1)
		w.Change(source, `{"data": {"a": "2"}}`)
		annotate(w, selector)
		for range 3 {
			run := w.Reconcile(shared).ExpectSuccess()
			if strings.Contains(fmt.Sprint(run.Writes), "a1/") || len(run.Result.Apply)+len(run.Result.Delete) > len(run.Writes) {
				t.Errorf("the run requests a write to the terminating copy: wrote %q", run.Writes)
			}
		}
		w.Change(a1, `{"metadata": {"finalizers": null}}`)
		w.Settle(shared).ExpectSuccess()
		if w.Exists(a1) != (selector == "team=a") {
			t.Errorf("with %s the copy exists: %v", selector, w.Exists(a1))
		}
	}
}

func TestSourceMayBecomeImmutable(t *testing.T) {
	w := synced(t)
	w.Change(source, `{"immutable": true}`)
	w.Settle(shared).ExpectSuccess()
	if !copyOf(t, w, "a1").Immutable {
		t.Error("the copy is not immutable")
	}

	w = synced(t)
	w.Change(configMaps.Ref("a1", "shared"), `{"immutable": true}`) // apply cannot undo that
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("delete v1 ConfigMap a1/shared")
}

func TestFirstOfTwoSourcesWithOneNameWins(t *testing.T) {
	w := synced(t)
	w.Create(`{"apiVersion": "v1", "kind": "ConfigMap", "data": {"other": "1"},
		"metadata": {"namespace": "b", "name": "shared", "annotations": {"configsync.thole.dev/namespaces": "team=a"}}}`)

	run := w.Reconcile("b/shared").ExpectSuccess().ExpectNoWrites().ExpectEvents("Conflict")
	if message := run.Result.Events[0].Message; !strings.Contains(message, "not copied into a1, a2, team: ") {
		t.Errorf("the message of the event is %q", message)
	}
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
}

func TestCopyIsNotCopiedAgain(t *testing.T) {
	w := synced(t)
	w.Change(configMaps.Ref("a1", "shared"), `{"metadata": {"annotations": {"configsync.thole.dev/namespaces": "*"}}}`)
	w.Reconcile("a1/shared").ExpectStalled("IsACopy").ExpectNoWrites()
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites()
	w.ExpectGone(configMaps.Ref("b", "shared"))
}

func TestDeletedCopyIsCreatedAgain(t *testing.T) {
	w := synced(t)
	w.Delete(configMaps.Ref("a1", "shared"))
	w.Reconcile(shared).ExpectSuccess().ExpectWrites("apply v1 ConfigMap a1/shared")
}

func TestInvalidSelectorStallsSource(t *testing.T) {
	for _, selector := range []string{"", " ", "team in a", "=x"} {
		w := synced(t)
		annotate(w, selector)

		run := w.Reconcile(shared).ExpectStalled("InvalidSelector").ExpectNoWrites()

		if want := `annotation configsync.thole.dev/namespaces is "` + selector + `": expected a label selector of namespaces, such as team=a,env in (prod,test), or * for all`; run.Message != want {
			t.Errorf("the message is %q", run.Message)
		}
		copyOf(t, w, "a1") // the copies remain
	}
}

func TestConfigurationRestrictsNamespacesOfSources(t *testing.T) {
	w := synced(t)
	w.Configure(`{"sources": ["shared-config", "team"]}`)
	w.Reconcile(shared).ExpectSuccess().ExpectNoWrites().ExpectEvents()
	w.Configure(`{"sources": ["shared-config"]}`)
	w.Reconcile(shared).ExpectSuccess().ExpectEvents("NotAllowed").
		ExpectWrites("delete v1 ConfigMap a1/shared", "delete v1 ConfigMap a2/shared")
	w.Configure(`{"sources": 5}`)
	w.Reconcile(shared).ExpectStalled("InvalidConfig")
}

func TestFailedReadIsRetried(t *testing.T) {
	for _, kind := range []sdk.Kind{configMaps, namespaceKind} {
		w := newSource(t, "team=a")
		w.FailReads(kind, abi.CodeUnavailable)
		w.Reconcile(shared).ExpectRetry("Unavailable").ExpectNoWrites()
		w.FailReads(kind, 0)
		w.Settle(shared).ExpectSuccess()
		copyOf(t, w, "a1")
	}
	w := synced(t)
	w.FailReads(configMaps, abi.CodeTooLarge)
	w.Reconcile(shared).ExpectStalled("TooLarge")
}
