// Package crdtest passes what `thole generate crd` writes to an API server.
package crdtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

const root = "../../../"

// markers is the plugin with every marker and kind of type that has a schema.
const markers = root + "cmd/thole-tools/internal/crdgen/testdata/accepted/markers/crd.yaml"

var (
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gadgets = schema.GroupVersionResource{Group: "markers.example.com", Version: "v1", Resource: "gadgetry"}
)

func TestGeneratedCRDs(t *testing.T) {
	config := rest.CopyConfig(devcluster.Start(t).Config)
	config.QPS, config.Burst = 1000, 2000
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files(t) {
		t.Run(strings.TrimPrefix(path, root), func(t *testing.T) { expectAccepted(t, client, path) })
	}
	install(t, client, definitions(t, markers))
	t.Run("objects", func(t *testing.T) { expectObjects(t, client.Resource(gadgets)) })
	t.Run("stored", func(t *testing.T) { expectStored(t, client.Resource(gadgets)) })
	t.Run("shapes", func(t *testing.T) {
		install(t, client, generated(t, "testdata/shapes"))
		expectSchemasOfKubernetes(t, client)
	})
}

// generated returns the definitions of a plugin.
func generated(t *testing.T, dir string) []*unstructured.Unstructured {
	program, err := tholetest.Program("cmd/thole-tools")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "generate", "crd", "--output", "-", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return parse(t, text)
}

// files returns the generated files of the examples and of the tests of the generator.
func files(t *testing.T) []string {
	var found []string
	for _, pattern := range []string{"plugins/*/crd.yaml", "cmd/thole-tools/internal/crdgen/testdata/accepted/*/crd.yaml"} {
		paths, err := filepath.Glob(root + pattern)
		if err != nil || len(paths) < 2 {
			t.Fatalf("%s: found %q, error %v", pattern, paths, err)
		}
		found = append(found, paths...)
	}
	return found
}

func definitions(t *testing.T, path string) []*unstructured.Unstructured {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func parse(t *testing.T, text []byte) (found []*unstructured.Unstructured) {
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatal(err)
		}
		found = append(found, o)
	}
	return found
}

// expectAccepted creates the definitions of a file without storing them. The API server
// ignores no field, and refuses a schema that is not structural.
func expectAccepted(t *testing.T, client dynamic.Interface, path string) {
	for _, o := range definitions(t, path) {
		options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
		if _, err := client.Resource(crds).Create(t.Context(), o, options); err != nil {
			t.Error(err)
		}
	}
}

// install creates kinds, and waits until they are served.
func install(t *testing.T, client dynamic.Interface, kinds []*unstructured.Unstructured) {
	for _, o := range kinds {
		if _, err := client.Resource(crds).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range kinds {
		await.Until(t, o.GetName()+" is served", func() bool {
			_, err := client.Resource(resourceOf(o)).List(t.Context(), metav1.ListOptions{})
			return err == nil
		})
	}
}

// resourceOf returns the resource of the first version of a kind.
func resourceOf(definition *unstructured.Unstructured) schema.GroupVersionResource {
	plural, group, _ := strings.Cut(definition.GetName(), ".")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	return schema.GroupVersionResource{Group: group, Version: versions[0].(map[string]any)["name"].(string), Resource: plural}
}

// gadget returns an object with a spec that has what is required, and more.
func gadget(t *testing.T, more string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	text := "{apiVersion: markers.example.com/v1, kind: Gadget, metadata: {name: one}, spec: {owner: me, color: red, " + more + "}}"
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// expectObjects has specs that are accepted, and specs that are refused with a text in the
// error.
func expectObjects(t *testing.T, client dynamic.ResourceInterface) {
	for more, refusal := range map[string]string{
		"":                    "",
		"size: 2, mode: Slow": "",
		"any: {a: 1}, anything: [b], enabled: true, share: 0.5, bytes: YQ==": "",
		"time: '2026-11-26T12:00:00Z', nested: {required: x}":                "",
		"microTime: '2026-11-26T12:00:00.000001Z', duration: 1h30m":          "",
		"port: 80, memory: 1Gi, limits: {cpu: 100m}":                         "",
		"port: http, memory: 3, limits: {cpu: 1}":                            "",
		"set: [a, b], map: {a: {required: x}}, byName: [{name: a}]":          "",
		"size: 3, nested: {required: x, deeper: {values: [1]}}":              "",

		"size: 0":                                "should be greater than or equal to 1",
		"size: 3":                                "a large one needs nested",
		"mode: Sideways":                         "Unsupported value",
		"nested: {}":                             "spec.nested.required: Required value",
		"color: blue":                            "Unsupported value",
		"owner: ME":                              "spec.owner",
		"set: [a, a]":                            "Duplicate value",
		"set: [a, b, c, d, e, f]":                "must have at most 5 items",
		"byName: [{name: a}, {name: a}]":         "Duplicate value",
		"duration: soon":                         "spec.duration",
		"duration: 1000000000h":                  "Too long",
		"memory: much":                           "spec.memory",
		"memory: 2Ti":                            "failed rule",
		"time: today":                            "spec.time",
		"port: {}":                               "spec.port",
		"limits: {a: 1, b: 1, c: 1, d: 1, e: 1}": "must have at most 4",
		"list: [{required: x, deeper: {values: []}}]": "at least 1",
		"unknown: 1": "unknown field",
	} {
		options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
		_, err := client.Create(t.Context(), gadget(t, more), options)
		switch {
		case refusal == "" && err != nil:
			t.Errorf("{%s} is refused: %v", more, err)
		case refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)):
			t.Errorf("{%s}: the error is %v, without %q", more, err, refusal)
		}
	}
}

// expectStored creates an object, and writes the status that a host writes before the plugin
// has returned one. All of it is kept, and so are the defaults.
func expectStored(t *testing.T, client dynamic.ResourceInterface) {
	o, err := client.Create(t.Context(), gadget(t, ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := map[string]any{"owner": "me", "color": "red", "size": int64(2), "mode": "Fast"}
	if !reflect.DeepEqual(o.Object["spec"], spec) {
		t.Errorf("the spec is %v", o.Object["spec"])
	}
	status := map[string]any{
		"observedGeneration": int64(1), "lastHandledReconcileAt": "now",
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": "Failed", "message": "", "lastTransitionTime": "2026-11-26T12:00:00Z", "observedGeneration": int64(1),
		}},
	}
	o.Object["status"] = status
	o, err = client.UpdateStatus(t.Context(), o, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(o.Object["status"], status) {
		t.Errorf("the status is %v", o.Object["status"])
	}
}

// shape returns an object of a kind of testdata/shapes, with a spec.
func shape(t *testing.T, kind, spec string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	text := "{apiVersion: shapes.example.com/v1, kind: " + kind + ", metadata: {name: one}, spec: {" + spec + "}}"
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// expectSchemasOfKubernetes has objects that the API server takes or refuses, as it does those of its own kinds.
func expectSchemasOfKubernetes(t *testing.T, client dynamic.Interface) {
	resource := func(kind string) dynamic.ResourceInterface {
		plural := strings.ToLower(kind) + "s"
		return client.Resource(schema.GroupVersionResource{Group: "shapes.example.com", Version: "v1", Resource: plural}).Namespace("default")
	}
	const container = "name: web, image: web"
	for _, c := range []struct{ kind, spec, refusal string }{
		{"Part", "", ""},
		{"Part", "template: {metadata: {labels: {a: b}, creationTimestamp: null}, spec: {containers: [{" + container + ", resources: {}}]}}", ""},
		{"Part", "template: {spec: {}}", "spec.template.spec.containers: Required value"},
		{"Part", "template: {spec: {containers: [{image: web}]}}", "spec.template.spec.containers[0].name: Required value"},
		{"Part", "containers: [{" + container + "}, {" + container + "}]", "Duplicate value"},
		{"Part", "imagePullSecrets: [{}, {name: ''}]", "Duplicate value"},
		{"Part", "ports: [{port: 80}, {port: 80, protocol: UDP}]", ""},
		{"Part", "ports: [{port: 80}, {port: 80, protocol: TCP}]", "Duplicate value"},
		{"Part", "ports: [{name: web}]", "spec.ports[0].port: Required value"},
		{"Part", "rules: [{apiGroups: ['']}]", "spec.rules[0].verbs: Required value"},
		{"Part", "selector: {matchExpressions: [{key: a}]}", "operator: Required value"},
		{"Part", "conditions: [{type: A, status: 'True', reason: R, message: m}]", "lastTransitionTime: Required value"},
		{"Part", "conditions: [{type: A, status: 'Yes', reason: R, message: m, lastTransitionTime: '2026-11-26T12:00:00Z'}]", "Unsupported value"},
		{"Part", "conditions: [{type: A, status: 'True', reason: '', message: m, lastTransitionTime: '2026-11-26T12:00:00Z'}]", "reason"},
		{"Whole", "pod: {metadata: {name: a}, spec: {containers: [{" + container + "}]}}, horizontalpodautoscaler: {spec: {maxReplicas: 1, scaleTargetRef: {kind: A, name: b}}}", ""},
		{"Whole", "pods: [{spec: {}}]", "spec.pods[0].spec.containers: Required value"},
		{"Whole", "serviceaccount: {secrets: [{name: a}, {name: a}]}", "Duplicate value"},
		{"Whole", "rolebinding: {roleRef: {kind: Role, name: a, apiGroup: ''}}, lease: {spec: {renewTime: now}}", "spec.lease.spec.renewTime"},
		{"Foreign", "nodeName: a", "spec.containers: Required value"},
		{"Container", "'null': null, object: {apiVersion: v1, kind: Pod, other: 1}, anything: [1]", ""},
		{"Container", "'null': 1, object: {other: 1}", "spec.object.apiVersion: Required value"},
		{"Container", "'null': 1, objects: [{kind: Pod}]", "spec.objects[0].apiVersion: Required value"},
		{"Embedding", "apiVersion: v1, kind: Pod, name: a, depth: 3, named: {value: a}", ""},
		{"Embedding", "depth: 11, named: {value: a}", "spec.depth"},
	} {
		options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
		_, err := resource(c.kind).Create(t.Context(), shape(t, c.kind, c.spec), options)
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("%s {%s} is refused: %v", c.kind, c.spec, err)
		case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s {%s}: the error is %v, without %q", c.kind, c.spec, err, c.refusal)
		}
	}
	expectMerged(t, resource("Part"))
	for kind, want := range map[string]any{"Foreign": int64(-1), "Own": int64(-1), "Bounded": nil, "Embedding": nil} {
		spec := map[string]string{"Foreign": "containers: [{name: a}]", "Embedding": "named: {value: a}"}[kind]
		o, err := resource(kind).Create(t.Context(), shape(t, kind, spec), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "observedGeneration"); got != want {
			t.Errorf("a new %s has observedGeneration %v, want %v", kind, got, want)
		}
	}
}

// expectMerged applies parts of lists and maps by two managers. Neither takes anything from the other.
func expectMerged(t *testing.T, client dynamic.ResourceInterface) {
	var merged *unstructured.Unstructured
	for _, name := range []string{"a", "b"} {
		spec := strings.ReplaceAll("containers: [{name: X, image: X}], imagePullSecrets: [{name: X}], nodeSelector: {X: X}, "+
			"template: {metadata: {labels: {X: X}}, spec: {containers: [{name: X, image: X}], volumes: [{name: X, emptyDir: {}}]}}", "X", name)
		var err error
		if merged, err = client.Apply(t.Context(), "one", shape(t, "Part", spec), metav1.ApplyOptions{FieldManager: name}); err != nil {
			t.Fatal(err)
		}
	}
	spec := merged.Object["spec"].(map[string]any)
	pod := spec["template"].(map[string]any)["spec"].(map[string]any)
	for what, list := range map[string]any{
		"containers": spec["containers"], "imagePullSecrets": spec["imagePullSecrets"],
		"containers of the template": pod["containers"], "volumes of the template": pod["volumes"],
	} {
		if list, _ := list.([]any); len(list) != 2 {
			t.Errorf("%s: %v", what, list)
		}
	}
}
