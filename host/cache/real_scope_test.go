package cache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
)

// scopedKind is a kind of which the CRD is made again with another scope.
type scopedKind struct {
	t    *testing.T
	kind abi.Kind
	crd  *apiextensions.CustomResourceDefinition
	crds extclient.Interface
	ns   []string // three, in order
}

func newScopedKind(t *testing.T, name string) *scopedKind {
	_, client := openReal(t, Config{})
	k := &scopedKind{t: t, kind: abi.Kind{APIVersion: name + ".example/v1", Kind: "Gizmo"}, crd: crd(), crds: extclient.NewForConfigOrDie(realConfig(t))}
	k.crd.Name, k.crd.Spec.Group = "gizmos."+name+".example", name+".example"
	for range 3 {
		k.ns = append(k.ns, namespace(t, client))
	}
	slices.Sort(k.ns)
	t.Cleanup(k.remove)
	return k
}

// remove blocks until the CRD is gone.
func (k *scopedKind) remove() {
	k.t.Helper()
	definitions := k.crds.ApiextensionsV1().CustomResourceDefinitions()
	await.Until(k.t, "the CRD is gone", func() bool {
		return apierrors.IsNotFound(definitions.Delete(context.Background(), k.crd.Name, metav1.DeleteOptions{}))
	})
}

// install makes the CRD again, with objects in each namespace, or one without.
func (k *scopedKind) install(scope apiextensions.ResourceScope) {
	k.t.Helper()
	k.remove()
	k.crd.Spec.Scope = scope
	if _, err := k.crds.ApiextensionsV1().CustomResourceDefinitions().Create(within(k.t), k.crd, metav1.CreateOptions{}); err != nil {
		k.t.Fatal(err)
	}
	objects := dynamic.NewForConfigOrDie(realConfig(k.t)).Resource(schema.GroupVersionResource{Group: k.crd.Spec.Group, Version: "v1", Resource: "gizmos"})
	namespaces := k.ns
	if scope == apiextensions.ClusterScoped {
		namespaces = []string{""}
	}
	for n, ns := range namespaces {
		eventually(k.t, func() (*unstructured.Unstructured, error) {
			return objects.Namespace(ns).Create(within(k.t), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": k.kind.APIVersion, "kind": k.kind.Kind, "metadata": map[string]any{"name": fmt.Sprint("in-", n)},
			}}, metav1.CreateOptions{})
		})
	}
}

// acquire acquires an informer when the kind is served as it was installed.
func (k *scopedKind) acquire(c *Cache, namespaces []string) *Informer {
	k.t.Helper()
	return eventually(k.t, func() (*Informer, error) {
		i, err := c.Acquire(within(k.t), scope.Scope{Kind: k.kind, Namespaces: namespaces})
		if err == nil {
			err = i.WaitForSync(within(k.t))
		}
		return i, err
	})
}

// expect waits until an informer shows those objects, by namespace and name.
func (k *scopedKind) expect(i *Informer, want ...string) {
	k.t.Helper()
	var got []string
	defer func() {
		if k.t.Failed() {
			k.t.Logf("the informer shows %q, error %v", got, i.Err())
		}
	}()
	await.Until(k.t, "the informer shows "+strings.Join(want, " "), func() bool {
		got = nil
		for _, o := range i.List("", nil) {
			n := slices.Index(k.ns, o.Namespace)
			got = append(got, strings.TrimPrefix(fmt.Sprintf("%d/%s", n, o.Name), "-1/"))
		}
		return slices.Equal(got, want)
	})
}

// A CRD that was made again with another scope shows nobody more than the scope allows, and
// everything of that once it is as it was.
func TestRealCRDMayBeCreatedAgainWithAnotherScope(t *testing.T) {
	k := newScopedKind(t, "other")
	c, _ := openReal(t, Config{Logger: logtest.New(hclog.Info).Logger})
	k.install(apiextensions.NamespaceScoped)
	two, all := k.acquire(c, k.ns[:2]), k.acquire(c, nil)
	k.expect(two, "0/in-0", "1/in-1")

	k.install(apiextensions.ClusterScoped)
	k.expect(all, "in-0")
	k.expect(two)
	await.Until(t, "the scope is known", func() bool {
		r, err := c.Resource(within(t), k.kind)
		return err == nil && !r.Namespaced && !all.Namespaced()
	})
	await.Until(t, "the informer says so", func() bool {
		return two.Err() != nil && strings.Contains(two.Err().Error(), "is cluster-scoped now")
	})
	if err := all.Err(); err != nil {
		t.Error(err)
	}
	again := k.acquire(c, k.ns[:2])
	k.expect(again, "in-0")
	if !again.IsServedAs(all) {
		t.Error("a cluster-scoped kind is followed more than once")
	}

	k.install(apiextensions.NamespaceScoped)
	k.expect(all, "0/in-0", "1/in-1", "2/in-2")
	k.expect(two, "0/in-0", "1/in-1")
	k.expect(again, "0/in-0", "1/in-1")
	for _, i := range []*Informer{all, two, again} {
		await.Until(t, "the failure has ended", func() bool { return i.Err() == nil && i.Namespaced() })
	}
}
