package effect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// status writes a status, lets the store and the target see it, and returns
// the object.
func (w *world) status(t *Target, want Status) (*object.Object, bool) {
	w.Helper()
	reply, wrote, failure := w.Status(w.Context(), *t, want)
	if failure != nil {
		w.Fatalf("%+v", failure)
	}
	if reply != nil {
		t.Object = reply
	}
	return reply, wrote
}

func ready(status string, generation int64) Status {
	return Status{
		Set:                []Condition{{Type: "Ready", Status: status, Reason: "Because", Message: "m", ObservedGeneration: generation}},
		ObservedGeneration: &generation,
	}
}

func TestStatusIsOnePatchAndNoneWhenNothingChanged(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	want := ready("True", 1)
	want.Patch = []byte(`{"note":"hello","count":3}`)

	reply, wrote := w.status(&target, want)
	sent := w.expectSent("PATCH /apis/test.thole.dev/v1/namespaces/" + w.ns + "/widgets/w/status?fieldManager=thole%2Fdemo%2Fmain")
	if sent[0].contentType != mergePatch || !wrote {
		t.Errorf("sent %+v", sent[0])
	}
	const first = `{"conditions":[{"lastTransitionTime":"2026-11-20T10:00:00Z","message":"m","observedGeneration":1,"reason":"Because","status":"True","type":"Ready"}],"count":3,"note":"hello","observedGeneration":1}`
	if got := field(reply, "status"); got != first {
		t.Fatalf("got %s", got)
	}

	w.now = w.now.Add(time.Hour)
	if _, wrote := w.status(&target, want); wrote {
		t.Error("wrote the same again")
	}
	w.start()
	if _, wrote := w.status(&target, want); wrote {
		t.Error("wrote the same again after a restart")
	}
	w.expectSent()

	// Another message is no transition, another status is.
	want.Set[0].Message = "other"
	if reply, _ = w.status(&target, want); !strings.Contains(field(reply, "status"), `10:00:00Z","message":"other"`) {
		t.Errorf("got %s", field(reply, "status"))
	}
	want.Set[0].Status = "False"
	want.Patch = []byte(`{"note":null}`)
	if reply, _ = w.status(&target, want); !strings.Contains(field(reply, "status"), `11:00:00Z`) || field(reply, "status", "note") != "" {
		t.Errorf("got %s", field(reply, "status"))
	}
	if reply, _ = w.status(&target, Status{Remove: []string{"Ready"}}); field(reply, "status", "conditions") != "[]" {
		t.Errorf("got %s", field(reply, "status"))
	}
	if _, wrote = w.status(&target, Status{Remove: []string{"Ready", "Absent"}}); wrote {
		t.Error("removed what is not there")
	}
}

func TestStatusLeavesWhatOthersWrite(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	target.Object = w.edit(widget, "w", "status", `{"status":{"note":"theirs","conditions":[{"type":"Theirs","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`)

	// A third one writes between our read and our write.
	w.wire.before = func(request) {
		w.edit(widget, "w", "status", `{"status":{"note":"new","conditions":[{"type":"Third","status":"False","lastTransitionTime":"2021-01-01T00:00:00Z"},{"type":"Theirs","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`)
	}
	want := ready("True", 1)
	want.Patch = []byte(`{"count":1}`)
	reply, wrote := w.status(&target, want)
	path := "/apis/test.thole.dev/v1/namespaces/" + w.ns + "/widgets/w"
	w.expectSent("PATCH "+path+"/status?fieldManager=thole%2Fdemo%2Fmain", "GET "+path, "PATCH "+path+"/status?fieldManager=thole%2Fdemo%2Fmain")
	got := field(reply, "status")
	for _, part := range []string{`"type":"Third"`, `2021-01-01`, `"type":"Theirs"`, `2020-01-01`, `"type":"Ready"`, `"note":"new"`, `"count":1`} {
		if !wrote || !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}

	// Also when no condition changes.
	stale := target
	w.edit(widget, "w", "status", `{"status":{"note":"newer"}}`)
	w.wire.take()
	w.status(&stale, Status{Patch: []byte(`{"count":2}`)})
	w.expectSent("PATCH "+path+"/status?fieldManager=thole%2Fdemo%2Fmain", "GET "+path, "PATCH "+path+"/status?fieldManager=thole%2Fdemo%2Fmain")
	if got := w.live(widget, "w"); field(got, "status", "note") != `"newer"` || field(got, "status", "count") != "2" {
		t.Errorf("got %s", got.Raw)
	}
}

func TestStatusGivesUpOnAnObjectThatAlwaysChanges(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	n := 0
	var busy func(request)
	busy = func(r request) {
		if r.method == "PATCH" {
			n++
			w.edit(widget, "w", "", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n))
		}
		w.wire.mu.Lock()
		w.wire.before = busy
		w.wire.mu.Unlock()
	}
	w.wire.before = busy
	_, _, failure := w.Status(t.Context(), target, ready("True", 1))
	if failure == nil || !failure.Conflict || n != maxRaces {
		t.Errorf("got %+v after %d", failure, n)
	}
}

func TestStatusOfAnObjectThatIsGone(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	w.remove(widget, "w")
	for _, want := range []Status{ready("True", 1), {Patch: []byte(`{"count":1}`)}} {
		if reply, wrote, failure := w.Status(t.Context(), target, want); reply != nil || wrote || failure != nil {
			t.Errorf("gone: got %v %v %v", reply, wrote, failure)
		}
	}
	w.create(widget, `{"metadata":{"name":"w"}}`)
	for _, want := range []Status{ready("True", 1), {Patch: []byte(`{"count":1}`)}} {
		if reply, wrote, failure := w.Status(t.Context(), target, want); reply != nil || wrote || failure != nil {
			t.Errorf("replaced: got %v %v %v", reply, wrote, failure)
		}
	}
	if got := w.live(widget, "w"); field(got, "status") != "" {
		t.Errorf("touched the successor: %s", got.Raw)
	}
}

func TestStatusNeverObservesBackwards(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	w.status(&target, ready("True", 7))
	reply, _ := w.status(&target, ready("True", 3))
	if got := field(reply, "status", "observedGeneration"); got != "7" {
		t.Errorf("observedGeneration is %s", got)
	}
}

func TestStatusThatTheSchemaHasNoPlaceFor(t *testing.T) {
	w := newCluster(t)
	target := Target{controller(nil, nil), w.create(gadget, `{"metadata":{"name":"g"}}`)}
	want := ready("True", 1)
	want.Patch = []byte(`{"note":"x","extra":{"a":1}}`)
	w.status(&target, want)
	w.wire.take()

	for range 3 {
		if _, wrote := w.status(&target, want); wrote {
			t.Error("wrote again")
		}
		w.now = w.now.Add(time.Minute)
	}
	w.expectSent()
	for _, path := range []string{"/status/conditions", "/status/observedGeneration", "/status/extra"} {
		if n := strings.Count(w.log.String(), "field="+path+"\n"); n != 1 {
			t.Errorf("%s is reported %d times:\n%s", path, n, &w.log)
		}
	}

	// What has a place is still written, of other objects of the kind too.
	other := Target{controller(nil, nil), w.create(gadget, `{"metadata":{"name":"h"}}`)}
	w.wire.take()
	w.status(&other, want)
	if sent := w.wire.take(); len(sent) != 1 || !strings.HasSuffix(sent[0].body, `"status":{"note":"x"}}`) {
		t.Errorf("sent %+v", sent)
	}
	w.Rediscovered(gadget.Kind)
	if _, wrote := w.status(&other, want); wrote || len(w.wire.take()) != 1 {
		t.Error("not tried again, or a write without effect is reported")
	}
}

func TestStatusOfKindsThatAreNotOurs(t *testing.T) {
	w := newCluster(t)
	c := controller(nil, nil)
	p := w.create(plain, `{"metadata":{"name":"p"}}`)
	b := w.create(pod, `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"m","image":"i"}]}}`)

	for _, o := range []*object.Object{p, b} {
		if _, wrote, failure := w.Status(t.Context(), Target{c, o}, ready("True", 1)); wrote || failure != nil {
			t.Errorf("%s: got %v %v", o.Kind, wrote, failure)
		}
	}
	w.expectSent()

	// The manifest may ask for conditions; a generation is never observed.
	c.Conditions = abi.Conditions{Target: "Ready"}
	target := Target{c, p}
	for range 3 {
		w.status(&target, Status{Set: ready("True", target.Object.Generation).Set, ObservedGeneration: &target.Object.Generation, Patch: []byte(`{"note":"x"}`)})
	}
	got := field(target.Object, "status")
	if sent := w.wire.take(); len(sent) != 1 || strings.Contains(got, "observedGeneration") || !strings.Contains(got, `"Ready"`) {
		t.Errorf("sent %v, status is %s", sent, got)
	}
	target = Target{c, b}
	w.status(&target, ready("True", 1))
	if got := field(target.Object, "status"); !strings.Contains(got, `"type":"Ready"`) || field(target.Object, "status", "observedGeneration") != "" {
		t.Errorf("got %s", got)
	}
}

func TestStatusThatTheSchemaRefuses(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	w.wire.take()
	_, _, failure := w.Status(t.Context(), target, Status{Patch: []byte(`{"count":"many"}`)})
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "Invalid" || !strings.Contains(failure.Message, "status.count") || failure.Conflict {
		t.Errorf("got %+v", failure)
	}
}

func TestPatchOfThePrimary(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	in := Intents{Patch: []byte(`{"metadata":{"labels":{"x":"1"}},"spec":{"size":5,"unknown":1}}`)}
	report := w.intents(target, in)
	path := "PATCH /apis/test.thole.dev/v1/namespaces/" + w.ns + "/widgets/w?fieldManager=thole%2Fdemo%2Fmain"
	w.expectSent(path)
	if o := report.Primary; o == nil || o.Labels["x"] != "1" || field(o, "spec") != `{"size":5}` || len(report.Writes) != 1 {
		t.Fatalf("got %+v", report)
	}
	// The server dropped a field: that is no reason to send it for ever.
	target.Object = report.Primary
	if report = w.intents(target, in); report.Primary != nil || len(report.Writes) != 0 {
		t.Errorf("got %+v", report)
	}
	w.expectSent()
	target.Object = w.edit(widget, "w", "", `{"spec":{"size":6}}`)
	w.intents(target, in)
	w.expectSent(path)

	_, failure := w.Intents(t.Context(), target, Intents{Patch: []byte(`{"spec":{"size":101}}`)})
	if failure == nil || failure.Verb != "patch" || failure.Reason != "Invalid" || !strings.Contains(failure.Message, "spec.size") || failure.Conflict {
		t.Errorf("got %+v", failure)
	}
	w.remove(widget, "w")
	_, failure = w.Intents(t.Context(), target, Intents{Patch: []byte(`{"spec":{"size":9}}`)})
	if failure == nil || !failure.Conflict {
		t.Errorf("gone: got %+v", failure)
	}
	w.create(widget, `{"metadata":{"name":"w"}}`)
	_, failure = w.Intents(t.Context(), target, Intents{Patch: []byte(`{"spec":{"size":9}}`)})
	if failure == nil || !failure.Conflict || field(w.live(widget, "w"), "spec", "size") != "" {
		t.Errorf("replaced: got %+v", failure)
	}
}
