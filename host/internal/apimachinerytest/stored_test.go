//go:build unix

package apimachinerytest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/devcluster"
)

// TestStoredObjectComesBackAsItIs creates the objects of testdata/objects.yaml. They, and
// those that the control plane has of the kinds, are the same JSON after the plugin has
// decoded and encoded them.
func TestStoredObjectComesBackAsItIs(t *testing.T) {
	config := rest.CopyConfig(devcluster.Start(t).Config)
	config.QPS, config.Burst = 1000, 2000
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	createObjects(t, client)
	p := kindsPlugin{load(t, "kinds")}
	eachKind(t, func(t *testing.T, kind schema.GroupVersionKind) {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		list, err := client.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			t.Error("there is no object")
		}
		for _, object := range list.Items {
			expectSame(t, p, &object)
		}
	})
}

func createObjects(t *testing.T, client dynamic.Interface) {
	text, err := os.ReadFile(filepath.Join("testdata", "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		namespaced := client.Resource(resource).Namespace(object.GetNamespace())
		if _, err := namespaced.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatal(err)
		}
	}
}

// expectSame fails unless the object comes back from the plugin as it is.
func expectSame(t *testing.T, p kindsPlugin, object *unstructured.Unstructured) {
	t.Helper()
	for _, unknown := range []string{"managedFields", "generateName"} { // to sdk.ObjectMeta
		unstructured.RemoveNestedField(object.Object, "metadata", unknown)
	}
	text := asJSON(t, object)
	back, _ := p.again(t, object.GetKind(), []byte(text))
	var got, want any
	decode(t, string(back), &got)
	decode(t, text, &want)
	for _, difference := range differences(want, got, nil) {
		t.Errorf("%s %s: %s", object.GetKind(), object.GetName(), difference)
	}
	// Also where an object of zeros is left out: it means nothing there.
	typedGot, typedWant := newObject(t, object.GroupVersionKind()), newObject(t, object.GroupVersionKind())
	decode(t, string(back), typedGot)
	decode(t, text, typedWant)
	if !equality.Semantic.DeepEqual(typedGot, typedWant) {
		t.Errorf("%s\ncomes back as %s", text, back)
	}
}

// differences returns what is not the same in two JSON values, but for objects without
// values that are absent in got.
func differences(want, got any, path []string) (all []string) {
	wanted, isObject := want.(map[string]any)
	have, same := got.(map[string]any)
	if !isObject || !same {
		return differentLists(want, got, path)
	}
	for name := range have {
		if _, ok := wanted[name]; !ok {
			all = append(all, strings.Join(append(path, name), ".")+" is new")
		}
	}
	for name, value := range wanted {
		at := append(slices.Clone(path), name)
		back, ok := have[name]
		_, isObject := value.(map[string]any)
		switch {
		case ok:
			all = append(all, differences(value, back, at)...)
		case !isObject || !isZero(value):
			all = append(all, strings.Join(at, ".")+" is lost")
		}
	}
	return all
}

// isZero reports whether a JSON value is zero, or an object of zeros.
func isZero(v any) bool {
	members, isObject := v.(map[string]any)
	for _, member := range members {
		if !isZero(member) {
			return false
		}
	}
	return isObject || v == nil || v == "" || v == 0.0 || v == false
}

// differentLists is differences for values that are not both objects.
func differentLists(want, got any, path []string) (all []string) {
	wanted, isList := want.([]any)
	have, same := got.([]any)
	switch {
	case isList && same && len(wanted) == len(have):
		for i := range wanted {
			all = append(all, differences(wanted[i], have[i], append(slices.Clone(path), "[]"))...)
		}
	case !reflect.DeepEqual(want, got):
		before, _ := json.Marshal(want)
		after, _ := json.Marshal(got)
		all = append(all, strings.Join(path, ".")+": "+string(before)+" comes back as "+string(after))
	}
	return all
}
