package abi

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The checks of what a guest returns from a run against SPEC.md, "Result". They return
// the first error.

// check truncates messages and returns the first violation of a limit or rule.
func (out *Result) check(intents int) error {
	out.truncateMessages()
	return cmp.Or(
		out.checkOutcome(),
		out.checkIntents(intents),
		message.CheckLength("memo", len(out.Memo), MaxMemo),
		message.CheckEach("conditions", out.Conditions, Condition.check),
		message.CheckEach("apply", out.Apply, Apply.check),
		message.CheckEach("release", out.Release, Ref.check),
		message.CheckEach("delete", out.Delete, Delete.check),
		message.CheckEach("groups", out.Groups, Group.check),
		message.CheckDistinct("groups", "name", out.Groups, func(g Group) string { return g.Name }),
		message.CheckEach("events", out.Events, Event.check),
		rawjson.Within("patch", checkPatch(out.Patch)),
	)
}

// truncateMessages shortens what is too long. A message may quote text from
// elsewhere, such as the body of an HTTP error, and a run must not fail because
// of its length.
func (out *Result) truncateMessages() {
	if out.Error != nil {
		out.Error.Message = rawjson.Truncate(out.Error.Message, MaxErrorMessage)
	}
	for i := range out.Conditions {
		out.Conditions[i].Message = rawjson.Truncate(out.Conditions[i].Message, MaxConditionMessage)
	}
	for i := range out.Events {
		out.Events[i].Message = rawjson.Truncate(out.Events[i].Message, MaxEventMessage)
	}
}

// checkOutcome accepts an empty outcome, because a result with another code than [CodeOK]
// needs none.
func (out *Result) checkOutcome() error {
	switch out.Result {
	case "", OutcomeSuccess, OutcomeRequeue, OutcomeEmpty:
		return nil
	}
	return rawjson.NewError("result", rawjson.Quote(string(out.Result))+" is not one of success, requeue, empty")
}

// Intents returns the number of entries of release, apply, delete and events.
func (out *Result) Intents() int {
	return len(out.Release) + len(out.Apply) + len(out.Delete) + len(out.Events)
}

// checkIntents limits the lists together. The decoder limits each of them.
func (out *Result) checkIntents(limit int) error {
	n := out.Intents()
	if n <= limit {
		return nil
	}
	return rawjson.NewError(intentLists, strconv.Itoa(n)+" entries together, the limit is "+strconv.Itoa(limit))
}

// intentLists is the path of an error about all these lists.
const intentLists = "release, apply, delete, events"

// TooManyIntents reports whether err is the error of [DecodeResultFor] for a
// result with more intents than the limit.
func TooManyIntents(err error, limit int) bool {
	e, ok := errors.AsType[*rawjson.Error](err)
	if !ok {
		return false
	}
	beyond := "[" + strconv.Itoa(limit) + "]" // the entry at which the decoder stops
	switch e.Path {
	case intentLists, "release" + beyond, "apply" + beyond, "delete" + beyond, "events" + beyond:
		return true
	}
	return false
}

// check does not require a reason of a condition that is removed.
func (c Condition) check() error {
	if err := checkConditionType(c.Type); err != nil {
		return rawjson.Within("type", err)
	}
	switch c.Status {
	case "": // removes the condition
		return nil
	case ConditionTrue, ConditionFalse, ConditionUnknown:
		return CheckReason(c.Reason, MaxConditionReason)
	default:
		return rawjson.NewError("status", rawjson.Quote(c.Status)+" is not one of True, False, Unknown")
	}
}

func (e Event) check() error {
	if e.Type != EventNormal && e.Type != EventWarning {
		return rawjson.NewError("type", rawjson.Quote(e.Type)+" is not one of Normal, Warning")
	}
	return cmp.Or(CheckReason(e.Reason, MaxEventReason), checkGroup(e.Group))
}

func (ref Ref) check() error {
	return cmp.Or(Kind{ref.APIVersion, ref.Kind}.check(), ref.checkName())
}

// checkName checks the lengths of what names an object. Whether there can be
// such an object is for the API server to decide.
func (ref Ref) checkName() error {
	if ref.Name == "" {
		return rawjson.NewError("name", "is required")
	}
	return cmp.Or(
		message.CheckLength("name", len(ref.Name), MaxName),
		message.CheckLength("namespace", len(ref.Namespace), MaxName),
		message.CheckLength("uid", len(ref.UID), MaxName),
	)
}

// check requires what identifies the object. The API server checks the rest.
func (a Apply) check() error {
	if len(a.Object) == 0 {
		return rawjson.NewError("object", "is required")
	}
	if a.Create && (a.Adopt || a.Replace) {
		return rawjson.NewError("create", "cannot be set beside adopt or replace, which are for objects that exist")
	}
	if err := checkGroup(a.Group); err != nil {
		return err
	}
	ref, err := Identity(a.Object)
	if err == nil {
		err = cmp.Or(Kind{ref.APIVersion, ref.Kind}.check(), rawjson.Within("metadata", ref.checkName()))
	}
	return rawjson.Within("object", err)
}

// Identity reads the kind, namespace, name and UID of an object.
func Identity(object []byte) (ref Ref, err error) {
	r := rawjson.NewReader(object)
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			ref.APIVersion = r.String()
		case "kind":
			ref.Kind = r.String()
		case "metadata":
			r.Object(func(field string) {
				switch field {
				case "name":
					ref.Name = r.String()
				case "namespace":
					ref.Namespace = r.String()
				case "uid":
					ref.UID = r.String()
				}
			})
		}
	})
	return ref, r.End()
}

// checkPatch checks that a patch of the primary changes only its labels,
// annotations and spec, and that these remain objects.
func checkPatch(patch []byte) error {
	if patch == nil {
		return nil
	}
	r := rawjson.NewReader(patch)
	r.Object(func(field string) {
		switch field {
		case "metadata":
			readMembers(r, func(field string) {
				switch field {
				case "labels":
					readMembers(r, func(name string) { readPatched(r, ReservedLabel(name)) })
				case "annotations":
					readMembers(r, func(name string) { readPatched(r, ReservedAnnotation(name)) })
				default:
					failNotPatchable(r)
				}
			})
		case "spec":
			readMembers(r, func(string) {})
		default:
			failNotPatchable(r)
		}
	})
	return r.End()
}

// readPatched reads a label or annotation; a null removes it.
func readPatched(r *rawjson.Reader, reserved bool) {
	if reserved {
		r.Fail("cannot be patched: it is for the host, and for people")
		return
	}
	_ = r.String()
}

// readMembers reads an object that a patch may change but not remove.
func readMembers(r *rawjson.Reader, member func(string)) {
	if r.Kind() == 'n' {
		r.Fail("expected an object, found null: remove its members instead")
		return
	}
	r.Object(member)
}

func failNotPatchable(r *rawjson.Reader) {
	r.Fail("cannot be patched: a patch changes metadata.labels, metadata.annotations and spec only")
}

// Truncate shortens the message of a failure to [MaxErrorMessage], if there is one.
func (e *Failure) Truncate() {
	if e != nil {
		e.Message = rawjson.Truncate(e.Message, MaxErrorMessage)
	}
}
