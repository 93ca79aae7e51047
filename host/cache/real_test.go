package cache

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
)

// These tests run against a real API server.

var (
	configMap = abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	gizmo     = abi.Kind{APIVersion: "thole.example/v1", Kind: "Gizmo"}
	gizmos    = schema.GroupVersionResource{Group: "thole.example", Version: "v1", Resource: "gizmos"}
)

func realConfig(t testing.TB) *rest.Config {
	config := rest.CopyConfig(devcluster.Shared(t).Config)
	config.QPS = -1
	return config
}

func openReal(t testing.TB, config Config, hooks ...Hooks) (*Cache, *kubernetes.Clientset) {
	t.Helper()
	config.REST = realConfig(t)
	config.RetryAfter = 100 * time.Millisecond
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	for _, h := range hooks {
		c.Subscribe(h)
	}
	return c, kubernetes.NewForConfigOrDie(config.REST)
}

func namespace(t testing.TB, client *kubernetes.Clientset) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(within(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cache-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func acquireReal(t testing.TB, c *Cache, kind abi.Kind) *Informer {
	t.Helper()
	i, err := c.Acquire(within(t), scope.All(kind))
	if err != nil {
		t.Fatal(err)
	}
	if err := i.WaitForSync(within(t)); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestRealObjectFromCreationToDeletion(t *testing.T) {
	c, client := openReal(t, Config{})
	ns := namespace(t, client)
	maps := client.CoreV1().ConfigMaps(ns)
	i := acquireReal(t, c, configMap)
	events := make(chan Event, 100)
	t.Cleanup(i.follow(func(e Event) {
		if e.Object().Name == "x" && e.Object().Namespace == ns {
			events <- e
		}
	}))
	ctx := within(t)

	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes",
		}},
		Data: map[string]string{"a": "1"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	added := receive(t, events)
	if added.Old != nil || added.Initial || added.New.UID != made.UID || added.New.Kind != configMap {
		t.Errorf("added: %+v", added)
	}
	if got, want := string(added.New.Raw), fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":%q,"uid":%q,"resourceVersion":%q,"creationTimestamp":%q,"annotations":{"kept":"yes"}},"data":{"a":"1"}}`,
		ns, made.UID, made.ResourceVersion, made.CreationTimestamp.UTC().Format(time.RFC3339)); got != want {
		t.Errorf("raw:\ngot  %s\nwant %s", got, want)
	}

	made.Data["a"] = "2"
	changed, err := maps.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := waitReached(ctx, i, changed.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	key := object.Key{Namespace: ns, Name: "x"}
	cached, ok := i.Get(key)
	if !ok || cached.ResourceVersion != changed.ResourceVersion {
		t.Fatalf("get: %v %v", cached, ok)
	}
	if e := receive(t, events); e.Old.ResourceVersion != made.ResourceVersion || e.New.ResourceVersion != changed.ResourceVersion {
		t.Errorf("updated: %+v", e)
	}
	live, err := i.Live(ctx, key)
	if err != nil || string(live.Raw) != string(cached.Raw) {
		t.Errorf("live: %v %v", live, err)
	}

	if err := maps.Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := receive(t, events); e.New != nil || e.Old.UID != made.UID {
		t.Errorf("deleted: %+v", e)
	}
	if _, ok := i.Get(key); ok {
		t.Error("still there")
	}
	if _, err := i.Live(ctx, key); !notFound(err) {
		t.Errorf("live: %v", err)
	}
}

func TestRealResourcesAreDiscovered(t *testing.T) {
	c, _ := openReal(t, Config{})
	tests := []struct {
		kind             abi.Kind
		resource         string
		namespaced, stat bool
	}{
		{configMap, "configmaps", true, false},
		{abi.Kind{APIVersion: "v1", Kind: "Pod"}, "pods", true, true},
		{abi.Kind{APIVersion: "apps/v1", Kind: "Deployment"}, "deployments", true, true},
		{abi.Kind{APIVersion: "v1", Kind: "Node"}, "nodes", false, true},
		{abi.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, "clusterroles", false, false},
	}
	for _, tt := range tests {
		got, err := c.Resource(within(t), tt.kind)
		if err != nil || got.GVR.Resource != tt.resource || got.Namespaced != tt.namespaced || got.Status != tt.stat || got.Kind != tt.kind {
			t.Errorf("%s: got %+v, %v", tt.kind, got, err)
		}
	}
	var notListable *NotListableError
	if _, err := c.Acquire(within(t), scope.All(abi.Kind{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"})); !errors.As(err, &notListable) {
		t.Errorf("got %v", err)
	}
}

// TestRealBuiltInKindsAreListed reads every kind that a fresh cluster has objects of.
func TestRealBuiltInKindsAreListed(t *testing.T) {
	c, _ := openReal(t, Config{})
	for _, kind := range []abi.Kind{
		{APIVersion: "v1", Kind: "Namespace"},
		{APIVersion: "v1", Kind: "Service"},
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"},
		{APIVersion: "flowcontrol.apiserver.k8s.io/v1", Kind: "FlowSchema"},
	} {
		i := acquireReal(t, c, kind)
		all := i.List("", nil)
		if len(all) == 0 {
			t.Errorf("%s: no objects", kind)
		}
		for _, o := range all {
			if o.Kind != kind || o.Name == "" || o.UID == "" || o.ManagedFields != nil {
				t.Errorf("%s: %+v", kind, o.ObjectMeta)
			}
		}
	}
}

func TestRealNamespaceRestrictsInformers(t *testing.T) {
	_, client := openReal(t, Config{})
	inside, outside := namespace(t, client), namespace(t, client)
	c, _ := openReal(t, Config{Namespace: inside})
	for _, ns := range []string{inside, outside} {
		if _, err := client.CoreV1().ConfigMaps(ns).Create(within(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range acquireReal(t, c, configMap).List("", nil) {
		if o.Namespace != inside {
			t.Errorf("holds %s", o.Key())
		}
	}
	if got := acquireReal(t, c, abi.Kind{APIVersion: "v1", Kind: "Namespace"}).List("", nil); len(got) < 2 {
		t.Errorf("cluster-scoped objects: %s", names(got))
	}
}

func crd() *apiextensions.CustomResourceDefinition {
	preserve := true
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gizmos.thole.example"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "thole.example",
			Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "gizmos", Kind: "Gizmo"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
}

// TestRealCRDMayBeDeletedAndCreatedAgain follows a kind through the life of its
// definition.
func TestRealCRDMayBeDeletedAndCreatedAgain(t *testing.T) {
	logs := logtest.New(hclog.Info)
	c, client := openReal(t, Config{Logger: logs.Logger})
	config := realConfig(t)
	crds := extclient.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	objects := dynamic.NewForConfigOrDie(config).Resource(gizmos).Namespace(namespace(t, client))
	ctx := within(t)
	var unknown *object.UnknownKindError
	if _, err := c.Acquire(ctx, scope.All(gizmo)); !errors.As(err, &unknown) {
		t.Fatalf("got %v", err)
	}

	install := func() {
		t.Helper()
		if _, err := crds.Create(ctx, crd(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	install()
	t.Cleanup(func() { _ = crds.Delete(context.Background(), crd().Name, metav1.DeleteOptions{}) })
	i := acquireWhenServed(t, c, gizmo)
	if s, err := c.Resource(ctx, gizmo); err != nil || !s.Status || !s.Namespaced {
		t.Errorf("resource: %+v %v", s, err)
	}
	r := record(t, i)
	create := func(name string) string {
		t.Helper()
		made := eventually(t, func() (*unstructured.Unstructured, error) {
			return objects.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "thole.example/v1", "kind": "Gizmo",
				"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": int64(1)},
			}}, metav1.CreateOptions{})
		})
		return object.Key{Namespace: made.GetNamespace(), Name: name}.String()
	}
	r.expect("add " + create("one"))

	if err := crds.Delete(ctx, crd().Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, r.events); got[:6] != "delete" {
		t.Fatalf("got %s", got)
	}
	if got := i.List("", nil); len(got) != 0 {
		t.Errorf("left: %s", names(got))
	}
	eventually(t, func() (any, error) {
		_, err := c.Resource(ctx, gizmo)
		if !errors.As(err, &unknown) {
			return nil, fmt.Errorf("got %w", err)
		}
		return nil, nil
	})
	lines := []logtest.Line{logs.Next(t)} // the watch may fail for other reasons first
	for lines[len(lines)-1].Fields["reason"] != "KindNotServed" {
		lines = append(lines, logs.Next(t))
	}

	install()
	r.expect("add " + create("two"))
	expectChangesOnly(t, append(lines, logs.All()...))
}

// acquireWhenServed calls Acquire until the kind is served, as the host does.
func acquireWhenServed(t *testing.T, c *Cache, kind abi.Kind) *Informer {
	t.Helper()
	i := eventually(t, func() (*Informer, error) { return c.Acquire(within(t), scope.All(kind)) })
	if err := i.WaitForSync(within(t)); err != nil {
		t.Fatal(err)
	}
	return i
}

// eventually calls try until it returns no error.
func eventually[T any](t testing.TB, try func() (T, error)) T {
	t.Helper()
	var v T
	if err := await.Success(func() (err error) { v, err = try(); return err }); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRealWritesAreReadOnceTheyAreReached(t *testing.T) {
	wakeups := make(chan Owner, 100)
	c, client := openReal(t, Config{}, Hooks{Wake: func(o Owner, _ Event, _ bool) { wakeups <- o }})
	ns := namespace(t, client)
	ctx := within(t)
	i := acquireReal(t, c, configMap)
	run := begin(c, me, &OwnWrites{})
	if found, err := run.List(Reading{Kind: configMap, Namespaces: []string{ns}, Selector: selector(t, "app=web")}); err != nil || len(found.Items) != 0 {
		t.Fatal(found, err)
	}
	run.Commit()
	maps := client.CoreV1().ConfigMaps(ns)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"app": "web"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if owner := receive(t, wakeups); owner != me {
		t.Errorf("Wake was called for %+v", owner)
	}
	for n := range 50 { // each write is read once it is reached, and calls Wake
		made.Labels["n"] = fmt.Sprint(n)
		if made, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := waitReached(ctx, i, made.ResourceVersion); err != nil {
			t.Fatal(err)
		}
		if o, _ := i.Get(object.Key{Namespace: ns, Name: "x"}); o.Labels["n"] != fmt.Sprint(n) {
			t.Fatalf("run %d reads %s", n, o.Labels["n"])
		}
		receive(t, wakeups)
	}
	delete(made.Labels, "app")
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	receive(t, wakeups) // Wake is also called for an object that leaves the list
}

// TestRealRestartOfTheServer restarts the API server of the package.
func TestRealRestartOfTheServer(t *testing.T) {
	cluster := devcluster.Shared(t)
	logs := logtest.New(hclog.Info)
	c, client := openReal(t, Config{Logger: logs.Logger})
	ns := namespace(t, client)
	i := acquireReal(t, c, configMap)
	version := versionOf(i)
	if err := cluster.Restart(); err != nil {
		t.Fatal(err)
	}
	made := eventually(t, func() (*corev1.ConfigMap, error) {
		return client.CoreV1().ConfigMaps(ns).Create(within(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{})
	})
	if err := waitReached(within(t), i, made.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	if !reached(i, version) {
		t.Error("the informer went back to an older resourceVersion")
	}
	if i.parts[0].Restores() != 0 {
		t.Error("a restart was taken for a restore")
	}
	expectChangesOnly(t, logs.All())
}
