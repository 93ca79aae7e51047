package sdktest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/anyjson"
)

// This file has the reviews of requests to the API server: abi/webhooks/SPEC.md, "Reviews" and "Conversion".

// Review is what became of a request to the API server. Nothing has been stored.
type Review struct {
	Allowed bool
	// Reason and Message are those of a denial, or of a failure.
	Reason, Message string
	Warnings        []string
	Audit           map[string]string
	// Object is what would be stored, with what mutate has changed; nil if that is nothing.
	Object sdk.Raw
	// Class is that of a failure. A host decides by the policy of the plugin what becomes of the
	// request then.
	Class abi.Class
	Logs  []Line

	tb testing.TB
}

// As sets who asks in the reviews that follow.
func (w *World) As(name string, groups ...string) { w.user = sdk.User{Name: name, Groups: groups} }

// DryRun sets whether the reviews that follow are of dry runs.
func (w *World) DryRun(dryRun bool) { w.dryRun = dryRun }

// ReviewCreate reviews the creation of an object, which is not created. The value is as for
// [World.Create]; it may have a generateName instead of a name.
func (w *World) ReviewCreate(value any) *Review {
	w.tb.Helper()
	return w.review(webhooks.OperationCreate, nil, w.encode(value))
}

// ReviewUpdate reviews the change of an object by a merge patch. The object stays as it is.
func (w *World) ReviewUpdate(ref sdk.Ref, patch any) *Review {
	w.tb.Helper()
	o := w.mustExist("review the update of", ref)
	return w.review(webhooks.OperationUpdate, o.raw, w.merge(o.raw, w.encode(patch)))
}

// ReviewDelete reviews the deletion of an object. The object stays as it is.
func (w *World) ReviewDelete(ref sdk.Ref) *Review {
	w.tb.Helper()
	return w.review(webhooks.OperationDelete, w.mustExist("review the deletion of", ref).raw, nil)
}

// review mutates and validates, as far as the controller reviews the operation.
func (w *World) review(operation sdk.Operation, old, object []byte) *Review {
	w.tb.Helper()
	reviewer := w.reviewer()
	of := webhooks.Of(&w.controller)
	mutates, validates := slices.Contains(of.Mutate, operation), slices.Contains(of.Validate, operation)
	if !mutates && !validates {
		w.tb.Fatalf("review %s: neither Validate nor Mutate of the controller has the operation", operation)
	}
	r := &Review{Allowed: true, Object: object, Audit: map[string]string{}, tb: w.tb}
	if mutates {
		w.pass(r, reviewer.Mutate, webhooks.DecodeMutateResult, operation, old)
		w.expectStable(r, reviewer, operation, old, object)
	}
	if validates && r.Allowed {
		w.pass(r, reviewer.Validate, webhooks.DecodeValidateResult, operation, old)
	}
	if !r.Allowed {
		r.Object = nil
	}
	return r
}

func (w *World) reviewer() Reviewer {
	w.tb.Helper()
	reviewer, ok := w.runner.(Reviewer)
	if !ok {
		w.tb.Fatalf("the runner of the test is no sdktest.Reviewer")
	}
	return reviewer
}

type (
	reviewCall   = func(request []byte, host Host) (abi.Code, []byte, error)
	reviewDecode = func([]byte) (*webhooks.ReviewResult, error)
)

// pass adds the result of one export to a review.
func (w *World) pass(r *Review, call reviewCall, decode reviewDecode, operation sdk.Operation, old []byte) {
	w.tb.Helper()
	w.serial++
	q := &webhooks.ReviewRequest{
		Controller: w.controller.Name, Operation: operation, DryRun: w.dryRun, User: w.user,
		Old: old, Object: r.Object, Now: w.now, Config: w.config,
	}
	binary.LittleEndian.PutUint64(q.Seed[:], uint64(w.serial))
	given := cmp.Or(string(r.Object), string(old))
	run := &Run{tb: w.tb, world: w, primary: w.identified([]byte(given)), serial: w.serial}
	run.primary.meta.UID = "" // as in a host, where a review may be for an object that is not there yet
	code, text, err := call(webhooks.EncodeReviewRequest(q), reviewHost{asHost{run}})
	r.Logs = append(r.Logs, run.Logs...)
	if err != nil {
		r.Allowed, r.Class, r.Message = false, classOf(err), err.Error()
		return
	}
	result, err := decode(text)
	if err == nil && code == abi.CodeOK {
		err = q.CheckResult(result)
	}
	switch {
	case err != nil:
		r.Allowed, r.Class, r.Reason, r.Message = false, abi.ClassABI, "InvalidResult", err.Error()
	case code != abi.CodeOK:
		r.failed(code, result.Error)
	default:
		r.add(result)
	}
}

func (r *Review) failed(code abi.Code, failure *abi.Failure) {
	r.Allowed, r.Class = false, cmp.Or(outcome.ClassOf(code), abi.ClassRetry)
	if failure != nil {
		r.Reason, r.Message = failure.Reason, failure.Message
	}
}

func (r *Review) add(result *webhooks.ReviewResult) {
	r.Allowed = result.Allowed
	r.Warnings = append(r.Warnings, result.Warnings...)
	for _, a := range result.AuditAnnotations {
		r.Audit[a.Name] = a.Value
	}
	if !result.Allowed {
		r.Reason, r.Message = cmp.Or(result.Reason, "Forbidden"), result.Message
	}
	if result.Object != nil {
		r.Object = bytes.Clone(result.Object)
	}
}

// expectStable expects that mutate leaves its own result as it is, if it has changed the object: an
// API server may ask it again.
func (w *World) expectStable(r *Review, reviewer Reviewer, operation sdk.Operation, old, before []byte) {
	w.tb.Helper()
	if !r.Allowed || bytes.Equal(r.Object, before) {
		return
	}
	again := &Review{Allowed: true, Object: r.Object, Audit: map[string]string{}, tb: w.tb}
	w.pass(again, reviewer.Mutate, webhooks.DecodeMutateResult, operation, old)
	if !again.Allowed || !rawjson.Equal(again.Object, r.Object) {
		w.tb.Errorf("mutate does not leave its own result as it is, which an API server may give to it:\n%s\nbecomes %s %s%s",
			r.Object, again.Object, again.Class, again.Message)
	}
}

// identified returns an object, which need not have a name.
func (w *World) identified(raw []byte) *object {
	w.tb.Helper()
	var meta struct {
		sdk.TypeMeta
		Metadata sdk.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		w.tb.Fatalf("review: %v", err)
	}
	kind := sdk.Kind(meta.TypeMeta)
	if kind != w.controller.For.Kind {
		w.tb.Fatalf("review: the object is of the kind %q, the controller reviews %q", kind, w.controller.For.Kind)
	}
	return &object{id: id{kind, meta.Metadata.Namespace, meta.Metadata.Name}, meta: meta.Metadata, raw: raw}
}

// reviewHost is the [Host] of a review, which has get, list and log.
type reviewHost struct{ asHost }

// IndexGet is denied.
func (reviewHost) IndexGet([]byte) ([]byte, int64) { return nil, abi.CodeDenied }

// Into reads the object that would be stored into a struct, a map or an [sdk.Raw].
func (r *Review) Into(into any) {
	r.tb.Helper()
	if err := anyjson.Unmarshal(r.Object, into); err != nil {
		r.tb.Fatalf("read the reviewed object %s: %v", r.Object, err)
	}
}

// ExpectAllowed expects that the request is allowed.
func (r *Review) ExpectAllowed() *Review {
	r.tb.Helper()
	return r.expect(r.Allowed, "the request is not allowed: %s %s: %s", r.Class, r.Reason, r.Message)
}

// ExpectDenied expects that the request is denied with a reason, "" for any, and with a message that
// contains text. A review that has failed does not deny.
func (r *Review) ExpectDenied(reason, text string) *Review {
	r.tb.Helper()
	denied := !r.Allowed && r.Class == abi.ClassNone
	return r.expect(denied && (reason == "" || r.Reason == reason) && strings.Contains(r.Message, text),
		"the request is not denied with %s, %q: allowed %v, %s %s: %s", reason, text, r.Allowed, r.Class, r.Reason, r.Message)
}

// ExpectFailure expects that the review has failed with a class and a reason; "" is any reason.
func (r *Review) ExpectFailure(class abi.Class, reason string) *Review {
	r.tb.Helper()
	return r.expect(r.Class == class && (reason == "" || r.Reason == reason),
		"the review failed with class %q, %s (%s), expected %q, %s", r.Class, r.Reason, r.Message, class, reason)
}

// ExpectWarnings expects exactly these warnings, in this order.
func (r *Review) ExpectWarnings(warnings ...string) *Review {
	r.tb.Helper()
	return r.expect(slices.Equal(r.Warnings, warnings), "the warnings are %q, expected %q", r.Warnings, warnings)
}

// ExpectObject expects that the object that would be stored has these members, which are JSON.
func (r *Review) ExpectObject(members string) *Review {
	r.tb.Helper()
	return r.expect(hasMembers(r.Object, members), "the object is %s, expected one with %s", r.Object, members)
}

// ExpectLog expects a line whose message contains text.
func (r *Review) ExpectLog(text string) *Review {
	r.tb.Helper()
	return r.expect(hasLine(r.Logs, text), "the review logged %v, expected a line with %q", r.Logs, text)
}

func (r *Review) expect(ok bool, format string, args ...any) *Review {
	r.tb.Helper()
	if !ok {
		r.tb.Errorf(format, args...)
	}
	return r
}

// hasMembers reports whether a merge patch of these members would change nothing.
func hasMembers(object []byte, members string) bool {
	merged, err := rawjson.MergePatch(object, []byte(members))
	return err == nil && object != nil && rawjson.Equal(merged, object)
}

// Conversion is what became of the conversion of an object.
type Conversion struct {
	Object sdk.Raw // nil if the conversion has failed
	// Class, Reason and Message describe a failure.
	Class           abi.Class
	Reason, Message string

	tb testing.TB
}

// Convert converts an object to another version, such as v1beta1. The value is as for [World.Create].
func (w *World) Convert(value any, version string) *Conversion {
	w.tb.Helper()
	reviewer := w.reviewer()
	if !webhooks.Of(&w.controller).Convert {
		w.tb.Fatalf("convert to %s: the controller has no Convert", version)
	}
	w.serial++
	q := &webhooks.ConvertRequest{
		Controller: w.controller.Name, APIVersion: w.controller.For.Group() + "/" + version,
		Object: w.encode(value), Now: w.now, Config: w.config,
	}
	binary.LittleEndian.PutUint64(q.Seed[:], uint64(w.serial))
	c := &Conversion{tb: w.tb}
	c.decode(q, reviewer)
	return c
}

func (c *Conversion) decode(q *webhooks.ConvertRequest, reviewer Reviewer) {
	code, text, err := reviewer.Convert(webhooks.EncodeConvertRequest(q))
	if err != nil {
		c.Class, c.Message = classOf(err), err.Error()
		return
	}
	result, err := webhooks.DecodeConvertResult(text)
	if err == nil && code == abi.CodeOK {
		err = q.CheckResult(result)
	}
	switch {
	case err != nil:
		c.Class, c.Reason, c.Message = abi.ClassABI, "InvalidResult", err.Error()
	case code == abi.CodeOK:
		c.Object = bytes.Clone(result.Object)
	default:
		c.Class = cmp.Or(outcome.ClassOf(code), abi.ClassRetry)
		if result.Error != nil {
			c.Reason, c.Message = result.Error.Reason, result.Error.Message
		}
	}
}

// ExpectObject expects that the conversion has succeeded, with an object that has these members, which
// are JSON.
func (c *Conversion) ExpectObject(members string) *Conversion {
	c.tb.Helper()
	if c.Class != abi.ClassNone {
		c.tb.Errorf("the conversion failed with class %q, %s: %s", c.Class, c.Reason, c.Message)
	} else if !hasMembers(c.Object, members) {
		c.tb.Errorf("the object is %s, expected one with %s", c.Object, members)
	}
	return c
}

// ExpectFailure expects that the conversion has failed with a class and a reason; "" is any reason.
func (c *Conversion) ExpectFailure(class abi.Class, reason string) *Conversion {
	c.tb.Helper()
	if c.Class != class || reason != "" && c.Reason != reason {
		c.tb.Errorf("the conversion failed with class %q, %s (%s), expected %q, %s", c.Class, c.Reason, c.Message, class, reason)
	}
	return c
}
