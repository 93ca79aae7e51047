package abi

import (
	"cmp"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// This file has what a manifest declares of events from outside: SPEC.md, "Received event".

// Receive is a sort of CloudEvents from outside that make primaries run. An event is of the sort if it
// has Type and DataSchema, as far as they are not empty.
type Receive struct {
	Type       string // the attribute type of the events, such as com.example.container.stopped; "" for any
	DataSchema string // their attribute dataschema; "" for any
	// Resolve is how the primaries of an event are found; nil: by its subject, which is the namespace, a
	// slash and the name of a primary, or the name alone of a cluster-scoped one.
	Resolve *Resolve
}

// Resolve finds the primaries of an event by an index.
type Resolve struct {
	Index string // an index of the controller, of the primary kind
	From  string // where an event has the key, such as data.containerId or subject, see [fieldpath.Path]
}

func (r *Receive) fields(f *message.Fields) {
	f.Text("type", &r.Type)
	f.Text("dataSchema", &r.DataSchema)
	message.Pointer(f, "resolve", &r.Resolve, (*Resolve).fields)
}

func (r *Resolve) fields(f *message.Fields) {
	f.Required("index", &r.Index)
	f.Required("from", &r.From)
}

func (c Controller) checkReceives() error {
	return cmp.Or(
		message.CheckEach("receives", c.Receives, c.checkReceive),
		message.CheckDistinct("receives", "", c.Receives, func(r Receive) string { return r.Type + " " + r.DataSchema }),
	)
}

func (c Controller) checkReceive(r Receive) error {
	if r.Type == "" && r.DataSchema == "" {
		return rawjson.NewError("", "has neither type nor dataSchema: name the events by at least one of them")
	}
	return cmp.Or(
		message.CheckLength("type", len(r.Type), MaxEventType),
		message.CheckLength("dataSchema", len(r.DataSchema), MaxEventType),
		rawjson.Within("resolve", c.checkResolve(r.Resolve)),
	)
}

func (c Controller) checkResolve(r *Resolve) error {
	if r == nil {
		return nil
	}
	_, err := c.PrimaryIndex(r.Index)
	return cmp.Or(rawjson.Within("index", err), checkPath("from", r.From, "data.containerId"))
}
