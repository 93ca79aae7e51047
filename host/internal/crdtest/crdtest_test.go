// Package crdtest passes what `thole generate crd` writes to an API server.
package crdtest

import (
	"bytes"
	"os"
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
)

const root = "../../../"

// markers is the plugin with every marker and kind of type that has a schema.
const markers = root + "cmd/thole/internal/crdgen/testdata/accepted/markers/crd.yaml"

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
	install(t, client)
	t.Run("objects", func(t *testing.T) { expectObjects(t, client.Resource(gadgets)) })
	t.Run("stored", func(t *testing.T) { expectStored(t, client.Resource(gadgets)) })
}

// files returns the generated files of the examples and of the tests of the generator.
func files(t *testing.T) []string {
	var found []string
	for _, pattern := range []string{"plugins/*/crd.yaml", "cmd/thole/internal/crdgen/testdata/accepted/*/crd.yaml"} {
		paths, err := filepath.Glob(root + pattern)
		if err != nil || len(paths) < 2 {
			t.Fatalf("%s: found %q, error %v", pattern, paths, err)
		}
		found = append(found, paths...)
	}
	return found
}

func definitions(t *testing.T, path string) (found []*unstructured.Unstructured) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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

func install(t *testing.T, client dynamic.Interface) {
	for _, o := range definitions(t, markers) {
		if _, err := client.Resource(crds).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "gadgets are served", func() bool {
		_, err := client.Resource(gadgets).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
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
