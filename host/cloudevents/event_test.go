package cloudevents

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// The attributes are those of abi/SPEC.md, "CloudEvents".
func TestAttributesAndData(t *testing.T) {
	lab := Subject{
		UID: "u1", Kind: abi.Kind{APIVersion: "lab.example.com/v1", Kind: "LabInstanceRequest"}, Key: object.Key{Namespace: "ns", Name: "a"},
		ResourceVersion: "77", Generation: 3, ObservedGeneration: 2,
	}
	plain := lab
	plain.Generation, plain.Key.Namespace = 0, ""
	const data = `"resourceUid":"u1","apiVersion":"lab.example.com/v1","kind":"LabInstanceRequest","generation":3,"observedGeneration":2`
	for _, c := range []struct {
		event                                        Event
		prefix, eventType, source, subject, id, data string
	}{
		{Change{Created, lab}, "", "labinstancerequest.created", "watcher/labinstancerequest", "ns/a", "u1/created", `{` + data + `,"changeType":"CREATED"}`},
		{Change{Updated, lab}, "", "labinstancerequest.updated", "watcher/labinstancerequest", "ns/a", "u1/updated/3", `{` + data + `,"changeType":"UPDATED"}`},
		{Change{StatusUpdated, lab}, "", "labinstancerequest.status_updated", "watcher/labinstancerequest", "ns/a", "u1/status_updated/v77", `{` + data + `,"changeType":"STATUS_UPDATED"}`},
		{Change{Deleted, lab}, "com.example", "com.example.labinstancerequest.deleted", "watcher/labinstancerequest", "ns/a", "u1/deleted", `{` + data + `,"changeType":"DELETED"}`},
		{Change{Updated, plain}, "", "labinstancerequest.updated", "watcher/labinstancerequest", "a", "u1/updated/v77", `{"resourceUid":"u1","apiVersion":"lab.example.com/v1","kind":"LabInstanceRequest","generation":0,"observedGeneration":2,"changeType":"UPDATED"}`},
		{
			RunEnd{Plugin: "p", Controller: "c", ID: "r1", Object: lab, Result: ResultRequeueAfter},
			"", "labinstancerequest.reconciled.requeue_after", "controller/p/c", "ns/a", "u1/run/r1",
			`{` + data + `,"plugin":"p","controller":"c","result":"requeue_after","attempt":0}`,
		},
		{
			RunEnd{Plugin: "p", Controller: "c", ID: "r2", Object: lab, Result: ResultFailed, Attempt: 4, Class: abi.ClassPanic, Reason: "Trapped"},
			"", "labinstancerequest.reconciled.failed", "controller/p/c", "ns/a", "u1/run/r2",
			`{` + data + `,"plugin":"p","controller":"c","result":"failed","attempt":4,"errorClass":"panic","errorReason":"Trapped"}`,
		},
	} {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		ready, err := encode(c.event, c.prefix, at)
		if err != nil {
			t.Fatal(err)
		}
		var e event.Event
		if err := json.Unmarshal(ready.json, &e); err != nil {
			t.Fatal(err)
		}
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
		if e.Type() != c.eventType || e.Source() != c.source || e.Subject() != c.subject || e.ID() != c.id || e.SpecVersion() != "1.0" || e.DataContentType() != "application/json" || !e.Time().Equal(at) {
			t.Errorf("got %s", e)
		}
		if string(e.Data()) != c.data {
			t.Errorf("data of %s:\n%s\nwant\n%s", e.ID(), e.Data(), c.data)
		}
		if ready.object != c.subject {
			t.Errorf("%s is ordered by %s", e.ID(), ready.object)
		}
	}
}

func TestEventThatIsNotValidIsAnError(t *testing.T) {
	if _, err := encode(RunEnd{Plugin: "%zz", Object: change("a", 1).Object}, "", time.Now()); err == nil {
		t.Error("an event whose source is no URI is published")
	}
}
