package effect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

func ready(status string, generation int64) Status {
	return Status{
		Set: []abi.Condition{{
			Type: "Ready", Status: status, Reason: "Because", Message: "m", ObservedGeneration: generation,
		}},
		ObservedGeneration: &generation,
	}
}

func TestWriteStatusSendsOnePatchAndNoneForNoChange(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	want := ready("True", 1)
	want.Patch = []byte(`{"note":"hello","count":3}`)

	reply, wrote := w.status(&target, want)
	sent := w.expectSent("PATCH /apis/test.thole.dev/v1/namespaces/" + w.ns + "/widgets/w/status?fieldManager=thole%2Fdemo%2Fmain")
	if sent[0].contentType != string(types.MergePatchType) || !wrote {
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

	// lastTransitionTime changes with the status, and not with the message.
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
		t.Error("wrote a removal of conditions that the object does not have")
	}
}

func TestWriteStatusKeepsChangesOfOthers(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	target.Object = w.edit(widget, "w", "status", `{"status":{"note":"theirs","conditions":[{"type":"Theirs","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`)

	// A third manager writes between the read and the write.
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

	// The same holds for a status without conditions.
	stale := target
	w.edit(widget, "w", "status", `{"status":{"note":"newer"}}`)
	w.wire.take()
	report, failure := w.WriteStatus(t.Context(), stale, Status{Patch: []byte(`{"count":2}`)})
	if failure != nil || report.Before == nil || field(report.Before, "status", "note") != `"newer"` || field(report.Before, "status", "count") != "1" {
		t.Errorf("%v, written to %+v", failure, report.Before)
	}
	w.expectSent("PATCH "+path+"/status?fieldManager=thole%2Fdemo%2Fmain", "GET "+path, "PATCH "+path+"/status?fieldManager=thole%2Fdemo%2Fmain")
	if got := w.live(widget, "w"); field(got, "status", "note") != `"newer"` || field(got, "status", "count") != "2" {
		t.Errorf("got %s", got.Raw)
	}
}

func TestOwnConditionsPrevailInAConflict(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	const past = `"lastTransitionTime":"2020-01-01T00:00:00Z","reason":"Theirs","message":"m"`
	w.wire.before = func(request) { // between the read and the write
		w.edit(widget, "w", "status", `{"status":{"conditions":[{"type":"Ready","status":"False",`+past+`},{"type":"Gone","status":"True",`+past+`},{"type":"Foreign","status":"True",`+past+`}]}}`)
	}
	want := ready("True", 1)
	want.Remove = []string{"Gone"}
	reply, wrote := w.status(&target, want)
	got := field(reply, "status", "conditions")
	if !wrote || strings.Contains(got, `"Gone"`) || !strings.Contains(got, `"Foreign"`) || !strings.Contains(got, `"reason":"Because"`) {
		t.Errorf("wrote %t: %s", wrote, got)
	}
}

// Members that metav1.Condition does not have stay, and so does the form in which
// another writer wrote them.
func TestWriteStatusKeepsConditionsOfOthersByteForByte(t *testing.T) {
	const (
		theirs = `{ "status":"True","type":"Theirs", "severity":"Info","lastHeartbeatTime":null,"weight":1.50 }`
		ours   = `{"type":"Ready","status":"False","reason":"Old","message":"m","lastTransitionTime":"2020-01-01T00:00:00Z","probe":"a"}`
	)
	w, target := newFake(t, respond(200, "application/json", primary))
	target.Object = parse(t, strings.Replace(primary, `"spec":{}`, `"status":{"conditions":[5,`+theirs+`,`+ours+`]}`, 1))
	if _, failure := w.WriteStatus(t.Context(), target, ready("True", 1)); failure != nil {
		t.Fatal(failure)
	}
	const merged = `{"type":"Ready","status":"True","reason":"Because","message":"m","lastTransitionTime":"2026-11-20T10:00:00Z","probe":"a","observedGeneration":1}`
	want := `"conditions":[5,` + theirs + `,` + merged + `]`
	if sent := w.wire.take(); len(sent) != 1 || !strings.Contains(sent[0].body, want) {
		t.Errorf("sent %+v\nwant %s", sent, want)
	}
}

func TestWriteStatusGivesUpOnAnObjectThatKeepsChanging(t *testing.T) {
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
	_, failure := w.WriteStatus(t.Context(), target, ready("True", 1))
	if failure == nil || !failure.Conflict || n != maxUpdates {
		t.Errorf("got %+v after %d", failure, n)
	}
}

func TestWriteStatusOfADeletedObjectDoesNothing(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	w.remove(widget, "w")
	for _, want := range []Status{ready("True", 1), {Patch: []byte(`{"count":1}`)}} {
		if report, failure := w.WriteStatus(t.Context(), target, want); report.Primary != nil || len(report.Writes) != 0 || failure != nil {
			t.Errorf("deleted: got %+v %v", report, failure)
		}
	}
	w.create(widget, `{"metadata":{"name":"w"}}`)
	for _, want := range []Status{ready("True", 1), {Patch: []byte(`{"count":1}`)}} {
		if report, failure := w.WriteStatus(t.Context(), target, want); report.Primary != nil || len(report.Writes) != 0 || failure != nil {
			t.Errorf("replaced: got %+v %v", report, failure)
		}
	}
	if got := w.live(widget, "w"); field(got, "status") != "" {
		t.Errorf("another object of the name was changed: %s", got.Raw)
	}
}

func TestObservedGenerationNeverDecreases(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	target.Object = w.edit(widget, "w", "", `{"spec":{"size":2}}`)
	w.status(&target, ready("True", 2))
	reply, _ := w.status(&target, ready("True", 1))
	if got := field(reply, "status", "observedGeneration"); got != "2" || reply.Generation != 2 {
		t.Errorf("observedGeneration is %s of %d", got, reply.Generation)
	}
}

// TestObservedGenerationAboveTheGenerationIsCorrected: a backup was restored, or somebody has
// patched the status.
func TestObservedGenerationAboveTheGenerationIsCorrected(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	for _, wrong := range []string{"2", "7", "9223372036854775807"} {
		target.Object = w.edit(widget, "w", "status", `{"status":{"observedGeneration":`+wrong+`}}`)
		reply, _ := w.status(&target, ready("True", 1))
		if got := field(reply, "status", "observedGeneration"); got != "1" {
			t.Errorf("observedGeneration %s is %s", wrong, got)
		}
	}
}

func TestConditionsOfOtherKindsAreWrittenOnlyIfTheManifestAsks(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.Allow[0].Verbs, c.Allow[0].Kinds = []string{rights.Patch}, []string{"Plain"} })
	c := controller(nil, nil)
	p := w.create(plain, `{"metadata":{"name":"p"}}`)
	b := w.create(pod, `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"m","image":"i"}]}}`)

	for _, o := range []*object.Object{p, b} {
		if report, failure := w.WriteStatus(t.Context(), Target{Controller: c, Object: o}, ready("True", 1)); len(report.Writes) != 0 || failure != nil {
			t.Errorf("%s: got %+v %v", o.Kind, report, failure)
		}
	}
	w.expectSent()

	// The manifest may ask for conditions.
	w.start()
	c.Conditions = abi.Conditions{Target: "Ready"}
	target := Target{Controller: c, Object: p}
	for range 3 {
		w.status(&target, Status{Set: ready("True", target.Object.Generation).Set, ObservedGeneration: &target.Object.Generation, Patch: []byte(`{"note":"x"}`)})
	}
	got := field(target.Object, "status")
	if sent := w.wire.take(); len(sent) != 1 || strings.Contains(got, "observedGeneration") || !strings.Contains(got, `"Ready"`) {
		t.Errorf("sent %v, status is %s", sent, got)
	}
	target = Target{Controller: c, Object: b}
	w.status(&target, ready("True", 1))
	if got := field(target.Object, "status"); !strings.Contains(got, `"type":"Ready"`) || field(target.Object, "status", "observedGeneration") != "1" {
		t.Errorf("got %s", got)
	}
}

func TestInvalidStatusIsReportedWithItsField(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	w.wire.take()
	_, failure := w.WriteStatus(t.Context(), target, Status{Patch: []byte(`{"count":"many"}`)})
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "Invalid" || !strings.Contains(failure.Message, "status.count") || failure.Conflict {
		t.Errorf("got %+v", failure)
	}
}

func TestPrunedFieldsAreNotSentAgain(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: controller(nil, nil), Object: w.create(gadget, `{"metadata":{"name":"g"}}`)}
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
	logged := map[any]int{}
	for _, line := range w.logs.All() { // with warnings of the API server
		logged[line.Fields["field"]]++
	}
	for _, path := range []string{"/status/conditions", "/status/observedGeneration", "/status/extra"} {
		if logged[path] != 1 {
			t.Errorf("%s is logged %d times, want 1: %v", path, logged[path], logged)
		}
	}

	// All other fields are still written, and for other objects of the kind too.
	other := Target{Controller: controller(nil, nil), Object: w.create(gadget, `{"metadata":{"name":"h"}}`)}
	w.wire.take()
	w.status(&other, want)
	if sent := w.wire.take(); len(sent) != 1 || !strings.HasSuffix(sent[0].body, `"status":{"note":"x"}}`) {
		t.Errorf("sent %+v", sent)
	}
	w.ForgetSchema(gadget.Kind)
	if _, wrote := w.status(&other, want); wrote || len(w.wire.take()) != 1 {
		t.Error("the fields are not sent again, or a write without effect is reported")
	}
}

// The schema of this server has no status at all. A patch that consists of a
// pruned field alone must be sent again like any other.
func TestPrunedFieldIsSentAgainWhenTheSchemaMayHaveChanged(t *testing.T) {
	w, target := newFake(t, respond(200, "application/json", primary))
	want := Status{Patch: []byte(`{"extra":1}`)}
	for _, step := range []struct {
		name string
		do   func()
		sent int
	}{
		{"the first run", func() {}, 1},
		{"the same status", func() {}, 0},
		{"a new revision of the plugin", func() { w.ForgetSchema(widget.Kind) }, 1},
		{"the same status", func() {}, 0},
		{"a minute later", func() { w.now = w.now.Add(time.Minute) }, 0},
		{"ten minutes later", func() { w.now = w.now.Add(prunedFor) }, 1},
		{"the same status", func() {}, 0},
	} {
		step.do()
		if report, failure := w.WriteStatus(t.Context(), target, want); len(report.Writes) != 0 || failure != nil {
			t.Fatalf("%s: got %+v, %v", step.name, report, failure)
		}
		if sent := w.wire.take(); len(sent) != step.sent {
			t.Errorf("%s: sent %v", step.name, sent)
		}
	}
	// The field is logged once, and once more for a new revision.
	w.logs.ExpectNext(t, hclog.Warn, "field", "/status/extra")
	w.logs.ExpectNext(t, hclog.Warn, "field", "/status/extra")
	w.logs.ExpectNone(t)
}
