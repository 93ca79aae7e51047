package sdk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// This file has the reviews of a controller: abi/webhooks/SPEC.md, "Reviews".

// Object is an object of the primary kind, with the types of its spec and status. Members that a type
// does not have are ignored when the object is read, and kept when it is written.
type Object[Spec, Status Value] struct {
	ObjectMeta
	Spec   Spec
	Status Status
}

// SetLabel sets a label, also if there are none yet.
func (o *Object[Spec, Status]) SetLabel(name, value string) { set(&o.Labels, name, value) }

// SetAnnotation sets an annotation, also if there are none yet.
func (o *Object[Spec, Status]) SetAnnotation(name, value string) { set(&o.Annotations, name, value) }

func set(all *map[string]string, name, value string) {
	if *all == nil {
		*all = map[string]string{}
	}
	(*all)[name] = value
}

// Operation is what a request to the API server does with an object.
type Operation = webhooks.Operation

// The values of [Operation].
const (
	OperationCreate Operation = webhooks.OperationCreate // there is no old object
	OperationUpdate Operation = webhooks.OperationUpdate // there are both
	OperationDelete Operation = webhooks.OperationDelete // there is no new object
)

// User is somebody who asks the API server.
//
//	type User struct {
//		Name   string
//		UID    string
//		Groups []string
//	}
type User = webhooks.User

// Validate returns what allows or denies requests to the API server for objects of a [Controller],
// before anything is stored. It belongs into the field Validate.
//
//	Validate: sdk.Validate(func(r *sdk.Review, old, object *sdk.Object[Spec, Status]) error {
//		if old != nil && object.Spec.Zone != old.Spec.Zone {
//			return sdk.Denied("Invalid", errors.New("spec.zone cannot be changed"))
//		}
//		return nil
//	})
//
// old is the object as it is stored, nil if it is created, and object is what it would become, nil if
// it is deleted. Changes of them have no effect. The operations are OperationCreate and
// OperationUpdate, unless others are named.
//
// An error denies the request, with its text as the message; [Denied] adds a reason. The review has
// failed instead, so that the policy of the plugin decides, if a Get or List has failed, whose error
// the function returns or wraps, and if it returns [Retry], [Stalled] or [Waiting]. An object that
// does not fit the types is denied without a call.
//
// The function may run again for the same request, must not depend on anything but its arguments and
// what it reads, and has two seconds unless the policy says otherwise: the user waits for it.
func Validate[Spec, Status Value](validate func(r *Review, old, object *Object[Spec, Status]) error, operations ...Operation) *ValidatorOf[Spec, Status] {
	if validate == nil {
		panic("sdk.Validate: the function is nil")
	}
	return &ValidatorOf[Spec, Status]{func(c *abi.Controller, w *webhooks.Webhooks) {
		w.Validate = operationsOr(operations)
		guest.AddValidator(c.Name, func(h guest.Host, q *webhooks.ReviewRequest) (abi.Code, *webhooks.ReviewResult) {
			r, old, object, err := readReview[Spec, Status](h, q)
			if err == nil {
				err = validate(r, old, object)
			}
			return r.end(err)
		})
	}}
}

// Mutate returns what changes objects of a [Controller] before they are stored. It belongs into the
// field Mutate.
//
//	Mutate: sdk.Mutate(func(r *sdk.Review, old, object *sdk.Object[Spec, Status]) error {
//		if object.Spec.Replicas == 0 {
//			object.Spec.Replicas = 1
//		}
//		return nil
//	})
//
// The function changes object in place. What it has changed is changed in the object that is stored;
// members that the types do not have keep their bytes, also in the elements of an array, as long as
// the element has the same name, or the same place, as before. The name, namespace and UID cannot be
// changed, and changes of old have no effect. Its own result must satisfy it: it may be called once
// more, with that.
//
// Arguments and errors are those of [Validate]. The operations are OperationCreate and
// OperationUpdate, unless one of these is named.
func Mutate[Spec, Status Value](mutate func(r *Review, old, object *Object[Spec, Status]) error, operations ...Operation) *MutatorOf[Spec, Status] {
	if mutate == nil {
		panic("sdk.Mutate: the function is nil")
	}
	return &MutatorOf[Spec, Status]{func(c *abi.Controller, w *webhooks.Webhooks) {
		w.Mutate = operationsOr(operations)
		guest.AddMutator(c.Name, func(h guest.Host, q *webhooks.ReviewRequest) (abi.Code, *webhooks.ReviewResult) {
			r, old, object, err := readReview[Spec, Status](h, q)
			var before []byte
			if err == nil {
				before, err = object.encode()
			}
			if err == nil {
				err = mutate(r, old, object)
			}
			if err == nil {
				err = r.change(before, object.encode)
			}
			return r.end(err)
		})
	}}
}

// ValidatorOf is made by [Validate].
type ValidatorOf[Spec, Status Value] struct {
	register func(*abi.Controller, *webhooks.Webhooks) // a field, so that plugins without reviews do not contain their code
}

// MutatorOf is made by [Mutate].
type MutatorOf[Spec, Status Value] struct {
	register func(*abi.Controller, *webhooks.Webhooks)
}

func operationsOr(named []Operation) []Operation {
	if len(named) > 0 {
		return named
	}
	return []Operation{OperationCreate, OperationUpdate}
}

// Denied returns an error that denies the request of a review, with a reason: a CamelCase word, such
// as Invalid; "" for Forbidden. It does so whatever it wraps, except for [ErrUnavailable]. In a run
// it is an error like [Retry].
func Denied(reason string, err error) error { return &Error{Reason: reason, denied: true, err: err} }

// Review is what is asked of the API server, besides the object, and what a review answers besides
// its decision.
type Review struct {
	// Operation is what shall be done with the object.
	Operation Operation
	// DryRun is set if nothing will be stored.
	DryRun bool
	// User is who asks.
	User User
	// Now is the time of the review, UTC. Package time uses the same clock.
	Now time.Time
	// Log writes to the host's log.
	Log Log

	run    *Run   // for reads
	object []byte // JSON, nil if it is deleted
	old    []byte // JSON, nil if it is created
	result webhooks.ReviewResult
}

// readReview returns a review and its objects, of which one may be nil.
func readReview[Spec, Status Value](h guest.Host, q *webhooks.ReviewRequest) (r *Review, old, object *Object[Spec, Status], err error) {
	r = newReview(h, q)
	if q.Old != nil {
		old = new(Object[Spec, Status])
		if err = old.read(q.Old); err != nil {
			return r, nil, nil, Stalled("InvalidOld", errors.New("read the old object: "+err.Error()))
		}
	}
	if q.Object != nil {
		object = new(Object[Spec, Status])
		if err = object.read(q.Object); err != nil {
			err = Denied("Invalid", err)
		}
	}
	return r, old, object, err
}

func newReview(h guest.Host, q *webhooks.ReviewRequest) *Review {
	run := newRun(h, &abi.Request{Object: q.Object, Now: q.Now, Seed: q.Seed, Config: q.Config})
	return &Review{
		Operation: q.Operation, DryRun: q.DryRun, User: q.User, Now: q.Now, Log: run.Log,
		run: run, object: q.Object, old: q.Old,
	}
}

// Object returns the JSON of the whole object, nil if it is deleted. It must not be modified.
func (r *Review) Object() Raw { return r.object }

// Old returns the JSON of the whole object as it is stored, nil if it is created.
func (r *Review) Old() Raw { return r.old }

// Warn shows a text to who asks, whether the request is allowed or not. A review shows up to 16, of
// up to 256 bytes; what is beyond that is left out.
func (r *Review) Warn(text string) {
	if len(r.result.Warnings) < webhooks.MaxWarnings {
		r.result.Warnings = append(r.result.Warnings, text)
	}
}

// Audit adds a note to the audit log of the API server. The name consists of letters, digits, '-',
// '_' and '.'; of two notes of one name the last one counts. A review has up to 16 notes, with
// values of up to 1,024 bytes; what is beyond that is left out.
func (r *Review) Audit(name, value string) {
	all := r.result.AuditAnnotations
	if i := slices.IndexFunc(all, func(a webhooks.AuditAnnotation) bool { return a.Name == name }); i >= 0 {
		all[i].Value = value
	} else if len(all) < webhooks.MaxAuditAnnotations {
		r.result.AuditAnnotations = append(all, webhooks.AuditAnnotation{Name: name, Value: value})
	}
}

// Rand is [Run.Rand].
func (r *Review) Rand() *rand.Rand { return r.run.Rand() }

// Config is [Run.Config].
func (r *Review) Config(into Value) error { return r.run.Config(into) }

// Get is [Run.Get]. What it reads wakes nobody.
func (r *Review) Get(ref Ref, into Value, options ...ReadOption) error {
	return r.run.Get(ref, into, options...)
}

// List is [Run.List]. What it reads wakes nobody.
func (r *Review) List(query Query, into Value, options ...ReadOption) error {
	return r.run.List(query, into, options...)
}

// read reads an object.
func (o *Object[Spec, Status]) read(text []byte) error {
	_, err := readObject(rawjson.NewReader(text), &o.ObjectMeta, &o.Spec, &o.Status)
	return err
}

// encode returns what the author's types have of the object.
func (o *Object[Spec, Status]) encode() ([]byte, error) {
	return encodeParts(&o.ObjectMeta, &o.Spec, &o.Status)
}

func encodeParts(meta *ObjectMeta, spec, status any) ([]byte, error) {
	w := rawjson.NewWriter(make([]byte, 0, usualSize))
	var invalid error
	w.Object(func() {
		w.Name("metadata").Raw(appendJSONObjectMeta(nil, meta))
		for _, part := range []struct {
			name  string
			value any
		}{{"spec", spec}, {"status", status}} {
			text, err := encode(part.value)
			if err != nil && invalid == nil {
				invalid = errors.New("encode " + part.name + ": " + err.Error())
			}
			w.Name(part.name).Raw(text)
		}
	})
	return w.Bytes(), invalid
}

// change sets the object of the result to that of the request with what the author has changed.
func (r *Review) change(before []byte, encode func() ([]byte, error)) error {
	after, err := encode()
	if err != nil {
		return Stalled("InvalidObject", err)
	}
	if !bytes.Equal(before, after) {
		r.result.Object = rebase(r.object, before, after)
	}
	return nil
}

// end returns the code and the result of the review.
func (r *Review) end(err error) (abi.Code, *webhooks.ReviewResult) {
	switch {
	case err == nil:
		r.result.Allowed = true
	case fails(err):
		code, failure := failureOf(err)
		failure.After = 0
		return code, &webhooks.ReviewResult{Error: failure}
	default:
		r.result.Reason, r.result.Message, r.result.Object = reasonOf(err), err.Error(), nil
	}
	return abi.CodeOK, &r.result
}

// fails reports whether a review that returns the error has failed, and does not deny.
func fails(err error) bool {
	if errors.Is(err, ErrUnavailable) {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	if ok {
		return !e.denied
	}
	_, ok = errors.AsType[*ReadError](err)
	return ok || reasonOf(err) != ""
}
