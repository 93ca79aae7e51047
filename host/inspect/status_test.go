package inspect

import (
	"context"
	"reflect"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

func TestReportHasWhatTheHostWritesIntoTheStatus(t *testing.T) {
	kind := func(apiVersion, kind string) abi.Followed { return abi.Kind{APIVersion: apiVersion, Kind: kind}.All() }
	metadata := widget.All()
	metadata.MetadataOnly = true
	host := func(observed, handled string, conditions ...string) Status {
		return Status{Controller: "c", Owner: "host", Conditions: conditions, ObservedGeneration: observed, LastHandledReconcileAt: handled}
	}
	for name, c := range map[string]struct {
		abi.Controller
		want Status
		row  string
	}{
		"custom":            {abi.Controller{For: widget.All()}, host(ifSchema, ifSchema, "Ready", "Reconciling", "Stalled"), "the host writes Ready, Reconciling, Stalled, observedGeneration if the schema has it"},
		"another target":    {abi.Controller{For: widget.All(), Conditions: abi.Conditions{Target: "Synced", Owned: []string{"Fetched"}}}, host("no", ifSchema, "Synced", "Fetched"), "the host writes Synced, Fetched"},
		"metadata":          {abi.Controller{For: metadata}, host("no", "no"), "the host writes nothing of its own"},
		"the guest's":       {abi.Controller{For: widget.All(), StatusOwner: abi.StatusOwnerGuest}, Status{Controller: "c", Owner: "guest", ObservedGeneration: "no", LastHandledReconcileAt: "no"}, "the plugin writes all of it, the host nothing"},
		"built-in":          {abi.Controller{For: kind("apps/v1", "ReplicaSet")}, host("if the policy allows to patch ReplicaSet/status", "no"), "the host writes observedGeneration if the policy allows to patch ReplicaSet/status"},
		"with conditions":   {abi.Controller{For: kind("v1", "Pod"), Conditions: abi.Conditions{Target: "Scanned"}}, host("no", "no", "Scanned"), "the host writes Scanned"},
		"without the field": {abi.Controller{For: kind("v1", "Namespace")}, host("no", "no"), "the host writes nothing of its own"},
		"without a status":  {abi.Controller{For: kind("v1", "ConfigMap")}, host("no", "no"), "the host writes nothing of its own"},
		"not known":         {abi.Controller{For: kind("apps/v9", "Thing")}, host("if the policy allows to patch Thing/status", "no"), "the host writes observedGeneration if the policy allows to patch Thing/status"},
	} {
		c.Name = "c"
		r := &Report{Load: Load{OK: true}}
		if err := r.addManifest(t.Context(), &abi.Manifest{Name: "p", Controllers: []abi.Controller{c.Controller}}, config.Policy{Limits: config.Config{}.WithDefaults().Limits}, Options{}); err != nil {
			t.Fatal(err)
		}
		rows := r.controllers[0].rows
		if got := rows[len(rows)-1]; !reflect.DeepEqual(r.Status, []Status{c.want}) || got[0] != "Status" || got[1] != c.row || !r.Load.OK {
			t.Errorf("%s: %+v, %q, %+v", name, r.Status, got, r.Load)
		}
	}
}

func TestReportHasWhatTheSchemaLeavesOfTheStatus(t *testing.T) {
	cluster := devcluster.Shared(t).Config
	crds := extclient.NewForConfigOrDie(cluster).ApiextensionsV1().CustomResourceDefinitions()
	crd := &apiextensions.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(routes), crd); err != nil {
		t.Fatal(err)
	}
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = crds.Delete(context.Background(), crd.Name, metav1.DeleteOptions{}) })
	c := abi.Controller{Name: "c", For: abi.Kind{APIVersion: "inspect.thole.example/v1", Kind: "Route"}.All()}
	want := Status{
		Controller: "c", Owner: "host", Conditions: []string{"Ready"}, ObservedGeneration: "no", LastHandledReconcileAt: "yes", After: []string{"status.parents"},
		LeftOut: []string{"status.conditions[1].type should be one of [Ready]", "status.conditions[1].type should be one of [Ready]", "the schema has no status.observedGeneration"},
	}
	await.Until(t, "the schema is published, and the report has what fits it", func() bool {
		r := &Report{Load: Load{OK: true}}
		if err := r.addManifest(t.Context(), &abi.Manifest{Name: "p", Controllers: []abi.Controller{c}}, config.Policy{Limits: config.Config{}.WithDefaults().Limits}, Options{Cluster: cluster}); err != nil {
			t.Fatal(err)
		}
		row := r.Status[0].row()
		t.Log(row)
		return reflect.DeepEqual(r.Status, []Status{want}) && strings.HasPrefix(row, "the host writes Ready, lastHandledReconcileAt, as soon as the plugin has written status.parents, which the schema requires; left out: status.conditions[1]")
	})
}

const routes = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routes.inspect.thole.example}
spec:
  group: inspect.thole.example
  names: {kind: Route, plural: routes, singular: route, listKind: RouteList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status:
            type: object
            required: [parents]
            properties:
              parents: {type: array, items: {type: string}}
              lastHandledReconcileAt: {type: string}
              conditions: {type: array, items: {type: object, properties: {type: {type: string, enum: [Ready]}, status: {type: string}}}}
`

func TestConditionsWithoutAPlaceRefuseThePlugin(t *testing.T) {
	for kind, refused := range map[string]bool{"CronJob": true, "Job": false} {
		c := abi.Controller{Name: "c", For: abi.Kind{APIVersion: "batch/v1", Kind: kind}.All(), Conditions: abi.Conditions{Target: "Late"}}
		r := &Report{Load: Load{OK: true}}
		if err := r.addManifest(t.Context(), &abi.Manifest{Name: "p", Controllers: []abi.Controller{c}}, config.Policy{Limits: config.Config{}.WithDefaults().Limits}, Options{}); err != nil {
			t.Fatal(err)
		}
		if r.Load.OK == refused || refused && (r.Load.Step != stepStart || !strings.Contains(r.Load.Error, `controller "c": conditions, for which batch/v1 CronJob has no place`)) {
			t.Errorf("%s: %+v", kind, r.Load)
		}
	}
}
