package scenario

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/await"
)

// fieldManager is that of everything that a script writes.
const fieldManager = "scenario"

// api is the API server as scripts use it.
type api struct {
	objects dynamic.Interface
	clients *kubernetes.Clientset
	mapper  meta.RESTMapper
	forget  func() // what mapper has cached
}

func newAPI(config *rest.Config) (*api, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	discovery := memory.NewMemCacheClient(clients.Discovery())
	deferred := restmapper.NewDeferredDiscoveryRESTMapper(discovery)
	return &api{objects, clients, restmapper.NewShortcutExpander(deferred, discovery, nil), deferred.Reset}, nil
}

// resource returns the resource of a kind that is named as for kubectl: pod, pods,
// po, podmanagers.example.thole.dev. namespaced reports whether its objects are in
// namespaces.
func (a *api) resource(name string) (_ schema.GroupVersionResource, namespaced bool, err error) {
	full, short := schema.ParseResourceArg(strings.ToLower(name))
	var kind schema.GroupVersionKind
	err = a.known(func() (err error) {
		if kind, err = a.mapper.KindFor(short.WithVersion("")); meta.IsNoMatchError(err) && full != nil {
			kind, err = a.mapper.KindFor(*full)
		}
		return err
	})
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	return a.resourceOf(kind)
}

func (a *api) resourceOf(kind schema.GroupVersionKind) (_ schema.GroupVersionResource, namespaced bool, err error) {
	var mapping *meta.RESTMapping
	err = a.known(func() (err error) {
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		return err
	})
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	return mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// known calls find, and once more without the cache if there is no such kind: it may
// be new.
func (a *api) known(find func() error) error {
	err := find()
	if meta.IsNoMatchError(err) {
		a.forget()
		err = find()
	}
	return err
}

// in returns the client for a resource, in a namespace if the resource has those.
func (a *api) in(resource, namespace string) (dynamic.ResourceInterface, error) {
	gvr, namespaced, err := a.resource(resource)
	if err != nil || !namespaced {
		return a.objects.Resource(gvr), err
	}
	return a.objects.Resource(gvr).Namespace(namespace), nil
}

// forObject returns the client for an object's resource and namespace.
func (a *api) forObject(o *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	gvr, namespaced, err := a.resourceOf(o.GroupVersionKind())
	if err != nil || !namespaced {
		return a.objects.Resource(gvr), err
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	return a.objects.Resource(gvr).Namespace(o.GetNamespace()), nil
}

// apply writes an object by server-side apply. It returns when a new kind is served.
func (a *api) apply(ctx context.Context, o *unstructured.Unstructured, namespace string) error {
	client, err := a.forObject(o, namespace)
	if err != nil {
		return err
	}
	_, err = client.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil || o.GetKind() != "CustomResourceDefinition" {
		return err
	}
	return a.awaitServed(ctx, o)
}

// awaitServed blocks until the kind of a CRD is served, and its schema is published: the condition
// Established comes too early for both.
func (a *api) awaitServed(ctx context.Context, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	return await.Success(func() error {
		client, err := a.in(plural+"."+group, "")
		if err == nil {
			_, err = client.List(ctx, metav1.ListOptions{Limit: 1})
		}
		if err == nil {
			err = a.hasSchemas(crd, group)
		}
		return err
	})
}

// hasSchemas returns an error if the API server does not publish the schema of each served version of a CRD.
func (a *api) hasSchemas(crd *unstructured.Unstructured, group string) error {
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	paths, err := a.clients.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		path := fmt.Sprintf("apis/%s/%s", group, version["name"])
		published := paths[path]
		if published == nil {
			return fmt.Errorf("the API server does not publish schemas of %s yet", path)
		}
		text, err := published.Schema(runtime.ContentTypeJSON)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte(`"kind":"`+kind+`"`)) {
			return fmt.Errorf("the API server does not publish the schema of %s in %s yet", kind, path)
		}
	}
	return nil
}

// decode returns the objects of a file in YAML.
func decode(text string) (all []*unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document)) == 0 || o.Object == nil {
			continue // comments only
		}
		if o.GetKind() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("an object needs apiVersion, kind and metadata.name:\n%s", document)
		}
		all = append(all, o)
	}
}

// show returns an object as people read it.
func show(o *unstructured.Unstructured) string {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
