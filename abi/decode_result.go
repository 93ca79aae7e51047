package abi

import (
	"bytes"

	"github.com/thole-dev/thole/abi/rawjson"
)

// DecodeResult reads what reconcile wrote with output and checks it against
// the limits of this package. It is strict, so that no host silently drops an
// intent; every error is of class abi. Strings and raw values alias data, but
// for Memo, which outlives the run. Messages that are too long are cut. No
// bytes at all are an empty result: what a guest needs that only fails.
func DecodeResult(data []byte) (*Result, error) {
	if len(data) == 0 {
		return &Result{}, nil
	}
	r, err := strict(data)
	if err != nil {
		return nil, err
	}
	out := &Result{}
	r.Object(func(field string) { readResultField(r, field, out) })
	if err := r.End(); err != nil {
		return nil, err
	}
	if err := out.check(); err != nil {
		return nil, err
	}
	out.Memo = bytes.Clone(out.Memo)
	return out, nil
}

func readResultField(r *rawjson.Reader, field string, out *Result) {
	switch field {
	case "result":
		out.Result = readOutcome(r)
	case "requeueAfter":
		out.RequeueAfter = readDuration(r)
	case "status":
		out.Status = readObject(r)
	case "conditions":
		out.Conditions = readList(r, MaxConditions, readCondition)
	case "patch":
		out.Patch = readObject(r)
	case "apply":
		out.Apply = readList(r, MaxIntents, readApply)
	case "delete":
		out.Delete = readList(r, MaxIntents, readRef)
	case "events":
		out.Events = readList(r, MaxIntents, readEvent)
	case "memo":
		out.Memo = readRaw(r)
	case "error":
		out.Error = readFailure(r)
	default:
		r.Unknown(field, "result", "requeueAfter", "status", "conditions", "patch",
			"apply", "delete", "events", "memo", "error")
	}
}

func readOutcome(r *rawjson.Reader) Outcome {
	switch o := Outcome(r.String()); o {
	case "", OutcomeSuccess, OutcomeRequeue, OutcomeEmpty:
		return o
	default:
		r.Fail(rawjson.Quote(string(o)) + " is none of success, requeue, empty")
		return ""
	}
}

func readCondition(r *rawjson.Reader) (c Condition) {
	r.Object(func(field string) {
		switch field {
		case "type":
			c.Type = r.String()
		case "status":
			c.Status = r.String()
		case "reason":
			c.Reason = r.String()
		case "message":
			c.Message = r.String()
		default:
			r.Unknown(field, "type", "status", "reason", "message")
		}
	})
	return c
}

func readApply(r *rawjson.Reader) (a Apply) {
	r.Object(func(field string) {
		switch field {
		case "object":
			a.Object = readObject(r)
		case "adopt":
			a.Adopt = r.Bool()
		default:
			r.Unknown(field, "object", "adopt")
		}
	})
	return a
}

func readRef(r *rawjson.Reader) (ref Ref) {
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			ref.APIVersion = r.String()
		case "kind":
			ref.Kind = r.String()
		case "namespace":
			ref.Namespace = r.String()
		case "name":
			ref.Name = r.String()
		case "uid":
			ref.UID = r.String()
		default:
			r.Unknown(field, "apiVersion", "kind", "namespace", "name", "uid")
		}
	})
	return ref
}

func readEvent(r *rawjson.Reader) (e Event) {
	r.Object(func(field string) {
		switch field {
		case "type":
			e.Type = r.String()
		case "reason":
			e.Reason = r.String()
		case "message":
			e.Message = r.String()
		default:
			r.Unknown(field, "type", "reason", "message")
		}
	})
	return e
}

func readFailure(r *rawjson.Reader) *Failure {
	if r.Null() {
		return nil
	}
	f := &Failure{}
	r.Object(func(field string) {
		switch field {
		case "reason":
			f.Reason = r.String()
		case "message":
			f.Message = r.String()
		case "after":
			f.After = readDuration(r)
		default:
			r.Unknown(field, "reason", "message", "after")
		}
	})
	return f
}
