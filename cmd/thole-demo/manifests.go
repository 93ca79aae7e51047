package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

const (
	fieldManager = "thole-demo"
	pollInterval = 50 * time.Millisecond
)

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// manifests are what the demo applies.
type manifests struct {
	crd, sample *object
	resource    schema.GroupVersionResource // of the sample
}

// readManifests reads crd.yaml and sample.yaml.
func readManifests(dir string) (m manifests, err error) {
	if m.crd, err = readManifest(filepath.Join(dir, "crd.yaml")); err != nil {
		return m, err
	}
	if m.sample, err = readManifest(filepath.Join(dir, "sample.yaml")); err != nil {
		return m, err
	}
	if m.sample.GetNamespace() == "" {
		return m, fmt.Errorf("%s: metadata.namespace is missing", filepath.Join(dir, "sample.yaml"))
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.crd.Object, &crd); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(dir, "crd.yaml"), err)
	}
	kind := m.sample.GroupVersionKind()
	m.resource = kind.GroupVersion().WithResource(crd.Spec.Names.Plural)
	if kind.Kind != crd.Spec.Names.Kind || kind.Group != crd.Spec.Group {
		return m, fmt.Errorf("%s: sample.yaml is a %s, crd.yaml is of %s.%s", dir, kind.GroupKind(), crd.Spec.Names.Kind, crd.Spec.Group)
	}
	return m, nil
}

func readManifest(path string) (*object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	o := &object{}
	if err := yaml.UnmarshalStrict(text, &o.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.GetKind() == "" || o.GetName() == "" {
		return nil, fmt.Errorf("%s: kind or metadata.name is missing", path)
	}
	return o, nil
}

// apply is a server-side apply.
func apply(ctx context.Context, client dynamic.Interface, r schema.GroupVersionResource, o *object) error {
	var resource dynamic.ResourceInterface = client.Resource(r)
	if o.GetNamespace() != "" {
		resource = client.Resource(r).Namespace(o.GetNamespace())
	}
	_, err := resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager})
	return err
}

// served waits until the API server serves a resource.
func served(ctx context.Context, client dynamic.Interface, r schema.GroupVersionResource) error {
	return poll(ctx, func() (bool, error) {
		_, err := client.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// poll asks until the answer is yes or an error.
func poll(ctx context.Context, ask func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
