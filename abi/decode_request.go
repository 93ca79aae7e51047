package abi

import (
	"math"

	"github.com/thole-dev/thole/abi/rawjson"
)

// DecodeRequest reads a request. It ignores what it does not know, a host may
// say more than a guest understands, and reads objects of any depth that the
// API server stores. Strings and raw values alias data.
func DecodeRequest(data []byte) (*Request, error) {
	return ReadRequest(data, func(*Request, *rawjson.Reader) {})
}

// ReadRequest is [DecodeRequest] for a guest that reads the object, which is
// the most of a request, where it stands and not once more afterwards. object
// is called at an object that is not null, with what was read before it, and
// reads the value or leaves it.
func ReadRequest(data []byte, object func(*Request, *rawjson.Reader)) (*Request, error) {
	r := rawjson.NewReader(data)
	q := &Request{}
	r.Object(func(field string) {
		switch field {
		case "controller":
			q.Controller = r.String()
		case "object":
			q.Object = readInPlace(r, q, object)
		case "deleting":
			q.Deleting = r.Bool()
		case "reasons":
			q.Reasons = nil
			r.Array(func(int) { q.Reasons = append(q.Reasons, Reason(r.String())) })
		case "attempt":
			q.Attempt = int(min(max(r.Int(), 0), math.MaxInt32))
		case "previous":
			q.Previous = readPrevious(r)
		case "memo":
			q.Memo = readRaw(r)
		case "now":
			q.Now = readTime(r)
		case "seed":
			q.Seed = readSeed(r)
		case "config":
			q.Config = readRaw(r)
		}
	})
	if err := r.End(); err != nil {
		return nil, err
	}
	return q, nil
}

func readInPlace(r *rawjson.Reader, q *Request, object func(*Request, *rawjson.Reader)) []byte {
	if r.Null() {
		return nil
	}
	start := r.Pos()
	if object(q, r); r.Pos() == start {
		r.Skip()
	}
	return r.Since(start)
}

func readPrevious(r *rawjson.Reader) *Previous {
	if r.Null() {
		return nil
	}
	p := &Previous{}
	r.Object(func(field string) {
		switch field {
		case "class":
			p.Class = Class(r.String())
		case "failures":
			p.Failures = nil
			r.Array(func(int) { p.Failures = append(p.Failures, readEffectFailure(r)) })
		}
	})
	return p
}

func readEffectFailure(r *rawjson.Reader) (f EffectFailure) {
	r.Object(func(field string) {
		switch field {
		case "verb":
			f.Verb = r.String()
		case "ref":
			f.Ref = readRef(r)
		case "class":
			f.Class = Class(r.String())
		case "reason":
			f.Reason = r.String()
		case "message":
			f.Message = r.String()
		}
	})
	return f
}
