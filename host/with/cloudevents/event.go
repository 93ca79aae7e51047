package cloudevents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Event is a [Change] or a [RunEnd].
type Event interface {
	// attributes returns the attributes of the event, but for the prefix of its type, and its data. at is
	// the time of the event.
	attributes(at time.Time) (a attributes, data any)
}

// attributes are those of a CloudEvent that differ.
type attributes struct{ eventType, source, subject, id string }

// Subject is the object that an event is about, as it was then.
type Subject struct {
	UID                string // "": the API server has none for objects of the kind
	Kind               abi.Kind
	Key                object.Key
	ResourceVersion    string // "": likewise
	Generation         int64  // 0: the kind has none
	ObservedGeneration int64  // of the status; 0: it has none
}

// ChangeType is what has happened to an object.
type ChangeType string

// Types of changes. In lower case they end the types of events.
const (
	Created       ChangeType = "CREATED"
	Updated       ChangeType = "UPDATED"
	Deleted       ChangeType = "DELETED"
	StatusUpdated ChangeType = "STATUS_UPDATED"
)

// Change is a change of a primary.
type Change struct {
	Type   ChangeType
	Object Subject // after the change; the last state of an object that was deleted
	// Again is set for an object of type Created that may have been deleted to receivers before, and have
	// come back with the same uid.
	Again bool
}

// RunEnd is the end of a run.
type RunEnd struct {
	Plugin, Controller string
	ID                 string  // distinct among the runs of the object
	Object             Subject // with what the run has written
	Result             string  // one of the Result constants
	Attempt            int     // failed runs in a row, this one included
	Class              abi.Class
	Reason             string // CamelCase, as in a condition; empty unless the run has failed
}

// Results of runs. They end the types of events.
const (
	ResultSuccess      = "success"
	ResultFailed       = "failed"
	ResultRequeue      = "requeue"
	ResultRequeueAfter = "requeue_after"
)

// changeData is the data of the event of a change.
type changeData struct {
	objectData
	ChangeType ChangeType `json:"changeType"`
}

type objectData struct {
	ResourceUID        string `json:"resourceUid"`
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Generation         int64  `json:"generation"`
	ObservedGeneration int64  `json:"observedGeneration"`
}

// runData is the data of the event of the end of a run. It has no message: that is the plugin's text,
// and may hold anything that the plugin has read.
type runData struct {
	objectData
	Plugin      string    `json:"plugin"`
	Controller  string    `json:"controller"`
	Result      string    `json:"result"`
	Attempt     int       `json:"attempt"`
	ErrorClass  abi.Class `json:"errorClass,omitempty"`
	ErrorReason string    `json:"errorReason,omitempty"`
}

func (s Subject) data() objectData {
	return objectData{s.UID, s.Kind.APIVersion, s.Kind.Kind, s.Generation, s.ObservedGeneration}
}

// identity returns what tells objects of a kind apart.
func (s Subject) identity() string { return cmp.Or(s.UID, s.Key.String()) }

func (s Subject) kind() string { return strings.ToLower(s.Kind.Kind) }

func (c Change) attributes(at time.Time) (attributes, any) {
	name := strings.ToLower(string(c.Type))
	return attributes{
		eventType: c.Object.kind() + "." + name,
		source:    "watcher/" + c.Object.kind(),
		subject:   c.Object.Key.String(),
		id:        c.Object.identity() + "/" + name + c.version(at),
	}, changeData{c.Object.data(), c.Type}
}

// version returns what tells changes of one type of an object apart: the same for the same change,
// whichever replica publishes it. A generation would not do, as it comes again for another change after
// a restore of etcd.
func (c Change) version(at time.Time) string {
	switch {
	case c.Type == Created && c.Object.UID != "" && !c.Again:
		return ""
	case c.Object.ResourceVersion != "":
		return "/v" + c.Object.ResourceVersion
	}
	return "/t" + strconv.FormatInt(at.UnixNano(), 10)
}

func (e RunEnd) attributes(time.Time) (attributes, any) {
	return attributes{
		eventType: e.Object.kind() + ".reconciled." + e.Result,
		source:    "controller/" + e.Plugin + "/" + e.Controller,
		subject:   e.Object.Key.String(),
		id:        e.Object.identity() + "/run/" + e.ID,
	}, runData{e.Object.data(), e.Plugin, e.Controller, e.Result, e.Attempt, e.Class, e.Reason}
}

// encoded is an event that is ready to be sent.
type encoded struct {
	object string // namespace/name: events of the same are sent in their order
	json   []byte // in the JSON format of CloudEvents
}

// encode returns an event as JSON. The error is that of an object whose names make no valid event.
func encode(e Event, typePrefix string, at time.Time) (encoded, error) {
	a, data := e.attributes(at)
	if typePrefix != "" {
		a.eventType = typePrefix + "." + a.eventType
	}
	made := event.New(event.CloudEventsVersionV1)
	made.SetType(a.eventType)
	made.SetSource(a.source)
	made.SetSubject(a.subject)
	made.SetID(a.id)
	made.SetTime(at.UTC())
	if err := made.SetData(event.ApplicationJSON, data); err != nil {
		return encoded{}, fmt.Errorf("encode event of %s: %w", a.subject, err)
	}
	if err := made.Validate(); err != nil {
		return encoded{}, fmt.Errorf("encode event of %s: %w", a.subject, err)
	}
	text, err := json.Marshal(made)
	if err != nil {
		return encoded{}, fmt.Errorf("encode event of %s: %w", a.subject, err)
	}
	return encoded{a.subject, text}, nil
}
