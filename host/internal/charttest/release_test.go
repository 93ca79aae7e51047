package charttest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/await"
)

// installation is a release in a namespace of the cluster.
type installation struct {
	*testing.T
	config *action.Configuration
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	kubeconfig, namespace := cluster.Kubeconfig, release.Namespace
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	typed := kubernetes.NewForConfigOrDie(cluster.Config)
	i := &installation{T: t, config: action.NewConfiguration(), client: dynamic.NewForConfigOrDie(cluster.Config)}
	i.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))
	i.ok(i.config.Init(flags, namespace, "secret"))
	for _, name := range []string{namespace, "team-a", "team-b"} {
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name": name, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"},
		}}}
		i.ok(i.apply(ns, false))
	}
	// As the operator of Prometheus installs them.
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		i.ok(i.apply(crdOf(kind), false))
	}
	await.Until(t, "the kinds of Prometheus' operator are served", func() bool {
		i.mapper.Reset()
		_, err := i.mapper.RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}, "v1")
		return err == nil
	})
	return i
}

func crdOf(kind string) *unstructured.Unstructured {
	plural := strings.ToLower(kind) + "s"
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".monitoring.coreos.com"},
		"spec": map[string]any{
			"group": "monitoring.coreos.com", "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "plural": plural, "singular": strings.ToLower(kind), "listKind": kind + "List"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}
}

func (i *installation) ok(err error) {
	i.Helper()
	if err != nil {
		i.Fatal(err)
	}
}

func (i *installation) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping, err := i.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return nil, err
	}
	if o.GetNamespace() == "" {
		return i.client.Resource(mapping.Resource), nil
	}
	return i.client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}

func (i *installation) apply(o *unstructured.Unstructured, dryRun bool) error {
	client, err := i.resource(o)
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "test", Force: new(true), FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = client.Patch(i.Context(), o.GetName(), types.ApplyPatchType, text, options)
	return err
}

// objectsOf returns the objects of rendered templates.
func objectsOf(t *testing.T, rendered map[string]string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, text := range rendered {
		for document := range strings.SplitSeq(text, "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
				t.Fatalf("%v\n%s", err, document)
			}
			if len(o.Object) > 0 {
				all = append(all, o)
			}
		}
	}
	return all
}

// The API server takes each manifest, and knows each field.
func TestAPIServerTakesEveryManifest(t *testing.T) {
	i := newInstallation(t)
	files, err := filepath.Glob(filepath.Join(deploy, "chart", "testdata", "*.values.yaml"))
	i.ok(err)
	for _, file := range files {
		rendered, err := render(t, readYAML(t, file))
		i.ok(err)
		for _, o := range objectsOf(t, rendered) {
			if err := i.apply(o, true); err != nil {
				t.Errorf("%s: %s %s: %v", filepath.Base(file), o.GetKind(), o.GetName(), err)
			}
		}
	}
}

func (i *installation) values(name string) map[string]any {
	i.Helper()
	values := readYAML(i.T, filepath.Join(deploy, "chart", "testdata", name+".values.yaml"))
	if values == nil {
		values = map[string]any{}
	}
	delete(values, "namespace") // it is there
	return values
}

func (i *installation) install(values map[string]any) {
	i.Helper()
	install := action.NewInstall(i.config)
	install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout = release.Name, release.Namespace, kube.HookOnlyStrategy, time.Minute
	_, err := install.RunWithContext(i.Context(), load(i.T), values)
	i.ok(err)
}

func (i *installation) upgrade(values map[string]any) {
	i.Helper()
	upgrade := action.NewUpgrade(i.config)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = release.Namespace, kube.HookOnlyStrategy, time.Minute
	_, err := upgrade.RunWithContext(i.Context(), release.Name, load(i.T), values)
	i.ok(err)
}

// state returns the names of the objects that have the labels of the release, with their
// resourceVersions, and the replicas of the Deployment.
func (i *installation) state() (names []string, replicas int64) {
	i.Helper()
	for _, kind := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"},
		{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"},
	} {
		list, err := i.client.Resource(kind).List(i.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + release.Name})
		i.ok(err)
		for _, o := range list.Items {
			names = append(names, fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()))
			if o.GetKind() == "Deployment" {
				replicas, _, _ = unstructured.NestedInt64(o.Object, "spec", "replicas")
			}
		}
	}
	slices.Sort(names)
	return names, replicas
}

func namesOf(objects []*unstructured.Unstructured) (names []string) {
	for _, o := range objects {
		if o.GetKind() != "Namespace" {
			names = append(names, fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()))
		}
	}
	slices.Sort(names)
	return names
}

func (i *installation) expect(step string, values map[string]any) {
	i.Helper()
	rendered, err := render(i.T, values)
	i.ok(err)
	got, replicas := i.state()
	if want := namesOf(objectsOf(i.T, rendered)); !slices.Equal(got, want) {
		i.Errorf("after the %s there are\n%s\nwant\n%s", step, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wanted := int64(2)
	if n, ok := values["replicaCount"].(int64); ok {
		wanted = n
	} else if n, ok := values["replicaCount"].(float64); ok {
		wanted = int64(n)
	}
	if replicas != wanted {
		i.Errorf("after the %s there are %d replicas, want %d", step, replicas, wanted)
	}
}

// A release goes through its life on the API server, while an object with a finalizer of a plugin and what
// the host has written stay: nothing of the chart owns them, and nothing waits for them.
func TestReleaseLivesAndEnds(t *testing.T) {
	i := newInstallation(t)
	lease := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "thole-0", "namespace": release.Namespace},
	}}
	held := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "held", "namespace": "team-a", "finalizers": []any{"web.thole.dev/site"}},
	}}
	for _, o := range []*unstructured.Unstructured{lease, held} {
		i.ok(i.apply(o, false))
	}
	first, second := i.values("plugins"), i.values("full")
	i.install(first)
	i.expect("installation", first)
	i.upgrade(second)
	i.expect("upgrade", second)
	rollback := action.NewRollback(i.config)
	rollback.Version, rollback.WaitStrategy, rollback.Timeout = 1, kube.HookOnlyStrategy, time.Minute
	i.ok(rollback.Run(release.Name))
	i.expect("rollback", first)
	i.upgrade(first) // with nothing new
	i.expect("upgrade to the same", first)

	uninstall := action.NewUninstall(i.config)
	uninstall.WaitStrategy, uninstall.Timeout = kube.HookOnlyStrategy, time.Minute
	_, err := uninstall.Run(release.Name)
	i.ok(err)
	await.Until(t, "nothing of the release is left", func() bool {
		left, _ := i.state()
		return len(left) == 0
	})
	for _, o := range []*unstructured.Unstructured{lease, held} {
		client, err := i.resource(o)
		i.ok(err)
		if now, err := client.Get(t.Context(), o.GetName(), metav1.GetOptions{}); err != nil || now.GetDeletionTimestamp() != nil {
			t.Errorf("%s: %v", o.GetName(), err)
		}
	}
	third := i.values("namespaced")
	i.install(third)
	i.expect("next installation", third)
	if names, _ := i.state(); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "ClusterRole") }) {
		t.Errorf("an installation in namespaces has ClusterRoles: %v", names)
	}
	if _, err := uninstall.Run(release.Name); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
