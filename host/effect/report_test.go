package effect

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestDryRunChecksEverythingAndStoresNothing(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.DryRun = true })
	target := w.owner(list(pod), list(configMap))
	doomed := w.create(configMap, `{"metadata":{"name":"doomed"},"data":{"a":"1"}}`)
	w.store.put(doomed)
	before := w.live(widget, "w")

	report, failure := w.EnsureFinalizer(t.Context(), target)
	if failure != nil || len(report.Writes) != 0 || report.Primary != nil {
		t.Errorf("finalizer: reported %+v, %v", report, failure)
	}
	in := apply(podObject, "web:1")
	in.Patch = []byte(`{"metadata":{"labels":{"tried":"yes"}}}`)
	in.Delete = []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "doomed"}}}
	in.Events = []abi.Event{{Type: abi.EventNormal, Reason: "Tried", Message: "m"}}
	report, failure = w.PerformIntents(t.Context(), target, in)
	if failure != nil || len(report.Writes) != 0 {
		t.Errorf("intents: reported %+v, %v", report.Writes, failure)
	}
	if _, wrote := w.status(&target, ready("True", 1)); wrote {
		t.Error("wrote a status")
	}

	if after := w.live(widget, "w"); string(after.Raw) != string(before.Raw) {
		t.Errorf("the primary was %s and is %s", before.Raw, after.Raw)
	}
	if w.live(pod, "web") != nil {
		t.Error("the child was created")
	}
	if o := w.live(configMap, "doomed"); o == nil || o.Deleting() {
		t.Error("the object was deleted")
	}
	if len(w.recorder.events) != 0 {
		t.Errorf("emitted %v", w.recorder.events)
	}
	for _, want := range []struct{ field, part string }{
		{"difference", `"finalizers":["demo.thole.dev/main"]`},
		{"difference", `"labels":{"tried":"yes"}`},
		{"content", `"kind":"Pod"`}, // an object that would be created
		{"object", doomed.Ref().String()},
		{"reason", "Tried"},
		{"difference", `"observedGeneration":1`},
	} {
		if line := w.logs.Next(t); line.Level != hclog.Info || !strings.Contains(fmt.Sprint(line.Fields[want.field]), want.part) {
			t.Errorf("logged %v, want %s in the field %q", line, want.part, want.field)
		}
	}
	w.logs.ExpectNone(t)

	// What the API server refuses, it refuses in a dry run too.
	_, failure = w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"size":"not a number"}}`)})
	if failure == nil {
		t.Error("an object that the schema refuses was accepted")
	}
}

func TestDryRunLogsNoValuesOfSecrets(t *testing.T) {
	got := string(redactSecret(secret.Kind, []byte(`{"metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="},"stringData":{"token":"x"}}`)))
	if want := `{"data":{"password":"hidden"},"metadata":{"name":"s"},"stringData":{"token":"hidden"}}`; got != want {
		t.Errorf("got %s", got)
	}
	if got := string(redactSecret(secret.Kind, []byte(`{"data":{"removed":null},"stringData":null}`))); got != `{"data":{"removed":null},"stringData":null}` {
		t.Errorf("got %s", got)
	}
	if got := string(redactSecret(secret.Kind, []byte(`{"data":"c2VjcmV0"}`))); got != `{"data":"hidden"}` {
		t.Errorf("got %s", got)
	}
	plain := `{"data":{"a":"b"}}`
	if got := string(redactSecret(configMap.Kind, []byte(plain))); got != plain {
		t.Errorf("got %s", got)
	}
}

// The host keeps reports and failures until the next run. They must not keep
// the result or a reply in memory.
func TestReportsAndFailuresHaveTheirOwnStrings(t *testing.T) {
	text := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"conf","namespace":"default"}}`)
	w, target := newFake(t, respond(404, "application/json", `{"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound"}`))
	_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Apply: []abi.Apply{{Object: text}}})
	clear(text)
	if want := (abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "conf"}); failure == nil || failure.Ref != want {
		t.Errorf("the failure is about %+q", failure.Ref)
	}

	name := []byte("conf")
	ref := abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: unsafe.String(&name[0], len(name))}
	config := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"conf","namespace":"default","uid":"u7","resourceVersion":"9","ownerReferences":[{"uid":"u1","controller":true}]}}`)
	w, target = newFake(t, respond(200, "application/json", string(config.Raw)))
	w.store.put(config)
	report := w.intents(target, &abi.Result{Delete: []abi.Delete{{Ref: ref}}})
	clear(name)
	clear(config.Raw)
	want := Write{Verb: "delete", Kind: configMap.Kind, Key: object.Key{Namespace: "default", Name: "conf"}, UID: "u7", ResourceVersion: "9"}
	if len(report.Writes) != 1 || report.Writes[0] != want {
		t.Errorf("wrote %+v", report.Writes)
	}
}

// messages keeps messages without copying them, as client-go's recorder does.
type messages []string

func (m *messages) Event(_ runtime.Object, _, _, message string) { *m = append(*m, message) }

func TestEventsHaveTheirOwnStrings(t *testing.T) {
	var emitted messages
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {}, func(c *Config) { c.Recorder = &emitted })
	message := []byte("half way")
	w.intents(target, &abi.Result{Events: []abi.Event{{Type: "Normal", Reason: "A", Message: unsafe.String(&message[0], len(message))}}})
	clear(message)
	if len(emitted) != 1 || emitted[0] != "half way" {
		t.Errorf("emitted %+q", emitted)
	}
}
