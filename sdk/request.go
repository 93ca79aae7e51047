package sdk

import (
	"bytes"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
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

// readObject reads the primary in one pass; spec and status point to the
// author's types. raw is the status as bytes.
func readObject(object *Reader, meta *ObjectMeta, spec, status any) (raw []byte, err error) {
	invalid := "" // the reason, if the author's types do not fit
	err = object.Nested(func(r *Reader) {
		for more := r.FirstMember(); more; more = r.NextMember() {
			switch r.Name() {
			case "metadata":
				readMeta(r, meta)
			case "spec":
				readPart(r, spec, "InvalidSpec", &invalid)
			case "status":
				start := r.Pos()
				readPart(r, status, "InvalidStatus", &invalid)
				raw = r.Since(start)
			}
		}
	})
	switch {
	case err == nil:
		return raw, nil
	case invalid == "":
		return nil, codec.ErrorOf(err)
	default:
		return nil, Stalled(invalid, codec.ErrorOf(err))
	}
}

func readPart(r *Reader, into any, reason string, invalid *string) {
	readValue(r, into)
	if r.Err() != nil {
		*invalid = reason
	}
}

// diffStatus sets the merge patch between two states of the author's status.
func (r *Run) diffStatus(before []byte, status any) {
	after, err := encode(status)
	if err == nil && !bytes.Equal(before, after) {
		r.result.Status, err = rawjson.Diff(different(orEmpty(before), orEmpty(after)))
	}
	if err != nil {
		r.spoil("InvalidStatus", "status", err)
	}
}

// orEmpty is the object that a status of nothing stands for, such as a map
// that is nil.
func orEmpty(status []byte) []byte {
	if len(status) == 0 || string(status) == "null" {
		return []byte("{}")
	}
	return status
}

// different leaves out the members that two objects have in common, if both
// have the same members in the same order, as one codec writes them. Where they
// have not, or are no objects, they are returned as they are.
func different(before, after []byte) (b, a []byte) {
	rb, ra := rawjson.NewReader(before), rawjson.NewReader(after)
	wb, wa := rawjson.NewWriter(nil), rawjson.NewWriter(nil)
	same := true
	wb.Object(func() {
		wa.Object(func() { same = copyDifferent(rb, ra, wb, wa) })
	})
	if !same || rb.End() != nil || ra.End() != nil {
		return before, after
	}
	return wb.Bytes(), wa.Bytes()
}

func copyDifferent(rb, ra *Reader, wb, wa *rawjson.Writer) (same bool) {
	moreB, moreA := rb.FirstMember(), ra.FirstMember()
	for ; moreB && moreA && rb.Name() == ra.Name(); moreB, moreA = rb.NextMember(), ra.NextMember() {
		name, b, a := rb.Name(), rb.Raw(), ra.Raw()
		if !bytes.Equal(b, a) {
			wb.Name(name).Raw(b)
			wa.Name(name).Raw(a)
		}
	}
	return !moreB && !moreA
}
