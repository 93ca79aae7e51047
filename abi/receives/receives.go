// Package receives is what hosts and guests share of the capability by which events from outside make objects run.
// SPEC.md specifies it.
package receives

import (
	"cmp"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest.
const Name = "receives"

// Limits of what is received.
const (
	Max          = 64       // entries of a controller
	MaxEvent     = 16 << 10 // bytes of an event in its JSON format
	MaxAttribute = 256      // bytes of the type and the dataSchema of an entry
)

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

// Encode returns the section of a controller that receives these.
func Encode(all []Receive) []byte { return message.EncodeArray(all, (*Receive).fields) }

// Decode decodes the section of a controller. Every error is a [*rawjson.Error].
func Decode(section []byte) ([]Receive, error) {
	return message.DecodeArray(section, Max, (*Receive).fields)
}

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(c *abi.Controller, section []byte) error {
	all, err := Decode(section)
	if err != nil {
		return err
	}
	return cmp.Or(
		message.CheckEach("", all, func(r Receive) error { return r.check(c) }),
		message.CheckDistinct("", "", all, func(r Receive) string { return r.Type + " " + r.DataSchema }),
	)
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

func (r Receive) check(c *abi.Controller) error {
	if r.Type == "" && r.DataSchema == "" {
		return rawjson.NewError("", "has neither type nor dataSchema: name the events by at least one of them")
	}
	return cmp.Or(
		message.CheckLength("type", len(r.Type), MaxAttribute),
		message.CheckLength("dataSchema", len(r.DataSchema), MaxAttribute),
		rawjson.Within("resolve", r.Resolve.check(c)),
	)
}

func (r *Resolve) check(c *abi.Controller) error {
	if r == nil {
		return nil
	}
	with := *c
	with.Indexes = functionindexes.All(c)
	_, err := with.PrimaryIndex(r.Index)
	return cmp.Or(rawjson.Within("index", err), abi.CheckPath("from", r.From, "data.containerId"))
}
