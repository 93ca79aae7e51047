package effect

import (
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
)

const conditionsSchema = `"observedGeneration":{"type":"integer","format":"int64"},"note":{"type":"string"},"count":{"type":"integer"},
"conditions":{"type":"array","items":{"type":"object","required":["type","status"],"properties":{
"type":{"type":"string"},"status":{"type":"string"},"reason":{"type":"string"},"message":{"type":"string"},
"lastTransitionTime":{"type":"string","format":"date-time"},"observedGeneration":{"type":"integer","format":"int64"}}},
"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"]}`

func definition(r object.Resource, status string) string {
	scope, sub := "Cluster", `{}`
	if r.Namespaced {
		scope = "Namespaced"
	}
	if r.Status {
		sub = `{"status":{}}`
	}
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.%[2]s"},
"spec":{"group":"%[2]s","scope":"%[3]s","names":{"plural":"%[1]s","kind":"%[4]s"},"versions":[{"name":"v1","served":true,"storage":true,
"subresources":%[5]s,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"size":{"type":"integer","maximum":100},"tags":{"type":"array","items":{"type":"string"}},
"parts":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}}}},
"status":{"type":"object","properties":{%[6]s}}}}}}]}}`,
		r.GVR.Resource, r.GVR.Group, scope, r.Kind.Kind, sub, status)
}

var defineOnce sync.Once

// define installs the tests' kinds and waits until they are served.
func (w *world) define() {
	w.Helper()
	defineOnce.Do(func() {
		for r, status := range map[object.Resource]string{
			widget: conditionsSchema, tree: conditionsSchema, plain: conditionsSchema,
			gadget: `"note":{"type":"string"}`,
		} {
			w.defineOne(r, definition(r, status))
		}
	})
}

func (w *world) defineOne(r object.Resource, text string) {
	w.Helper()
	raw, err := w.admin.rest.Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Body([]byte(text)).Do(w.Context()).Raw()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatalf("define %s: %v: %s", r.Kind, err, raw)
	}
	w.until("the API server serves "+r.Kind.String(), func() bool {
		_, err := w.admin.rest.Verb(http.MethodGet).AbsPath(r.Collection("default")...).Do(w.Context()).Raw()
		return err == nil
	})
}

// until polls a condition of the API server that cannot be watched.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	await.Until(w.T, what, ok)
}

func field(o *object.Object, path ...string) string {
	value, _ := rawjson.Lookup(o.Raw, path...)
	return string(value)
}
