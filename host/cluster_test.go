package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

func TestMain(m *testing.M) { devcluster.Main(m) }

// controlPlane returns the administrator of the API server that the tests share, one after the other. At the end of
// the test, when its hosts have ended, what it has made is removed; namespaces stay.
func controlPlane(tb testing.TB) *rest.Config {
	tb.Helper()
	config := rest.CopyConfig(devcluster.Shared(tb).Config)
	config.QPS = -1
	s := &sweeper{TB: tb, objects: dynamic.NewForConfigOrDie(config), before: map[types.UID]bool{}}
	for _, resource := range append(swept, crds) {
		for _, o := range s.list(resource) {
			s.before[o.GetUID()] = true
		}
	}
	tb.Cleanup(s.sweep)
	return config
}

// swept are the resources of which tests make objects, beside CustomResourceDefinitions and theirs. Configurations
// of webhooks come first: they would be asked about the others.
var swept = []schema.GroupVersionResource{
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), rbacv1.SchemeGroupVersion.WithResource("clusterroles"),
	rbacv1.SchemeGroupVersion.WithResource("rolebindings"), rbacv1.SchemeGroupVersion.WithResource("roles"),
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("configmaps"),
	corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
}

// sweeper removes what a test has made.
type sweeper struct {
	testing.TB
	objects dynamic.Interface
	before  map[types.UID]bool // objects that were there before the test
}

func (s *sweeper) list(resource schema.GroupVersionResource) []unstructured.Unstructured {
	s.Helper()
	all, err := s.objects.Resource(resource).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(o unstructured.Unstructured) bool {
		isOfNamespace := o.GetName() == "default" && resource.Resource == "serviceaccounts" || o.GetName() == "kube-root-ca.crt"
		return isOfNamespace || s.before[o.GetUID()]
	})
}

func (s *sweeper) sweep() {
	for _, resource := range swept {
		for _, o := range s.list(resource) {
			s.remove(resource, &o)
		}
	}
	for _, crd := range s.list(crds) {
		// Whoever has converted its objects may be gone.
		s.change(crds, &crd, `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
		for _, o := range s.list(resourceOf(&crd)) {
			s.remove(resourceOf(&crd), &o)
		}
		s.remove(crds, &crd)
		await.Until(s, crd.GetName()+" is gone", func() bool {
			_, err := s.objects.Resource(crds).Get(context.Background(), crd.GetName(), metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}

// resourceOf returns the resource of a CustomResourceDefinition, in the first of its versions that is served.
func resourceOf(crd *unstructured.Unstructured) (r schema.GroupVersionResource) {
	r.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	r.Resource, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if v := v.(map[string]any); v["served"] == true && r.Version == "" {
			r.Version = v["name"].(string)
		}
	}
	return r
}

// remove deletes an object, whatever finalizers it has. Owners may take it along.
func (s *sweeper) remove(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	s.Helper()
	if resource != crds && len(o.GetFinalizers()) > 0 {
		s.change(resource, o, `{"metadata":{"finalizers":null}}`)
	}
	err := s.objects.Resource(resource).Namespace(o.GetNamespace()).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Error(err)
	}
}

func (s *sweeper) change(resource schema.GroupVersionResource, o *unstructured.Unstructured, patch string) {
	s.Helper()
	_, err := s.objects.Resource(resource).Namespace(o.GetNamespace()).Patch(context.Background(), o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Error(err)
	}
}

func apply(t testing.TB, client dynamic.ResourceInterface, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
}

// userHost is the user that hosts of tests act as that have the rights of the manifests alone.
var userHost = rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "host"}

// grant makes a ClusterRole, and binds it to a subject.
func grant(tb testing.TB, client kubernetes.Interface, name string, to rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	tb.Helper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := client.RbacV1().ClusterRoles().Create(tb.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	_, bound := client.RbacV1().ClusterRoleBindings().Create(tb.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{to},
	}, metav1.CreateOptions{})
	if err := errors.Join(err, bound); err != nil {
		tb.Fatal(err)
	}
}

// deployedRules returns the rules of the roles in a file of deploy/kustomize, of all or of those named.
func deployedRules(tb testing.TB, file string, names ...string) (rules []rbacv1.PolicyRule) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "deploy", "kustomize", file))
	if err != nil {
		tb.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole // or a Role, which has no more
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			tb.Fatal(err)
		}
		if names == nil || slices.Contains(names, role.Name) {
			rules = append(rules, role.Rules...)
		}
	}
	if rules == nil {
		tb.Fatalf("%s has no rules of %q", file, names)
	}
	return rules
}
