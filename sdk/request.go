package sdk

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Request is one run for one object: its metadata, its spec, its status, and
// by the embedded [Run] everything else that a run knows and can do.
//
// Status may be changed in place. What the run ends with is compared with
// what it began with, and the difference is written: a field that the type
// does not know is left alone, one that became absent is removed. Conditions
// and observedGeneration are the host's; see [Run.SetCondition].
type Request[Spec, Status any] struct {
	ObjectMeta
	*Run
	Spec   Spec
	Status Status
}

// read fills the request from the object and returns the status as it will be
// compared.
func (r *Request[Spec, Status]) read(q *abi.Request) (before []byte, err error) {
	parts, err := split(q.Object, &r.ObjectMeta)
	if err != nil {
		return nil, err
	}
	r.status = parts.status
	if err := decodePart("spec", parts.spec, &r.Spec); err != nil {
		return nil, Stalled("InvalidSpec", err)
	}
	if err := decodePart("status", parts.status, &r.Status); err != nil {
		return nil, Stalled("InvalidStatus", err)
	}
	return encode(&r.Status)
}

// parts are the members of an object that a run looks into.
type parts struct{ spec, status []byte }

func split(object []byte, meta *ObjectMeta) (p parts, err error) {
	r := rawjson.NewReader(object)
	r.Object(func(field string) {
		switch field {
		case "metadata":
			readMeta(r, meta)
		case "spec":
			p.spec = r.Raw()
		case "status":
			p.status = r.Raw()
		}
	})
	return p, r.End()
}

// decodePart reads a member of the object; one that is absent stays zero.
func decodePart(name string, data []byte, into any) error {
	if data == nil {
		return nil
	}
	return within(name, decode(data, into))
}

// diffStatus sets the merge patch between two states of the author's status.
func (r *Run) diffStatus(before []byte, status any) {
	after, err := encode(status)
	if err == nil {
		r.result.Status, err = rawjson.Diff(before, after)
	}
	if err != nil {
		r.spoil("InvalidStatus", "status", err)
	}
}
