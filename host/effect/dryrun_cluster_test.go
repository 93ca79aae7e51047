package effect

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestADryRunChecksEverythingAndStoresNothing(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.DryRun = true })
	target := w.owner(list(pod), list(configMap))
	doomed := w.create(configMap, `{"metadata":{"name":"doomed"},"data":{"a":"1"}}`)
	w.store.put(doomed)
	before := w.live(widget, "w")

	_, wrote, failure := w.EnsureFinalizer(t.Context(), target)
	if failure != nil || wrote {
		t.Errorf("finalizer: wrote %v, %v", wrote, failure)
	}
	in := apply(podObject, "web:1")
	in.Patch = []byte(`{"metadata":{"labels":{"tried":"yes"}}}`)
	in.Delete = []abi.Ref{{APIVersion: "v1", Kind: "ConfigMap", Name: "doomed"}}
	in.Events = []abi.Event{{Type: abi.EventNormal, Reason: "Tried", Message: "m"}}
	report, failure := w.Intents(t.Context(), target, in)
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
	for _, want := range []string{
		`"finalizers":["demo.thole.dev/main"]`,
		`would create: object="v1 Pod `, `"labels":{"tried":"yes"}`, "would delete", "would emit event", `"observedGeneration":1`,
	} {
		if !strings.Contains(strings.ReplaceAll(w.log.String(), `\"`, `"`), want) {
			t.Errorf("the log does not tell %s:\n%s", want, w.log.String())
		}
	}

	// What the API server refuses, it refuses in a dry run, too.
	_, failure = w.Intents(t.Context(), target, Intents{Patch: []byte(`{"spec":{"size":"not a number"}}`)})
	if failure == nil {
		t.Error("an object that the schema refuses passes")
	}
}

func TestADryRunKeepsSecrets(t *testing.T) {
	got := string(secretive(secret.Kind, []byte(`{"metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="},"stringData":{"token":"x"}}`)))
	if want := `{"metadata":{"name":"s"},"data":{"password":"hidden"},"stringData":{"token":"hidden"}}`; got != want {
		t.Errorf("got %s", got)
	}
	plain := `{"data":{"a":"b"}}`
	if got := string(secretive(configMap.Kind, []byte(plain))); got != plain {
		t.Errorf("got %s", got)
	}
}
