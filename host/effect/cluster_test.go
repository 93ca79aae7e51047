package effect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/object"
)

func TestMain(m *testing.M) { devcluster.Main(m) }

// newCluster returns a world with a real API server, in a namespace of its own.
func newCluster(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := newWorld(t, devcluster.Shared(t).Config, change...)
	w.define()
	ns := w.create(namespace, `{"metadata":{"generateName":"effect-"}}`)
	w.ns = ns.Name
	w.until("the namespace has its service account, which Pods need", func() bool { return w.live(serviceAccount, "default") != nil })
	return w
}

// create posts an object; metadata.namespace is the world's.
func (w *world) create(r object.Resource, text string) *object.Object {
	w.Helper()
	raw, err := w.admin.rest.Post().AbsPath(r.Collection(w.ns)...).Body(withKind(w.T, r, text)).Do(w.Context()).Raw()
	if err != nil {
		w.Fatalf("create %s: %v: %s", r.Kind, err, raw)
	}
	o, err := object.Parse(raw, r.Kind)
	if err != nil {
		w.Fatal(err)
	}
	return o
}

func withKind(t *testing.T, r object.Resource, text string) []byte {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	o["apiVersion"], o["kind"] = r.Kind.APIVersion, r.Kind.Kind
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// live returns the object as it is on the server, nil if there is none.
func (w *world) live(r object.Resource, name string) *object.Object {
	w.Helper()
	o, err := w.admin.get(w.Context(), r, w.key(r, name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// changed returns the object as the first change since a version left it.
func (w *world) changed(r object.Resource, name, since string) *object.Object {
	w.Helper()
	stream, err := w.admin.rest.Get().AbsPath(r.Collection(w.ns)...).Param("watch", "true").
		Param("resourceVersion", since).Param("fieldSelector", "metadata.name="+name).Stream(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	defer stream.Close()
	var event struct{ Object json.RawMessage }
	if err := json.NewDecoder(stream).Decode(&event); err != nil {
		w.Fatal(err)
	}
	o, err := object.Parse(event.Object, r.Kind)
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// seen puts an object into the store as it is on the server.
func (w *world) seen(r object.Resource, name string) *object.Object {
	w.Helper()
	o := w.live(r, name)
	if o == nil {
		w.store.drop(r.Kind, w.key(r, name))
		return nil
	}
	w.store.put(o)
	return o
}

func (w *world) key(r object.Resource, name string) object.Key {
	if !r.Namespaced {
		return object.Key{Name: name}
	}
	return object.Key{Namespace: w.ns, Name: name}
}

// edit sends a merge patch as another field manager; sub is "" or "status".
func (w *world) edit(r object.Resource, name, sub, body string) *object.Object {
	w.Helper()
	o, err := w.admin.patch(w.Context(), r, w.key(r, name), patch{
		patchType: types.MergePatchType, manager: "another", status: sub == "status", body: []byte(body),
	})
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// remove deletes an object with another client.
func (w *world) remove(r object.Resource, name string) {
	w.Helper()
	err := w.admin.rest.Delete().AbsPath(r.Path(w.key(r, name))...).Body(&metav1.DeleteOptions{GracePeriodSeconds: new(int64)}).Do(w.Context()).Error()
	if err != nil {
		w.Fatal(err)
	}
}

// owner creates a Widget whose controller owns and writes the given kinds.
func (w *world) owner(owns, writes []object.Resource) Target {
	w.Helper()
	o := w.create(widget, `{"metadata":{"name":"w"},"spec":{"size":1}}`)
	w.store.put(o)
	return Target{Controller: controller(owns, writes), Object: o}
}

// intents performs the intents of a result, which must not fail.
func (w *world) intents(t Target, in *abi.Result) Report {
	w.Helper()
	report, failure := w.PerformIntents(w.Context(), t, in)
	if failure != nil {
		w.Fatalf("%+v", failure)
	}
	return report
}

// status writes a status, which must not fail, and updates the target. It
// reports whether anything was written.
func (w *world) status(t *Target, want Status) (*object.Object, bool) {
	w.Helper()
	report, failure := w.WriteStatus(w.Context(), *t, want)
	if failure != nil {
		w.Fatalf("%+v", failure)
	}
	if report.Primary != nil {
		t.Object = report.Primary
	}
	return t.Object, len(report.Writes) > 0
}

// expectSent checks the methods and paths of the requests since the last call.
func (w *world) expectSent(want ...string) []request {
	w.Helper()
	sent := w.wire.take()
	var got []string
	for _, r := range sent {
		got = append(got, r.String())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Fatalf("sent\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	return sent
}

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

// until waits for a condition of the API server that cannot be watched.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	await.Until(w.T, what, ok)
}

func field(o *object.Object, path ...string) string {
	value, _ := rawjson.Lookup(o.Raw, path...)
	return string(value)
}
