package effect

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

var (
	job         = kind("batch/v1", "Job", "jobs", true, true)
	statefulSet = kind("apps/v1", "StatefulSet", "statefulsets", true, true)
	claim       = kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, true)
	fixed       = kind("test.thole.dev/v1", "Fixed", "fixeds", true, false) // its size must not decrease
)

const fixedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"fixeds.test.thole.dev"},
"spec":{"group":"test.thole.dev","scope":"Namespaced","names":{"plural":"fixeds","kind":"Fixed"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer","maximum":100,
"x-kubernetes-validations":[{"rule":"self >= oldSelf","message":"no way back"}]}}}}}}}]}}`

// replacingAll makes the applies of a result replace what cannot be changed.
func replacingAll(in *abi.Result) *abi.Result {
	for i := range in.Apply {
		in.Apply[i].Replace = true
	}
	return in
}

// named returns an object c of a kind with these members.
func named(r object.Resource, members string) *abi.Result {
	return replacingAll(apply(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"c"},%s}`, r.Kind.APIVersion, r.Kind.Kind, members))
}

// immutable returns a ConfigMap that cannot be changed.
func immutable(value string) *abi.Result {
	return named(configMap, fmt.Sprintf(`"immutable":true,"data":{"k":%q}`, value))
}

const podTemplate = `{"metadata":{"labels":{"a":%q}},"spec":{"restartPolicy":%q,"containers":[{"name":"c","image":%q}]}}`

func TestAnObjectThatCannotBeChangedIsReplaced(t *testing.T) {
	template := func(label, policy, image string) string { return fmt.Sprintf(podTemplate, label, policy, image) }
	selected := func(label string) string {
		return `"spec":{"selector":{"matchLabels":{"a":"` + label + `"}},"template":` + template(label, "Always", "x") + `}`
	}
	for name, c := range map[string]struct {
		kind          object.Resource
		before, after string
		fields        string // that the Event names
	}{
		"template of a Job":             {job, `"spec":{"template":` + template("1", "Never", "x") + `}`, `"spec":{"template":` + template("1", "Never", "y") + `}`, "spec.template"},
		"selector of a Deployment":      {deployment, selected("1"), selected("2"), "spec.selector"},
		"selector of a StatefulSet":     {statefulSet, selected("1"), selected("2"), "spec"},
		"address of a Service":          {service, `"spec":{"ports":[{"port":80}]}`, `"spec":{"clusterIP":"None","ports":[{"port":80}]}`, "spec.clusterIPs[0]"},
		"access modes of a claim":       {claim, `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`, `"spec":{"accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"1Gi"}}}`, "spec"},
		"type of a Secret":              {secret, `"type":"example.com/a"`, `"type":"example.com/b"`, "type"},
		"immutable Secret":              {secret, `"immutable":true,"stringData":{"k":"hidden1"}`, `"immutable":true,"stringData":{"k":"hidden2"}`, "data"},
		"immutable ConfigMap":           {configMap, `"immutable":true,"data":{"k":"1"}`, `"immutable":true,"data":{"k":"2"}`, "data"},
		"role of a RoleBinding":         {roleBinding, `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a"}`, `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"b"}`, "roleRef"},
		"rule of a custom resource":     {fixed, `"spec":{"size":3}`, `"spec":{"size":2}`, "spec.size"},
		"restart policy of a plain Pod": {pod, `"spec":{"restartPolicy":"Always","containers":[{"name":"c","image":"x"}]}`, `"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}`, "spec"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			w.defineOne(fixed, fixedDefinition)
			target := w.owner(list(c.kind), nil)
			w.intents(target, named(c.kind, c.before))
			old := w.seen(c.kind, "c")
			if field(old, "metadata", "finalizers") != "" { // pvc-protection; see TestTheOldObjectIsWaitedFor
				old = w.edit(c.kind, "c", "", `{"metadata":{"finalizers":null}}`)
				w.store.put(old)
			}

			report, failure := w.PerformIntents(t.Context(), target, named(c.kind, c.after))
			for failure != nil && failure.Conflict { // the controller of Deployments has written its status
				w.seen(c.kind, "c")
				report, failure = w.PerformIntents(t.Context(), target, named(c.kind, c.after))
			}
			if failure != nil {
				t.Fatalf("%+v", failure)
			}

			got := w.seen(c.kind, "c")
			if owner := got.Controller(); got.UID == old.UID || owner == nil || owner.UID != target.Object.UID {
				t.Errorf("got %s", got.Raw)
			}
			if len(report.Writes) != 2 || !report.Writes[0].Gone() || report.Writes[0].UID != old.UID || report.Writes[1].UID != got.UID {
				t.Errorf("reported %+v", report.Writes)
			}
			want := fmt.Sprintf("Normal Replaced %s %s/c is deleted to be created anew, because the API server refuses to change it: %s", c.kind.Kind, w.ns, c.fields)
			if events := w.recorder.events; len(events) != 1 || events[0] != want {
				t.Errorf("emitted %q, want %q", events, want)
			}
			w.intents(target, named(c.kind, c.after))
			if w.live(c.kind, "c").UID != got.UID {
				t.Error("it is replaced again")
			}
		})
	}
}

// The value may be wrong as such, or beside an immutable field.
func TestAnInvalidValueReplacesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		kind          object.Resource
		before, after string
		message       string
	}{
		"invalid":               {fixed, `"spec":{"size":3}`, `"spec":{"size":101}`, "should be less than or equal to 100"},
		"invalid and immutable": {secret, `"immutable":true,"stringData":{"k":"1"}`, `"immutable":true,"stringData":{"k k":"2"}`, "not replaced, because it could not be created anew: Secret \"c\" is invalid: data[k k]"},
		"another object has what it needs": { // the address is one that no Service is given by itself
			service, `"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30081}]}`,
			`"spec":{"type":"NodePort","clusterIP":"10.0.0.8","ports":[{"port":80,"nodePort":30081}]}`, "not replaced, because it could not be created anew: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			w.defineOne(fixed, fixedDefinition)
			target := w.owner(list(c.kind), nil)
			w.intents(target, named(c.kind, c.before))
			old := w.seen(c.kind, "c")
			w.wire.take()
			_, failure := w.PerformIntents(t.Context(), target, named(c.kind, c.after))
			if failure == nil || failure.Reason != "Invalid" || failure.Class != abi.ClassRetry || !strings.Contains(failure.Message, c.message) ||
				strings.Contains(failure.Message, "not replaced") != strings.HasPrefix(c.message, "not replaced") {
				t.Errorf("failed with %+v", failure)
			}
			if got := w.wire.methods(); got != "PATCH GET POST" || w.live(c.kind, "c").ResourceVersion != old.ResourceVersion || len(w.recorder.events) != 0 {
				t.Errorf("sent %s, emitted %q", got, w.recorder.events)
			}
			w.remove(c.kind, "c") // its port is free again
		})
	}
}

// Without replace, the refusal is what it was before.
func TestWithoutReplaceNothingIsReplaced(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, immutable("1"))
	w.seen(configMap, "c")
	w.wire.take()
	in := immutable("2")
	in.Apply[0].Replace = false
	if _, failure := w.PerformIntents(t.Context(), target, in); failure == nil || failure.Reason != "Invalid" {
		t.Errorf("failed with %+v", failure)
	}
	if got := w.wire.methods(); got != "PATCH" {
		t.Errorf("sent %s", got)
	}
}

// While something holds the old object, runs end as waiting, without a request if the cache
// shows it. That the old one goes starts the next run.
func TestTheOldObjectIsWaitedFor(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, immutable("1"))
	old := w.edit(configMap, "c", "", `{"metadata":{"finalizers":["other.dev/x"]}}`)
	w.seen(configMap, "c")
	expect := func(requests string) {
		t.Helper()
		w.wire.take()
		_, failure := w.PerformIntents(t.Context(), target, immutable("2"))
		if failure == nil || failure.Class != abi.ClassWaiting || failure.Reason != "Replacing" || failure.Conflict || !strings.Contains(failure.Message, "other.dev/x") {
			t.Errorf("failed with %+v", failure)
		}
		if got := w.wire.methods(); got != requests {
			t.Errorf("sent %s, want %s", got, requests)
		}
	}
	expect("PATCH GET POST DELETE")
	expect("PATCH GET") // the cache is behind
	w.seen(configMap, "c")
	expect("")
	w.start() // as after a crash
	expect("")
	w.edit(configMap, "c", "", `{"metadata":{"finalizers":null}}`)
	w.seen(configMap, "c")
	w.intents(target, immutable("2"))
	if got := w.live(configMap, "c"); got.UID == old.UID || field(got, "data") != `{"k":"2"}` {
		t.Errorf("got %s", got.Raw)
	}
	if len(w.recorder.events) != 1 {
		t.Errorf("emitted %q", w.recorder.events)
	}
}

// Others change the object after the cache has seen it.
func TestWhatIsNotThePrimarysIsNotReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		meta    string // a merge patch
		message string
	}{
		"nobody controls it now": {`{"metadata":{"ownerReferences":null}}`, "the primary does not control it"},
		"another one controls it": {
			`{"metadata":{"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"other","uid":"UID","controller":true}]}}`,
			"the primary does not control it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(configMap), nil)
			other := w.create(widget, `{"metadata":{"name":"other"}}`)
			w.intents(target, immutable("1"))
			w.seen(configMap, "c")
			changed := w.edit(configMap, "c", "", strings.ReplaceAll(c.meta, "UID", string(other.UID)))
			_, failure := w.PerformIntents(t.Context(), target, immutable("2"))
			if failure == nil || failure.Reason != "Invalid" || !strings.Contains(failure.Message, c.message) {
				t.Errorf("failed with %+v", failure)
			}
			if got := w.live(configMap, "c"); got == nil || got.ResourceVersion != changed.ResourceVersion {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestAnObjectThatIsAdoptedIsNotReplaced(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.create(configMap, `{"metadata":{"name":"c"},"immutable":true,"data":{"k":"theirs"}}`)
	w.seen(configMap, "c")
	_, failure := w.PerformIntents(t.Context(), target, adopt(named(configMap, `"data":{"other":"1"}`)))
	if failure == nil || !strings.Contains(failure.Message, "the primary does not control it") || w.live(configMap, "c") == nil {
		t.Errorf("failed with %+v", failure)
	}
}

// Somebody changes the object, or replaces it, before it is deleted.
func TestOnlyTheObjectThatWasReadIsReplaced(t *testing.T) {
	for name, change := range map[string]func(*world){
		"changed": func(w *world) { w.edit(configMap, "c", "", `{"metadata":{"labels":{"theirs":"1"}}}`) },
		"replaced": func(w *world) {
			w.remove(configMap, "c")
			w.create(configMap, `{"metadata":{"name":"c"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(configMap), nil)
			w.intents(target, immutable("1"))
			w.seen(configMap, "c")
			var hook func(request)
			hook = func(r request) {
				if r.method == http.MethodDelete {
					change(w)
				} else {
					w.wire.before = hook
				}
			}
			w.wire.before = hook
			_, failure := w.PerformIntents(t.Context(), target, immutable("2"))
			if failure == nil || !failure.Conflict || len(w.recorder.events) != 0 {
				t.Errorf("failed with %+v, want a conflict; emitted %q", failure, w.recorder.events)
			}
			if got := w.live(configMap, "c"); got == nil || got.Deleting() {
				t.Errorf("got %v", got)
			}
		})
	}
}

// The cache still has the object of the name that was there before.
func TestAnotherObjectOfTheNameIsNoReasonToReplace(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, immutable("1"))
	w.seen(configMap, "c")
	w.remove(configMap, "c")
	theirs := w.create(configMap, controlled(target.Object))
	_, failure := w.PerformIntents(t.Context(), target, immutable("2"))
	if failure == nil || !failure.Conflict {
		t.Errorf("failed with %+v, want a conflict", failure)
	}
	if got := w.live(configMap, "c"); got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("got %s", got.Raw)
	}
}

// Replacing it once more would not make it what the intent wants: what has changed it since,
// such as a webhook, would do so again.
func TestWhatTheSameIntentHasMadeIsNotReplaced(t *testing.T) {
	w := newCluster(t)
	annotated := w.owner(list(configMap), nil)
	in := named(configMap, `"data":{"k":"1"}`)
	for _, target := range []Target{annotated, remembering(annotated)} {
		w.intents(target, in)
		w.edit(configMap, "c", "", `{"data":{"k":"theirs"}}`)
		w.edit(configMap, "c", "", `{"immutable":true}`)
		old := w.seen(configMap, "c")
		_, failure := w.PerformIntents(t.Context(), target, in)
		if failure == nil || !strings.Contains(failure.Message, "made by the same intent") || w.live(configMap, "c").UID != old.UID {
			t.Errorf("failed with %+v", failure)
		}
		w.remove(configMap, "c")
		w.seen(configMap, "c")
	}
}

// The cache has the metadata alone, and the label of the plugin is on the new object, too.
func TestAManagedObjectOfWhichThereIsOnlyMetadataIsReplaced(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.Managed = true })
	w.store.metadata = map[abi.Kind]bool{configMap.Kind: true}
	target := w.owner(list(configMap), nil)
	w.intents(target, immutable("1"))
	old := w.seen(configMap, "c")
	w.intents(target, immutable("2"))
	if got := w.live(configMap, "c"); got.UID == old.UID || field(got, "data") != `{"k":"2"}` || got.Labels[abi.LabelManagedBy] != w.Plugin {
		t.Errorf("got %s", got.Raw)
	}
}
