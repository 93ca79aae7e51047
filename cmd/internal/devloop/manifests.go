package devloop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	fieldManager = "thole-dev"
	// servedWithin is how long a kind may take to be served: that of a
	// CustomResourceDefinition that was just applied takes a moment.
	servedWithin   = 30 * time.Second
	servedInterval = 50 * time.Millisecond
)

type object = unstructured.Unstructured

// readManifests reads the objects of a file, in their order.
func readManifests(path string) (objects []*object, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		var content any
		if err == nil {
			err = yaml.Unmarshal(document, &content)
		}
		fields, ok := content.(map[string]any)
		o := &object{Object: fields}
		switch {
		case err != nil:
			return nil, fmt.Errorf("no valid YAML: %s", strings.TrimPrefix(err.Error(), "error converting YAML to JSON: yaml: "))
		case content == nil, ok && len(fields) == 0: // nothing but comments
		case !ok:
			return nil, errors.New("what it holds is no object: write its apiVersion, kind and metadata")
		case o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "":
			return nil, errors.New("apiVersion, kind or metadata.name is missing")
		default:
			objects = append(objects, o)
		}
	}
}

// applier applies objects as the user does.
type applier struct {
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
}

func newApplier(cluster *rest.Config) (*applier, error) {
	config := rest.CopyConfig(cluster)
	config.QPS = -1 // a handful of requests
	config.UserAgent = fieldManager
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &applier{client, disco}, nil
}

// apply is a server-side apply; the file wins over whoever else has set a
// field. It waits for a kind that is not served yet.
func (a *applier) apply(ctx context.Context, o *object) error {
	ctx, cancel := context.WithTimeout(ctx, servedWithin)
	defer cancel()
	for {
		err := a.try(ctx, o)
		if !errors.Is(err, errNotServed) || !rested(ctx, servedInterval) {
			return err
		}
	}
}

var errNotServed = errors.New("the API server does not serve the kind: apply its CustomResourceDefinition")

func (a *applier) try(ctx context.Context, o *object) error {
	resource, err := a.resource(o)
	if err != nil {
		return err
	}
	_, err = resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if apierrors.IsNotFound(err) && a.isKind(err, o) {
		return errNotServed // told of, and not served yet
	}
	return err
}

// isKind tells a kind that is not found from a namespace that is not.
func (a *applier) isKind(err error, o *object) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && (status.ErrStatus.Details == nil || status.ErrStatus.Details.Kind != "namespaces" || o.GetKind() == "Namespace")
}

func (a *applier) resource(o *object) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	list, err := a.discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if list == nil {
		return nil, errNotServed
	}
	for _, r := range list.APIResources {
		if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
			return a.in(kind.GroupVersion().WithResource(r.Name), r.Namespaced, o), nil
		}
	}
	return nil, errNotServed
}

func (a *applier) in(r schema.GroupVersionResource, namespaced bool, o *object) dynamic.ResourceInterface {
	if !namespaced {
		return a.client.Resource(r)
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	return a.client.Resource(r).Namespace(o.GetNamespace())
}

// named is an object as people name it.
func named(o *object) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.GetKind() + " " + name
}
