package cache

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/openapi"
	"github.com/thole-dev/thole/host/internal/await"
)

// pathsOf returns the paths to all values that objects of a Go type can have, but for
// those deeper than some levels. The types know nothing of the schemas.
func pathsOf(of reflect.Type, path string, depth int) (paths []string) {
	switch of {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		return []string{path}
	case reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[apiextensions.JSON]():
		return []string{path + ".any.thing[*]"}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return pathsOf(of.Elem(), path, depth)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return []string{path}
		}
		return pathsOf(of.Elem(), path+"[*]", depth)
	case reflect.Map:
		return pathsOf(of.Elem(), path+".some-key", depth)
	case reflect.Struct:
		if depth == 0 {
			return nil
		}
		for field := range of.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
				paths = append(paths, pathsOf(field.Type, path, depth)...)
			case name != "" && name != "-" && !strings.HasPrefix(name, "$"): // no path can name $ref
				paths = append(paths, pathsOf(field.Type, strings.TrimPrefix(path+"."+name, "."), depth-1)...)
			}
		}
		return paths
	default:
		return []string{path}
	}
}

func fieldPaths(t *testing.T, texts ...string) (paths []fieldpath.Path) {
	t.Helper()
	for _, text := range texts {
		path, err := fieldpath.ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// refusedFields returns those of the paths that are refused.
func refusedFields(t *testing.T, c *Cache, kind abi.Kind, texts ...string) (refused []string) {
	t.Helper()
	for _, path := range fieldPaths(t, texts...) {
		err := c.CheckFields(within(t), kind, path)
		if unknown, ok := errors.AsType[*openapi.UnknownFieldError](err); ok {
			t.Log(unknown)
			refused = append(refused, path.String())
		} else if err != nil {
			t.Error(err)
		}
	}
	return refused
}

func TestRealSchemasOfBuiltInKindsHaveAllTheirFields(t *testing.T) {
	c, _ := openReal(t, Config{})
	for kind, of := range map[abi.Kind]reflect.Type{
		{APIVersion: "v1", Kind: "Pod"}:                                           reflect.TypeFor[corev1.Pod](),
		{APIVersion: "v1", Kind: "Node"}:                                          reflect.TypeFor[corev1.Node](),
		{APIVersion: "v1", Kind: "Secret"}:                                        reflect.TypeFor[corev1.Secret](),
		{APIVersion: "v1", Kind: "Event"}:                                         reflect.TypeFor[corev1.Event](),
		{APIVersion: "apps/v1", Kind: "Deployment"}:                               reflect.TypeFor[appsv1.Deployment](),
		{APIVersion: "apps/v1", Kind: "ControllerRevision"}:                       reflect.TypeFor[appsv1.ControllerRevision](),
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}:         reflect.TypeFor[rbacv1.RoleBinding](),
		{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}: reflect.TypeFor[apiextensions.CustomResourceDefinition](),
	} {
		paths := pathsOf(of, "", 8)
		if err := c.CheckFields(within(t), kind, fieldPaths(t, paths...)...); err != nil || len(paths) < 20 {
			t.Errorf("%s, %d paths: %v", kind, len(paths), err)
		}
	}
	if refused := refusedFields(t, c, abi.Kind{APIVersion: "v1", Kind: "Pod"}, "spec.nodename"); len(refused) != 1 {
		t.Error("a field that Pods do not have was accepted")
	}
}

// The schema of a CRD with all that a structural schema may have.
const strangeSchema = `{"type":"object","properties":{
	"spec":{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{
		"a":{"type":"string","nullable":true},"b":{"x-kubernetes-int-or-string":true},
		"map":{"type":"object","additionalProperties":{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"}}}}},
		"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
		"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"boolean"}}},
		"object":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}},
	"status":{"type":"object","properties":{"phase":{"type":"string","enum":["A","B"]}}}}}`

func TestRealSchemaOfACustomKind(t *testing.T) {
	c, _ := openReal(t, Config{})
	ext, err := extclient.NewForConfig(realConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	schema := &apiextensions.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(strangeSchema), schema); err != nil {
		t.Fatal(err)
	}
	strange := abi.Kind{APIVersion: "fields.thole.example/v1", Kind: "Strange"}
	crd := &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "stranges.fields.thole.example"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "fields.thole.example", Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "stranges", Singular: "strange", Kind: "Strange", ListKind: "StrangeList"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema},
			}},
		},
	}
	crds := ext.ApiextensionsV1().CustomResourceDefinitions()
	if err := c.CheckFields(within(t), strange, fieldPaths(t, "spec.a")...); err == nil {
		t.Error("the kind has a schema before it exists")
	}
	if crd, err = crds.Create(within(t), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = crds.Delete(within(t), crd.Name, metav1.DeleteOptions{}) })
	await.Until(t, "the schema is published", func() bool { return c.CheckFields(within(t), strange, fieldPaths(t, "spec.a")...) == nil })
	accepted := append(pathsOf(reflect.TypeFor[metav1.PartialObjectMetadata](), "", 4),
		"spec.a", "spec.b", "spec.map.any-key[*].x", "spec.set[*]", "spec.free.known", "spec.free.other[*].x", "spec.object.kind", "spec.object.metadata.name", "spec.object.spec.x", "status.phase")
	if err := c.CheckFields(within(t), strange, fieldPaths(t, accepted...)...); err != nil {
		t.Error(err)
	}
	if refused := refusedFields(t, c, strange, "spec.c", "status.phase.x", "metadata.nam"); len(refused) != 3 {
		t.Errorf("refused are only %q", refused)
	}

	// A field that the CRD gets is found when its schema is published, which may take longer than a check waits for it.
	patch := `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/late","value":{"type":"string"}},
		{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/required","value":["phase"]}]`
	if _, err := crds.Patch(within(t), crd.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := c.StatusSchema(within(t), strange, time.Minute)
	if err != nil || len(before.Check("status", []byte(`{"phase":"C"}`))) != 1 || len(before.Check("status", []byte(`{"phase":"B"}`))) != 0 {
		t.Errorf("the schema of the status: %v, %v", before.Check("status", []byte(`{"phase":"C"}`)), err)
	}
	await.Until(t, "the field is accepted", func() bool { return len(refusedFields(t, c, strange, "late")) == 0 })
	if kept, err := c.StatusSchema(within(t), strange, time.Hour); err != nil || kept != before {
		t.Errorf("the schema of the status was read again: %v", err)
	}
	if after, err := c.StatusSchema(within(t), strange, 0); err != nil || len(after.Check("status", []byte("{}"))) != 1 {
		t.Errorf("the new schema of the status: %v", err)
	}
}
