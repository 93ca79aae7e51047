package sdk

import (
	"iter"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/sdk/codec"
)

type (
	// Receive is a sort of CloudEvents from outside that make objects run, by their Type, their
	// DataSchema or both. Without Resolve their subject names the object: the namespace, a slash
	// and the name, or the name alone of a cluster-scoped one.
	//
	//	type Receive struct {
	//		Type       string // the attribute type of the events, such as com.example.container.stopped; "" for any
	//		DataSchema string // their attribute dataschema; "" for any
	//		// Resolve is how the primaries of an event are found; nil: by its subject, which is the namespace, a
	//		// slash and the name of a primary, or the name alone of a cluster-scoped one.
	//		Resolve *Resolve
	//	}
	Receive = receives.Receive
	// Resolve finds the objects of an event by an index of the kind in For: those that have the
	// value of the event at the path From, such as data.containerId, as a value or a key of it.
	//
	//	type Resolve struct {
	//		Index string // an index of the controller, of the primary kind
	//		From  string // where an event has the key, such as data.containerId or subject
	//	}
	Resolve = receives.Resolve
)

// ReceivedEvent is a CloudEvent that has made the object run: see Receives of a [Controller]. What an
// event does not have is empty. Its strings and Data must not be modified.
type ReceivedEvent struct {
	ID              string
	Source          string
	Type            string
	Subject         string
	Time            Time
	DataSchema      string
	DataContentType string
	// Data is the data: JSON as it was sent, which [Decode] reads, or the bytes of data that is not
	// JSON and came in base64. Other text is a JSON string.
	Data []byte
}

// Received returns those of the [Run].Signals that are CloudEvents, in their order. The host has
// authorized the sender to make the object run, and has not checked what the data says: read the actual
// state before acting on it.
func (r *Run) Received() iter.Seq[ReceivedEvent] {
	return func(yield func(ReceivedEvent) bool) {
		for _, signal := range r.Signals {
			if e, ok := readEvent(signal); ok && !yield(e) {
				return
			}
		}
	}
}

// readEvent reads an event in the JSON format of CloudEvents. ok is false for another signal.
func readEvent(signal []byte) (e ReceivedEvent, ok bool) {
	r := rawjson.NewReader(signal)
	if r.Kind() != '{' {
		return ReceivedEvent{}, false
	}
	version := ""
	for more := r.FirstMember(); more; more = r.NextMember() {
		if r.Name() == "specversion" {
			codec.ReadString(r, &version)
		} else {
			e.readMember(r)
		}
	}
	return e, r.End() == nil && version == "1.0" && e.ID != "" && e.Source != "" && e.Type != ""
}

func (e *ReceivedEvent) readMember(r *Reader) {
	switch r.Name() {
	case "id":
		codec.ReadString(r, &e.ID)
	case "source":
		codec.ReadString(r, &e.Source)
	case "type":
		codec.ReadString(r, &e.Type)
	case "subject":
		codec.ReadString(r, &e.Subject)
	case "time":
		codec.ReadString(r, (*string)(&e.Time))
	case "dataschema":
		codec.ReadString(r, &e.DataSchema)
	case "datacontenttype":
		codec.ReadString(r, &e.DataContentType)
	case "data":
		codec.ReadRaw(r, &e.Data)
	case "data_base64":
		codec.ReadBytes(r, &e.Data)
	}
}
