//go:build unix

package apimachinerytest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

// kinds are those with types in sdk/kubernetes, by their API version.
var kinds = map[string][]string{
	"v1":                           {"ConfigMap", "Namespace", "PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount"},
	"apps/v1":                      {"DaemonSet", "Deployment", "StatefulSet"},
	"autoscaling/v2":               {"HorizontalPodAutoscaler"},
	"batch/v1":                     {"CronJob", "Job"},
	"coordination.k8s.io/v1":       {"Lease"},
	"networking.k8s.io/v1":         {"Ingress", "NetworkPolicy"},
	"policy/v1":                    {"PodDisruptionBudget"},
	"rbac.authorization.k8s.io/v1": {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
}

// eachKind runs a test for each kind.
func eachKind(t *testing.T, test func(*testing.T, schema.GroupVersionKind)) {
	for _, version := range slices.Sorted(maps.Keys(kinds)) {
		for _, kind := range kinds[version] {
			t.Run(kind, func(t *testing.T) { test(t, schema.FromAPIVersionAndKind(version, kind)) })
		}
	}
}

// kindsPlugin is the plugin of testdata/kinds.
type kindsPlugin struct{ plugin }

// again returns an object as the plugin has decoded and encoded it, and a new object of
// the kind.
func (p kindsPlugin) again(t *testing.T, kind string, object []byte) (back, created []byte) {
	t.Helper()
	var status struct{ Object, New json.RawMessage }
	p.compute(t, "w", map[string]any{"kind": kind, "object": json.RawMessage(object)}, &status)
	return status.Object, status.New
}

// TestTypesAreThoseOfKubernetes: an object of k8s.io/api is the same after the plugin has
// decoded and encoded it.
func TestTypesAreThoseOfKubernetes(t *testing.T) {
	p := kindsPlugin{load(t, "kinds")}
	eachKind(t, func(t *testing.T, kind schema.GroupVersionKind) {
		// In the first object nothing is left out, in the others most of it is.
		for seed := range int64(30) {
			nilChance := 0.0
			if seed > 0 {
				nilChance = 0.3
			}
			object := newObject(t, kind)
			filler(seed, nilChance).Fill(object)
			object.GetObjectKind().SetGroupVersionKind(kind)
			text := asJSON(t, object)
			want := newObject(t, kind)
			decode(t, text, want)

			back, _ := p.again(t, kind.Kind, withUnknown(t, text))
			got := newObject(t, kind)
			decode(t, string(back), got)
			if !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("seed %d: %s\ncomes back as %s", seed, text, back)
			}
		}
	})
}

// TestWholeKindsAreMembersOfASpec: objects in a spec are the same after the plugin has decoded and encoded it.
func TestWholeKindsAreMembersOfASpec(t *testing.T) {
	type whole struct {
		Deployment appsv1.Deployment     `json:"deployment"`
		Pods       []corev1.Pod          `json:"pods"`
		Lease      *coordinationv1.Lease `json:"lease"`
	}
	want := whole{Pods: make([]corev1.Pod, 2), Lease: &coordinationv1.Lease{}}
	for _, object := range []any{&want.Deployment, &want.Pods[0], &want.Pods[1], want.Lease} {
		filler(1, 0.3).Fill(object)
	}
	text := asJSON(t, want)
	decode(t, text, &want)

	var status struct{ Object json.RawMessage }
	kindsPlugin{load(t, "kinds")}.compute(t, "w", map[string]any{"kind": "Whole", "whole": json.RawMessage(text)}, &status)
	var got whole
	decode(t, string(status.Object), &got)
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("%s\ncomes back as %s", text, status.Object)
	}
}

// withUnknown returns an object with members that no version of Kubernetes has.
func withUnknown(t *testing.T, object string) []byte {
	members := map[string]json.RawMessage{}
	decode(t, object, &members)
	if members["spec"] != nil {
		spec := map[string]json.RawMessage{}
		decode(t, string(members["spec"]), &spec)
		spec["future"] = json.RawMessage(`{"spec":{}}`)
		members["spec"] = []byte(asJSON(t, spec))
	}
	members["future"] = json.RawMessage(`[{"a":null},1]`)
	return []byte(asJSON(t, members))
}

// TestNewObjectHasOnlyWhatIsRequired: what is applied has no other members, which the
// plugin would own.
func TestNewObjectHasOnlyWhatIsRequired(t *testing.T) {
	p := kindsPlugin{load(t, "kinds")}
	required := map[string]string{
		"ClusterRoleBinding": `,"roleRef":{"apiGroup":"","kind":"","name":""}`,
		"RoleBinding":        `,"roleRef":{"apiGroup":"","kind":"","name":""}`,
	}
	eachKind(t, func(t *testing.T, kind schema.GroupVersionKind) {
		_, created := p.again(t, kind.Kind, []byte(`{}`))
		want := `{"apiVersion":"` + kind.GroupVersion().String() + `","kind":"` + kind.Kind + `","metadata":{"name":"w"}` + required[kind.Kind] + `}`
		if string(created) != want {
			t.Errorf("got  %s\nwant %s", created, want)
		}
	})
}

// TestPluginWithDeploymentAndServiceIsSmall: it reads and applies both.
func TestPluginWithDeploymentAndServiceIsSmall(t *testing.T) {
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/apimachinerytest/testdata/web")
	if t.Logf("the plugin has %d bytes", len(wasm)); len(wasm) > 310_000 {
		t.Error("want 310000 at most")
	}
}

func newObject(t *testing.T, kind schema.GroupVersionKind) runtime.Object {
	t.Helper()
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// filler returns what fills objects with values that the API server could send.
func filler(seed int64, nilChance float64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(nilChance).NumElements(1, 2).Funcs(
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			*m = metav1.ObjectMeta{ // what sdk.ObjectMeta has
				Name: c.String(9), Namespace: c.String(9), UID: types.UID(c.String(9)), ResourceVersion: c.String(9), Generation: c.Int63(),
			}
			c.Fill(&m.CreationTimestamp)
			c.Fill(&m.DeletionTimestamp)
			c.Fill(&m.Labels)
			c.Fill(&m.Annotations)
			c.Fill(&m.Finalizers)
			c.Fill(&m.OwnerReferences)
		},
		func(o *metav1.OwnerReference, c randfill.Continue) {
			c.FillNoCustom(o)
			// It has no difference between false and absent.
			for _, flag := range []**bool{&o.Controller, &o.BlockOwnerDeletion} {
				if *flag != nil && !**flag {
					*flag = nil
				}
			}
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"0", "500m", "1.5Gi", "1000m", "-3", "1e3", "12E"}[c.Intn(7)])
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(c.Int31()), intstr.FromString(c.String(5)), intstr.FromString("25%")}[c.Intn(4)]
		},
		func(f *corev1.ResourceList, c randfill.Continue) {
			*f = corev1.ResourceList{corev1.ResourceName(c.String(5)): resource.MustParse("2Gi"), "cpu": resource.MustParse("0")}
		},
	)
}
