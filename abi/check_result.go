package abi

import (
	"errors"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// check holds a decoded result against SPEC.md, "Result", and cuts messages
// that are too long: a text from elsewhere must not fail a run.
func (out *Result) check() error {
	out.cutMessages()
	return firstOf(
		out.checkIntents(),
		tooLong("memo", len(out.Memo), MaxMemo),
		each("conditions", out.Conditions, Condition.check),
		each("apply", out.Apply, Apply.check),
		each("delete", out.Delete, Ref.check),
		each("events", out.Events, Event.check),
		at("status", checkStatus(out.Status)),
		at("patch", checkPatch(out.Patch)),
	)
}

func (out *Result) checkIntents() error {
	n := out.Intents()
	if n <= MaxIntents {
		return nil
	}
	return broken(intentLists, strconv.Itoa(n)+" entries together, the limit is "+strconv.Itoa(MaxIntents))
}

// intentLists is the path of an error about all of them.
const intentLists = "apply, delete, events"

// Intents is the number of entries of apply, delete and events.
func (out *Result) Intents() int { return len(out.Apply) + len(out.Delete) + len(out.Events) }

// TooManyIntents says whether [DecodeResult] refused a result for having more
// than [MaxIntents].
func TooManyIntents(err error) bool {
	var e *rawjson.Error
	if !errors.As(err, &e) {
		return false
	}
	one := "[" + strconv.Itoa(MaxIntents) + "]" // the first that is too many in one list
	switch e.Path {
	case intentLists, "apply" + one, "delete" + one, "events" + one:
		return true
	}
	return false
}

func (out *Result) cutMessages() {
	if out.Error != nil {
		out.Error.Message = cut(out.Error.Message, MaxErrorMessage)
	}
	for i := range out.Conditions {
		out.Conditions[i].Message = cut(out.Conditions[i].Message, MaxConditionMessage)
	}
	for i := range out.Events {
		out.Events[i].Message = cut(out.Events[i].Message, MaxEventMessage)
	}
}

// cut shortens a text to at most limit bytes, at the end of a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

func (c Condition) check() error {
	if err := checkConditionType(c.Type); err != nil {
		return at("type", err)
	}
	switch c.Status {
	case "": // removes the condition
		return nil
	case "True", "False", "Unknown":
		return checkReason(c.Reason, MaxConditionReason)
	default:
		return broken("status", rawjson.Quote(c.Status)+" is none of True, False, Unknown")
	}
}

func (e Event) check() error {
	if e.Type != EventNormal && e.Type != EventWarning {
		return broken("type", rawjson.Quote(e.Type)+" is none of Normal, Warning")
	}
	return checkReason(e.Reason, MaxEventReason)
}

func (a Apply) check() error {
	if len(a.Object) == 0 {
		return broken("object", "is required")
	}
	ref, err := identity(a.Object)
	if err == nil {
		err = (Kind{ref.APIVersion, ref.Kind}).check()
	}
	if err == nil {
		err = at("metadata", ref.checkName())
	}
	return at("object", err)
}

// identity reads what names an object, as far as an intent must.
func identity(object []byte) (ref Ref, err error) {
	r := rawjson.NewReader(object)
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			ref.APIVersion = r.String()
		case "kind":
			ref.Kind = r.String()
		case "metadata":
			r.Object(func(field string) { readName(r, field, &ref) })
		}
	})
	return ref, r.End()
}

func readName(r *rawjson.Reader, field string, ref *Ref) {
	switch field {
	case "name":
		ref.Name = r.String()
	case "namespace":
		ref.Namespace = r.String()
	}
}
