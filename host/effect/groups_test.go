package effect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
)

var resourceQuota = kind("v1", "ResourceQuota", "resourcequotas", true, true)

// forbidPods makes the API server refuse every Pod.
func (w *world) forbidPods() {
	w.Helper()
	w.create(resourceQuota, `{"metadata":{"name":"none"},"spec":{"hard":{"pods":"0"}}}`)
	w.edit(resourceQuota, "none", "status", `{"status":{"hard":{"pods":"0"},"used":{"pods":"0"}}}`)
	w.until("the quota refuses Pods", func() bool {
		raw, err := w.admin.rest.Post().AbsPath(pod.Collection(w.ns)...).Param("dryRun", "All").
			Body(withKind(w.T, pod, fmt.Sprintf(podObject, "web:1"))).Do(w.Context()).Raw()
		return err != nil && strings.Contains(string(raw), "exceeded quota")
	})
}

// asked is an apply or a delete of a test.
type asked struct{ group, verb, name string }

// result makes the result with these intents, of ConfigMaps and, for names that begin with pod-, Pods.
func result(all ...asked) *abi.Result {
	r := &abi.Result{}
	for _, i := range all {
		switch {
		case i.verb == "delete":
			r.Delete = append(r.Delete, abi.Delete{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: i.name}, Group: i.group})
		case strings.HasPrefix(i.name, "pod-"):
			r.Apply = append(r.Apply, abi.Apply{Object: fmt.Appendf(nil, strings.Replace(podObject, `"web"`, `"`+i.name+`"`, 1), "web:1"), Group: i.group})
		default:
			r.Apply = append(r.Apply, abi.Apply{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"k":"v"}}`, i.name), Group: i.group})
		}
		r.Events = append(r.Events, abi.Event{Type: abi.EventNormal, Reason: "Done", Message: i.verb + " " + i.name, Group: i.group})
	}
	return r
}

// done lists the writes of a report.
func done(r Report) string {
	var all []string
	for _, w := range r.Writes {
		all = append(all, w.Verb+" "+w.Key.Name)
	}
	return strings.Join(all, ", ")
}

// groupFailures lists how groups have failed.
func groupFailures(r Report) string {
	var all []string
	for _, f := range r.Groups {
		all = append(all, f.Group+": "+f.Verb+" "+f.Ref.Name+" "+string(f.Class)+" "+f.Reason)
	}
	return strings.Join(all, ", ")
}

func TestAQuotaThatRefusesPodsBlocksNothingElse(t *testing.T) {
	w := newCluster(t)
	w.forbidPods()
	target := w.owner(list(pod, configMap), nil)
	for _, name := range []string{"old-of-pods", "old-of-maps", "old"} {
		w.intents(target, result(asked{"", "apply", name}))
		w.seen(configMap, name)
	}
	in := result(
		asked{"pods", "apply", "before"}, asked{"pods", "apply", "pod-1"}, asked{"pods", "apply", "pod-2"}, asked{"pods", "apply", "after"},
		asked{"maps", "apply", "of-maps"}, asked{"", "apply", "of-none"},
		asked{"pods", "delete", "old-of-pods"}, asked{"maps", "delete", "old-of-maps"}, asked{"", "delete", "old"},
	)
	w.recorder.events = nil
	report, failure := w.PerformIntents(t.Context(), target, in)
	if failure != nil {
		t.Fatalf("the run ends with %+v", failure)
	}
	if got, want := done(report), "apply before, apply of-maps, apply of-none, delete old-of-maps, delete old"; got != want {
		t.Errorf("done: %s, want %s", got, want)
	}
	if got := groupFailures(report); got != "pods: apply pod-1 retry Forbidden" {
		t.Errorf("failed: %s", got)
	}
	want := []string{"Normal Done apply of-maps", "Normal Done apply of-none", "Normal Done delete old-of-maps", "Normal Done delete old"}
	if !slices.Equal(w.recorder.events, want) {
		t.Errorf("emitted: %q, want %q", w.recorder.events, want)
	}

	w.remove(resourceQuota, "none")
	w.until("the quota is gone", func() bool {
		report, failure = w.PerformIntents(t.Context(), target, in)
		return failure == nil && len(report.Groups) == 0
	})
	for _, name := range []string{"pod-1", "pod-2"} {
		if w.live(pod, name) == nil {
			t.Errorf("%s was not created", name)
		}
	}
	if w.live(configMap, "after") == nil || w.live(configMap, "old-of-pods") != nil {
		t.Error("what follows in the group was not performed")
	}
	if got := w.recorder.events[len(want):]; !slices.Contains(got, "Normal Done apply pod-1") || slices.Contains(got, want[0]) {
		t.Errorf("emitted: %q", got)
	}
}

func TestWhatIsNotAllowedInAGroupIsTheFailureOfTheGroup(t *testing.T) {
	w := newCluster(t)
	w.create(configMap, `{"metadata":{"name":"theirs"}}`)
	w.seen(configMap, "theirs")
	target := w.owner(list(configMap), nil)
	report, failure := w.PerformIntents(t.Context(), target, result(
		asked{"pods", "apply", "first"}, asked{"pods", "apply", "pod-1"}, asked{"pods", "apply", "third"},
		asked{"theirs", "apply", "theirs"}, asked{"deletes", "delete", "theirs2"}, asked{"maps", "apply", "mine"},
	))
	if failure != nil {
		t.Fatalf("the run ends with %+v", failure)
	}
	if got := done(report); got != "apply first, apply mine" {
		t.Errorf("done: %s", got)
	}
	if got := groupFailures(report); got != "pods: apply pod-1 denied NotDeclared, theirs: apply theirs denied NotAdopted" {
		t.Errorf("failed: %s", got)
	}
}

func TestWhatViolatesTheContractInAGroupIsRefusedBeforeAnyRequest(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.wire.take()
	in := result(asked{"a", "apply", "one"}, asked{"b", "apply", "two"}, asked{"b", "apply", "two"})
	report, failure := w.PerformIntents(t.Context(), target, in)
	if failure == nil || failure.Class != abi.ClassABI || failure.Group != "b" || len(report.Groups) != 0 {
		t.Errorf("got %+v, groups %s", failure, groupFailures(report))
	}
	w.expectSent()
}

func TestAnIntentOfNoGroupEndsTheCall(t *testing.T) {
	w := newCluster(t)
	w.forbidPods()
	target := w.owner(list(pod, configMap), nil)
	report, failure := w.PerformIntents(t.Context(), target, result(
		asked{"pods", "apply", "pod-1"}, asked{"", "apply", "pod-2"}, asked{"maps", "apply", "never"},
	))
	if failure == nil || failure.Ref.Name != "pod-2" || failure.Group != "" {
		t.Errorf("the call ends with %+v", failure)
	}
	if got := groupFailures(report); got != "pods: apply pod-1 retry Forbidden" || done(report) != "" || len(w.recorder.events) > 0 {
		t.Errorf("failed: %s, done: %s, emitted: %q", got, done(report), w.recorder.events)
	}
}

func TestAConflictInAGroupIsTheFailureOfTheGroup(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, result(asked{"", "apply", "stale"}))
	w.seen(configMap, "stale")
	w.remove(configMap, "stale")
	w.create(configMap, `{"metadata":{"name":"stale"}}`) // another object, which the cache does not show yet
	in := result(asked{"stale", "apply", "stale"}, asked{"maps", "apply", "other"})
	in.Apply[0].Object = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"stale"},"data":{"k":"changed"}}`)
	report, failure := w.PerformIntents(t.Context(), target, in)
	if failure != nil || len(report.Groups) != 1 || !report.Groups[0].Conflict || done(report) != "apply other" {
		t.Errorf("ends with %+v, failed: %s, done: %s", failure, groupFailures(report), done(report))
	}
}

// In a namespace that is being deleted nothing can be created, by no group.
func TestAGroupInANamespaceThatIsBeingDeleted(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, result(asked{"", "apply", "old"}))
	w.edit(configMap, "old", "", `{"metadata":{"finalizers":["test.thole.dev/hold"]}}`)
	w.edit(widget, "w", "", `{"metadata":{"finalizers":["test.thole.dev/hold"]}}`)
	w.seen(configMap, "old")
	w.remove(namespace, w.ns)
	w.until("nothing can be created", func() bool {
		err := w.admin.rest.Post().AbsPath(secret.Collection(w.ns)...).Body(withKind(t, secret, `{"metadata":{"generateName":"x"}}`)).Do(t.Context()).Error()
		return err != nil
	})
	in := result(asked{"maps", "apply", "new"}, asked{"maps", "apply", "newer"}, asked{"", "delete", "old"})
	report, failure := w.PerformIntents(t.Context(), target, in)
	if got := groupFailures(report); failure != nil || got != "maps: apply new stalled NamespaceTerminating" || done(report) != "delete old" {
		t.Errorf("ends with %+v, failed: %s, done: %s", failure, got, done(report))
	}
	target.Object = w.seen(widget, "w")
	if !target.Object.Deleting() {
		w.remove(widget, "w")
		target.Object = w.seen(widget, "w")
	}
	report, failure = w.PerformIntents(t.Context(), target, in)
	if failure != nil || len(report.Groups) > 0 {
		t.Errorf("the cleanup ends with %+v, failed: %s", failure, groupFailures(report))
	}
	w.edit(configMap, "old", "", `{"metadata":{"finalizers":null}}`)
	w.edit(widget, "w", "", `{"metadata":{"finalizers":null}}`)
}

func TestAnOutageOrAPostponementInAGroupEndsTheCall(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		is      func(*Failure) bool
	}{
		"too many requests":    {respondStatus(429, "TooManyRequests", "later", ""), func(f *Failure) bool { return f.Later > 0 }},
		"the server is broken": {respondStatus(500, "InternalError", "etcdserver: no leader", ""), func(f *Failure) bool { return f.Outage }},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := newFake(t, c.handler)
			report, failure := w.PerformIntents(t.Context(), target, result(asked{"a", "apply", "one"}, asked{"b", "apply", "two"}))
			if failure == nil || !c.is(failure) || failure.Group != "a" || len(report.Groups) > 0 || len(w.wire.take()) != 1 {
				t.Errorf("ends with %+v, failed: %s", failure, groupFailures(report))
			}
		})
	}
	w, target := newFake(t, respondStatus(500, "InternalError", "failed calling webhook", ""))
	report, failure := w.PerformIntents(t.Context(), target, result(asked{"a", "apply", "one"}, asked{"b", "apply", "two"}))
	if failure != nil || len(report.Groups) != 2 {
		t.Errorf("a webhook that fails ends the call: %+v, failed: %s", failure, groupFailures(report))
	}
}

func TestEventsOfCompleteGroupsAreEmittedWhenTheCallEndsEarly(t *testing.T) {
	broken := true
	w, target := newFake(t, func(rw http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		if broken && name == "three" {
			respondStatus(500, "InternalError", "etcdserver: no leader", "")(rw, r)
			return
		}
		respond(200, "application/json", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q,"uid":"u","resourceVersion":"1"}}`, name))(rw, r)
	})
	in := result(asked{"", "apply", "zero"}, asked{"a", "apply", "one"}, asked{"b", "apply", "two"}, asked{"b", "apply", "three"}, asked{"c", "apply", "four"})
	in.Events = append(in.Events, abi.Event{Type: abi.EventNormal, Reason: "Done", Message: "nothing", Group: "none"})
	for range 2 {
		if _, failure := w.PerformIntents(t.Context(), target, in); failure == nil || !failure.Outage {
			t.Fatalf("ends with %+v", failure)
		}
		if want := []string{"Normal Done apply one"}; !slices.Equal(w.recorder.events, want) {
			t.Errorf("emitted: %q, want %q", w.recorder.events, want)
		}
	}
	if told := w.memory.of(target, false).read().events; len(told) != 1 {
		t.Errorf("%d Events are recorded", len(told))
	}
	broken = false
	w.intents(target, in)
	want := []string{"Normal Done apply one", "Normal Done apply zero", "Normal Done apply two", "Normal Done apply three", "Normal Done apply four", "Normal Done nothing"}
	broken = true // a call that ends early does not make the next one repeat what was told
	if _, failure := w.PerformIntents(t.Context(), target, in); failure == nil {
		t.Error("does not fail")
	}
	broken = false
	w.intents(target, in)
	if !slices.Equal(w.recorder.events, want) {
		t.Errorf("emitted: %q, want %q", w.recorder.events, want)
	}
}

// A reply that is lost is the failure of the group, and the write may have taken place.
func TestALostReplyInAGroupIsUncertain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer server.Close()
	w := newWorld(t, &rest.Config{Host: server.URL})
	target := Target{Controller: controller(list(configMap), nil), Object: parse(t, primary)}
	report, failure := w.PerformIntents(t.Context(), target, result(asked{"a", "apply", "one"}, asked{"b", "apply", "two"}))
	if failure == nil || !failure.Uncertain || !failure.Outage || len(report.Groups) > 0 {
		t.Errorf("ends with %+v, failed: %s", failure, groupFailures(report))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, failure = w.PerformIntents(ctx, target, result(asked{"a", "apply", "one"})); failure == nil || !errors.Is(failure, context.Canceled) {
		t.Errorf("a run that is ended: %+v", failure)
	}
}

func TestADryRunOfGroupsStoresNothing(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.DryRun = true })
	w.forbidPods()
	target := w.owner(list(pod, configMap), nil)
	report, failure := w.PerformIntents(t.Context(), target, result(asked{"pods", "apply", "pod-1"}, asked{"maps", "apply", "map"}))
	if failure != nil || groupFailures(report) != "pods: apply pod-1 retry Forbidden" || w.live(configMap, "map") != nil {
		t.Errorf("ends with %+v, failed: %s", failure, groupFailures(report))
	}
}

// The host keeps the failure until the next run. It must not keep the result in memory.
func TestTheFailureOfAGroupHasItsOwnStrings(t *testing.T) {
	w, target := newFake(t, respondStatus(403, "Forbidden", "exceeded quota", ""))
	group := []byte("pods")
	report, _ := w.PerformIntents(t.Context(), target, result(asked{unsafe.String(&group[0], len(group)), "apply", "one"}))
	clear(group)
	if got := groupFailures(report); got != "pods: apply one retry Forbidden" {
		t.Errorf("failed: %q", got)
	}
}

// repeated is a Pod with elements that have the same keys, which a server-side apply refuses.
const repeated = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{
"hostAliases":[{"ip":"192.0.2.1","hostnames":["a"]},{"ip":"192.0.2.1","hostnames":["b"]}],
"containers":[{"name":"main","image":"web:1","args":[],"env":[{"name":"A","value":"1"},{"name":"A","value":"2"},{"name":"B","value":""}],
"ports":[{"containerPort":80,"name":"a"},{"containerPort":80,"name":"b"}],"resources":{"requests":{"cpu":"1000m"}}}]}}`

// That is wrong with the intent, and no outage: other groups go on, and what is wrong is told.
func TestAnApplyThatDoesNotFitTheSchemaFailsAlone(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(pod, configMap), nil)
	_, failure := w.PerformIntents(t.Context(), target, apply(repeated))
	if failure == nil || failure.Outage || failure.Uncertain || failure.Later != 0 || failure.Class != abi.ClassRetry || failure.Reason != "Invalid" ||
		!strings.Contains(failure.Message, `.spec.containers[name="main"].env: duplicate entries for key [name="A"]`) || strings.Contains(failure.Message, "\n") {
		t.Errorf("failed with %+v", failure)
	}
	in := result(asked{"others", "apply", "c"})
	in.Apply = append([]abi.Apply{{Object: []byte(repeated), Group: "pods"}}, in.Apply...)
	report, failure := w.PerformIntents(t.Context(), target, in)
	if failure != nil || len(report.Groups) != 1 || report.Groups[0].Group != "pods" || done(report) != "apply c" {
		t.Errorf("a group: %+v, %+v", report, failure)
	}
}
