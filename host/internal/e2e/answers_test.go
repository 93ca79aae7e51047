package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/thole-dev/thole/host/internal/await"
)

var (
	validatingConfigurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	mutatingConfigurations   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// gatesOf returns the objects of a plugin in a version.
func (r *reviews) gatesOf(plugin, version string) dynamic.ResourceInterface {
	return r.objects.Resource(gateOf(plugin).GroupResource().WithVersion(version)).Namespace(r.ns)
}

func gateObject(plugin, name, text string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gates.GroupVersion().String(), "kind": "Gate" + strings.ToUpper(plugin),
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"text": text},
	}}
}

// createNamed creates an object of gate-a.
func (r *reviews) createNamed(name, text string) {
	r.Helper()
	_, err := r.gatesOf("a", "v1").Create(r.Context(), gateObject("a", name, text), metav1.CreateOptions{FieldManager: "test"})
	must(r.T, err)
}

func (r *reviews) expectError(err error, parts ...string) {
	r.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			r.Errorf("got %v, want %q", err, part)
		}
	}
}

func (r *reviews) testAnswers() {
	_, err := r.create("a", "deny too long")
	r.expectError(err, `admission webhook "main.gate-a.thole.dev" denied the request`, "text: too long")
	if !apierrors.IsInvalid(err) {
		r.Errorf("%v is not Invalid", err)
	}
	r.createNamed("kept", "keep")
	err = r.gatesOf("a", "v1").Delete(r.Context(), "kept", metav1.DeleteOptions{})
	r.expectError(err, "it is to be kept")
	if !apierrors.IsForbidden(err) {
		r.Errorf("%v is not Forbidden", err)
	}
	_, err = r.gatesOf("a", "v1").Patch(r.Context(), "kept", types.MergePatchType, []byte(`{"spec":{"text":"deny updates"}}`), metav1.PatchOptions{})
	r.expectError(err, "text: updates")
	r.takeWarnings()
	_, err = r.create("a", "warn mind the gap")
	must(r.T, err)
	if got := r.takeWarnings(); got != "mind the gap" {
		r.Errorf("warnings %q", got)
	}
	_, err = r.create("a", "who")
	must(r.T, err)
	if got := r.takeWarnings(); !strings.Contains(got, "system:masters") {
		r.Errorf("warnings %q do not have the groups of the user", got)
	}
	_, err = r.objects.Resource(configMaps).Namespace(r.ns).Create(r.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "read"}, "data": map[string]any{"text": "this"},
	}}, metav1.CreateOptions{})
	must(r.T, err)
	await.Until(r.T, "the plugin reads the ConfigMap", func() bool {
		_, err := r.create("a", "read read")
		return err == nil && strings.Contains(r.takeWarnings(), "found this")
	})
}

func (r *reviews) testMutation() {
	o := gateObject("a", "mutated", "some text")
	o.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	o.Object["spec"].(map[string]any)["extra"] = map[string]any{"big": int64(9007199254740993), "deep": []any{map[string]any{"a/b~c": nil}}}
	got, err := r.gatesOf("a", "v1").Create(r.Context(), o, metav1.CreateOptions{})
	must(r.T, err)
	spec := got.Object["spec"].(map[string]any)
	if spec["size"] != int64(9) || got.GetLabels()["gate"] != "som" || fmt.Sprint(spec["extra"]) != "map[big:9007199254740993 deep:[map[a/b~c:<nil>]]]" ||
		got.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"] != "{}" {
		r.Errorf("got %v", got.Object)
	}
	got, err = r.gatesOf("a", "v1").Patch(r.Context(), "mutated", types.MergePatchType, []byte(`{"spec":{"size":0,"text":"plain"}}`), metav1.PatchOptions{})
	must(r.T, err)
	if size := got.Object["spec"].(map[string]any)["size"]; size != int64(5) {
		r.Errorf("size %v", size)
	}
}

// testReplicas asks the replicas, of which one leads.
func (r *reviews) testReplicas() {
	api, audited := r.clients["apiserver"], strings.Replace(r.admission(), "some text", "warn audited", 1)
	var states []string
	for _, replica := range []*reviewer{r.first, r.second, r.third} {
		answer := func(path, body string) string {
			c := dialReviews(r.T, replica.webhooks, api)
			defer c.Close()
			return postReview(r.T, c, path, body, len(body))
		}
		await.Until(r.T, "a replica mutates", func() bool { // one may still compile the plugin
			text := answer("/mutate/gate-a/main", r.admission())
			return strings.Contains(text, `"allowed":true`) && strings.Contains(text, `"patch":`)
		})
		if text := answer("/validate/gate-a/main", audited); !strings.Contains(text, `"auditAnnotations":{"seen":"audited"}`) {
			r.Errorf("the answer has no annotation for the audit log: %s", text)
		}
		states = append(states, replica.Plugin("gate-a").State)
	}
	if slices.Sort(states); !slices.Equal(states, []string{"running", "standby", "standby"}) {
		r.Errorf("the replicas are %q", states)
	}
}

func (r *reviews) testConversion() {
	for i := range 20 {
		r.createNamed(fmt.Sprintf("stored-%02d", i), "plain")
	}
	await.Until(r.T, "objects are converted", func() bool {
		list, err := r.gatesOf("a", "v2").List(r.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		n := 0
		for _, o := range list.Items {
			if strings.HasPrefix(o.GetName(), "stored-") && field(&o, "spec", "message") == "plain" && o.GetAPIVersion() == gatesV2.GroupVersion().String() {
				n++
			}
		}
		return n == 20
	})
	o := gateObject("a", "by-v2", "")
	o.SetAPIVersion(gatesV2.GroupVersion().String())
	o.Object["spec"] = map[string]any{"message": "byv2"}
	made, err := r.gatesOf("a", "v2").Create(r.Context(), o, metav1.CreateOptions{})
	must(r.T, err)
	stored, err := r.gatesOf("a", "v1").Get(r.Context(), "by-v2", metav1.GetOptions{})
	must(r.T, err)
	if field(stored, "spec", "text") != "byv2" || stored.GetUID() != made.GetUID() || stored.GetLabels()["gate"] != "byv" {
		r.Errorf("stored %v", stored.Object)
	}
	r.createNamed("stuck", "stuck")
	_, err = r.gatesOf("a", "v2").Get(r.Context(), "stuck", metav1.GetOptions{})
	r.expectError(err, `plugin "gate-a" controller "main": convert failed`, r.ns+"/stuck", "the text says so")
	must(r.T, r.gatesOf("a", "v1").Delete(r.Context(), "stuck", metav1.DeleteOptions{}))
}

func (r *reviews) testSpinning() {
	busy := func() (n float64) {
		for _, replica := range []*reviewer{r.first, r.second} {
			n += replica.Metrics().Sum("thole_sandbox_instances", "plugin", "gate-a", "state", "busy")
		}
		return n
	}
	var spinning sync.WaitGroup
	defer spinning.Wait()
	for range 4 {
		spinning.Go(func() {
			if _, err := r.create("a", "spin"); err == nil || !strings.Contains(err.Error(), "timeout") && !strings.Contains(err.Error(), "busy") {
				r.Errorf("a spinning validator allowed the request: %v", err)
			}
		})
	}
	await.Until(r.T, "they spin", func() bool { return busy() > 0 })
	r.takeWarnings()
	var took []time.Duration
	for range 30 {
		began := time.Now()
		_, err := r.create("b", "warn fine")
		must(r.T, err)
		if took = append(took, time.Since(began)); len(took) == 1 && busy() == 0 {
			r.Error("a review of another plugin has waited for those that spin")
		}
	}
	slices.Sort(took)
	r.Logf("beside four spinning reviews: median %s, slowest %s", took[len(took)/2], took[len(took)-1])
	if strings.Contains(r.takeWarnings(), "failed") {
		r.Error("a review of another plugin has failed")
	}
}

// expectRepaired deletes a configuration, and waits until it is back.
func (r *reviews) expectRepaired() {
	r.Helper()
	configurations := r.objects.Resource(validatingConfigurations)
	before, err := configurations.Get(r.Context(), "thole-gate-a", metav1.GetOptions{})
	must(r.T, err)
	must(r.T, configurations.Delete(r.Context(), "thole-gate-a", metav1.DeleteOptions{}))
	await.Until(r.T, "the deleted configuration is back", func() bool {
		now, err := configurations.Get(r.Context(), "thole-gate-a", metav1.GetOptions{})
		return err == nil && now.GetUID() != before.GetUID()
	})
}

// dropConversion is a patch of a CustomResourceDefinition: nobody is asked for its versions any more.
const dropConversion = `"conversion":{"strategy":"None","webhook":null}`

// patchGate changes the CustomResourceDefinition of gate-a.
func (r *reviews) patchGate(patchType types.PatchType, text string) {
	r.Helper()
	_, err := r.objects.Resource(crds).Patch(r.Context(), gates.GroupResource().String(), patchType, []byte(text), metav1.PatchOptions{})
	must(r.T, err)
}

// strategy returns how the CustomResourceDefinition of gate-a is converted.
func (r *reviews) strategy() string {
	crd, err := r.objects.Resource(crds).Get(r.Context(), gates.GroupResource().String(), metav1.GetOptions{})
	must(r.T, err)
	return field(crd, "spec", "conversion", "strategy")
}

// hasProblem reports whether a replica shows a problem of a plugin with all parts.
func (r *reviews) hasProblem(plugin string, parts ...string) bool {
	return slices.ContainsFunc([]*reviewer{r.first, r.second, r.third}, func(replica *reviewer) bool {
		problem := replica.Plugin("gate-" + plugin).Problems["webhooks"]
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(problem, part) })
	})
}

func (r *reviews) testRepair() {
	r.expectRepaired()
	_, err := r.objects.Resource(mutatingConfigurations).Patch(r.Context(), "thole-gate-a", types.JSONPatchType,
		[]byte(`[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`), metav1.PatchOptions{})
	must(r.T, err)
	await.Until(r.T, "the changed configuration is repaired", func() bool {
		now, err := r.objects.Resource(mutatingConfigurations).Get(r.Context(), "thole-gate-a", metav1.GetOptions{})
		return err == nil && fmt.Sprint(now.Object["webhooks"].([]any)[0].(map[string]any)["failurePolicy"]) == "Fail"
	})
	r.patchGate(types.MergePatchType, `{"spec":{`+dropConversion+`}}`)
	await.Until(r.T, "the conversion is repaired", func() bool { return r.strategy() == "Webhook" })
	r.patchGate(types.MergePatchType, `{"metadata":{"labels":{"thole.dev/host":"other"}},"spec":{`+dropConversion+`}}`)
	await.Until(r.T, "the conversion of another host is shown", func() bool {
		return r.hasProblem("a", "CustomResourceDefinition gateas.test.thole.dev", "another host")
	})
	if got := r.strategy(); got != "None" {
		r.Errorf("the conversion of another host is now %s", got)
	}
	r.patchGate(types.MergePatchType, `{"metadata":{"labels":{"thole.dev/host":null}}}`)
	await.Until(r.T, "the conversion of no host is taken over", func() bool { return r.strategy() == "Webhook" })
	r.awaitAsked()
}

func (r *reviews) testMatchConditions() {
	r.setPolicy("b", ", matchConditions: [{name: wrong, expression: object.}]")
	await.Until(r.T, "the refusal is shown", func() bool {
		return r.hasProblem("b", "ValidatingWebhookConfiguration thole-gate-b", "matchConditions")
	})
	r.setPolicy("b", ", matchConditions: [{name: text, expression: \"object == null || object.spec.text != 'deny passed over'\"}]")
	await.Until(r.T, "the condition holds", func() bool {
		_, err := r.create("b", "deny passed over")
		return err == nil
	})
	r.expectRefused("b", "deny others", "text: others")
	r.setPolicy("b", "")
}

// testStart starts a replica while no other runs, and an object is stored in another version than the plugin follows.
func (r *reviews) testStart() {
	store := func(v1, v2 bool) {
		r.patchGate(types.JSONPatchType, fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/storage","value":%t},{"op":"replace","path":"/spec/versions/1/storage","value":%t}]`, v1, v2))
	}
	store(false, true)
	await.Until(r.T, "objects are stored in v2", func() bool {
		// Of a dry run nothing but the conversion to the version to store can fail: no watch gets the object.
		_, err := r.gatesOf("a", "v1").Create(r.Context(), gateObject("a", "not-stored", "stuck"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "convert failed")
	})
	r.createNamed("in-v2", "plain")
	r.second.stop()
	r.third.stop()
	// The API server opens its storage anew, as when it restarts, and has nothing converted.
	r.patchGate(types.JSONPatchType, `[{"op":"add","path":"/spec/versions/0/additionalPrinterColumns","value":[{"name":"T","type":"string","jsonPath":".spec.text"}]}]`)
	await.Until(r.T, "nobody converts", func() bool {
		_, err := r.gatesOf("a", "v1").Get(r.Context(), "in-v2", metav1.GetOptions{})
		return err != nil
	})
	r.fourth = r.start("")
	r.service.add(r.fourth)
	r.fourth.awaitRunning("gate-a", 1)
	for _, waits := range r.fourth.Log.Events("PluginWaiting") {
		if reason := waits.String("reason"); !strings.Contains(reason, "the Leases in "+r.ns+" are being read") {
			r.Errorf("the host was not ready to convert before its plugin had failed to start: %s", reason)
		}
	}
	got, err := r.gatesOf("a", "v1").Get(r.Context(), "in-v2", metav1.GetOptions{})
	must(r.T, err)
	if field(got, "spec", "text") != "plain" {
		r.Errorf("got %v", got)
	}
	store(true, false)
}

func (r *reviews) testRemoved() {
	r.expectRepaired()
	for _, plugin := range []string{"a", "b"} {
		must(r.T, os.Remove(filepath.Join(r.path, "gate-"+plugin+".wasm")))
		await.Until(r.T, "the API server does not ask gate-"+plugin, func() bool {
			_, err := r.objects.Resource(mutatingConfigurations).Get(r.Context(), "thole-gate-"+plugin, metav1.GetOptions{})
			_, other := r.objects.Resource(validatingConfigurations).Get(r.Context(), "thole-gate-"+plugin, metav1.GetOptions{})
			return apierrors.IsNotFound(err) && apierrors.IsNotFound(other)
		})
	}
	await.Until(r.T, "what a plugin has denied is allowed", func() bool {
		_, err := r.create("a", "deny nobody")
		return err == nil
	})
	// What is stored must not be taken for another version of it: that fails loudly.
	_, err := r.gatesOf("a", "v2").Get(r.Context(), "stored-00", metav1.GetOptions{})
	r.expectError(err, `plugin \"gate-a\" controller \"main\": convert failed`, "not in the plugin directory")
}
