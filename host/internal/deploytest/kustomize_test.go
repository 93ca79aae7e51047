package deploytest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// kustomization has the fields that the kustomizations of this repository use. An
// unknown field is an error, so that the tests apply what kustomize would.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"` // files and directories
	Images     []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
	Patches []struct {
		Patch string `json:"patch"` // a strategic merge patch of an object of a built-in kind
	} `json:"patches"`
	ConfigMapGenerator []struct {
		Name      string   `json:"name"`
		Namespace string   `json:"namespace"`
		Files     []string `json:"files"`
		Options   struct {
			DisableNameSuffixHash bool `json:"disableNameSuffixHash"`
		} `json:"options"`
	} `json:"configMapGenerator"`
}

// kustomize returns the objects of a directory with a kustomization.
func kustomize(dir string) ([]*unstructured.Unstructured, error) {
	path := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var k kustomization
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var objects []*unstructured.Unstructured
	for _, r := range k.Resources {
		more, err := resource(filepath.Join(dir, r))
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	if err := k.patch(objects); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, o := range objects {
		k.setImages(o)
	}
	generated, err := k.configMaps(dir)
	return append(objects, generated...), err
}

func resource(path string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return kustomize(path)
	}
	return manifests(path)
}

// patch applies each patch to the object that it names.
func (k *kustomization) patch(objects []*unstructured.Unstructured) error {
	for _, p := range k.Patches {
		patch := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(p.Patch), &patch); err != nil {
			return err
		}
		named := &unstructured.Unstructured{Object: patch}
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == named.GroupVersionKind() && o.GetName() == named.GetName() && o.GetNamespace() == named.GetNamespace()
		})
		if i < 0 {
			return fmt.Errorf("there is no %s to patch", describe(named))
		}
		typed, err := scheme.Scheme.New(named.GroupVersionKind())
		if err != nil {
			return err
		}
		if objects[i].Object, err = strategicpatch.StrategicMergeMapPatch(objects[i].Object, patch, typed); err != nil {
			return err
		}
	}
	return nil
}

// setImages replaces the images in a pod template.
func (k *kustomization) setImages(o *unstructured.Unstructured) {
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		container := c.(map[string]any)
		for _, i := range k.Images {
			if container["image"] == i.Name {
				container["image"] = i.NewName + ":" + i.NewTag
			}
		}
	}
	if containers != nil {
		_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	}
}

func (k *kustomization) configMaps(dir string) (objects []*unstructured.Unstructured, err error) {
	for _, g := range k.ConfigMapGenerator {
		if !g.Options.DisableNameSuffixHash {
			return nil, errors.New("a generated name with a hash is not supported")
		}
		files := map[string]any{}
		for _, f := range g.Files {
			content, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil {
				return nil, err
			}
			files[filepath.Base(f)] = base64.StdEncoding.EncodeToString(content)
		}
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata":   map[string]any{"name": g.Name, "namespace": g.Namespace},
			"binaryData": files,
		}})
	}
	return objects, nil
}

// manifests returns the objects of a file.
func manifests(path string) (objects []*unstructured.Unstructured, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	buffer := make([]byte, len(text)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(buffer[:n], &o.Object); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if o.Object != nil {
			objects = append(objects, o)
		}
	}
}
