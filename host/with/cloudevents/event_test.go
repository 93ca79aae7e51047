package cloudevents

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// The attributes are those of abi/cloudevents/SPEC.md.
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
		{Change{Type: Created, Object: lab}, "", "labinstancerequest.created", "watcher/labinstancerequest", "ns/a", "u1/created", `{` + data + `,"changeType":"CREATED"}`},
		{Change{Type: Updated, Object: lab}, "", "labinstancerequest.updated", "watcher/labinstancerequest", "ns/a", "u1/updated/v77", `{` + data + `,"changeType":"UPDATED"}`},
		{Change{Type: StatusUpdated, Object: lab}, "", "labinstancerequest.status_updated", "watcher/labinstancerequest", "ns/a", "u1/status_updated/v77", `{` + data + `,"changeType":"STATUS_UPDATED"}`},
		{Change{Type: Deleted, Object: lab}, "com.example", "com.example.labinstancerequest.deleted", "watcher/labinstancerequest", "ns/a", "u1/deleted/v77", `{` + data + `,"changeType":"DELETED"}`},
		{Change{Type: Updated, Object: plain}, "", "labinstancerequest.updated", "watcher/labinstancerequest", "a", "u1/updated/v77", `{"resourceUid":"u1","apiVersion":"lab.example.com/v1","kind":"LabInstanceRequest","generation":0,"observedGeneration":2,"changeType":"UPDATED"}`},
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

// Receivers leave out an event with an id that they have had. So it is another one for another change:
// of an object that comes back into a selection, one that a restore of etcd takes to an earlier generation,
// and one of an API server without uids or resourceVersions.
func TestAnotherChangeHasAnotherID(t *testing.T) {
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	id := func(c Change, at time.Time) string {
		a, _ := c.attributes(at)
		return a.id
	}
	at := func(uid, name, version string, generation int64) Subject {
		return Subject{UID: uid, Kind: widget, Key: object.Key{Namespace: "ns", Name: name}, ResourceVersion: version, Generation: generation}
	}
	for name, c := range map[string][2]Change{
		"generation after a restore":   {{Type: Updated, Object: at("u", "a", "7", 3)}, {Type: Updated, Object: at("u", "a", "9", 3)}},
		"deleted twice":                {{Type: Deleted, Object: at("u", "a", "7", 1)}, {Type: Deleted, Object: at("u", "a", "9", 1)}},
		"created again":                {{Type: Created, Object: at("u", "a", "7", 1), Again: true}, {Type: Created, Object: at("u", "a", "9", 1), Again: true}},
		"status without versions":      {{Type: StatusUpdated, Object: at("u", "a", "", 0)}, {Type: StatusUpdated, Object: at("u", "a", "", 0)}},
		"updated without versions":     {{Type: Updated, Object: at("u", "a", "", 0)}, {Type: Updated, Object: at("u", "a", "", 0)}},
		"objects without uid":          {{Type: Updated, Object: at("", "a", "7", 1)}, {Type: Updated, Object: at("", "b", "7", 1)}},
		"created again without uid":    {{Type: Created, Object: at("", "a", "7", 1)}, {Type: Created, Object: at("", "a", "9", 1)}},
		"created again without either": {{Type: Created, Object: at("", "a", "", 1)}, {Type: Created, Object: at("", "a", "", 1)}},
	} {
		if id(c[0], first) == id(c[1], first.Add(time.Second)) {
			t.Errorf("%s: both have %q", name, id(c[0], first))
		}
	}
	for name, c := range map[string]Change{
		"created": {Type: Created, Object: at("u", "a", "7", 1)},
		"again":   {Type: Created, Object: at("u", "a", "7", 1), Again: true},
		"updated": {Type: Updated, Object: at("u", "a", "7", 2)},
		"deleted": {Type: Deleted, Object: at("u", "a", "7", 2)},
	} {
		if id(c, first) != id(c, first.Add(time.Second)) {
			t.Errorf("%s: the same change has two ids", name)
		}
	}
}
