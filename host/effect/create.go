package effect

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file performs applies that only create: [abi.Apply.Create].

// reasonAlreadyExists is also that of the API server.
const reasonAlreadyExists = string(metav1.StatusReasonAlreadyExists)

// create creates an object by POST, which changes none. It succeeds without a request if the
// object is the one that it would create: the reply to an earlier request was lost, or the
// result is performed again. Any other object that the cache shows may be gone by now.
func (s *session) create(ctx context.Context, a plannedApply) error {
	have, shown := s.cached(ctx, a.location)
	if have != nil {
		if made, err := s.hasCreated(ctx, a, have); err != nil || made {
			return err
		}
	}
	var err error
	if have != nil || shown == Unknown {
		have, err = s.getLive(ctx, a.location)
	}
	if err == nil && have == nil {
		refused := s.post(ctx, a)
		if !apierrors.IsAlreadyExists(refused) {
			return refused
		}
		if have, err = s.getLive(ctx, a.location); err == nil && have == nil {
			f := newFailure(abi.ClassRetry, reasonSuperseded, fmt.Sprintf("another object had the name when this one was created, and is gone (%v)", refused))
			f.Conflict = s.records.setTaken(a.id()) // it may be a webhook that says so, each time
			err = f
		}
	}
	if err != nil {
		return err
	}
	if made, err := s.hasCreated(ctx, a, have); err != nil || made {
		return err
	}
	return s.taken(a, have)
}

// post sends the request. There is no version of an object that it could be in conflict with: any
// 409 but that the object exists is of an admission plugin or a webhook, and is told.
func (s *session) post(ctx context.Context, a plannedApply) error {
	s.records.dropApplied(a.id()) // it is about an object that is gone
	if !a.owned {                 // before the request, whose reply may be lost
		s.shares.add(s.sharer(), a.Kind, a.key, true)
	}
	var err error
	if a.appliedBy, err = s.appliedBy(a, nil, true, nil); err != nil {
		return err
	}
	err = s.sendApply(ctx, a, nil, applyOptions{})
	if !apierrors.IsConflict(err) {
		return err
	}
	f := classify(err)
	f.Conflict = false
	return f
}

// hasCreated reports whether an object is what an intent with create has led to, whatever
// others have changed since. One that is being deleted is not what the intent wants. If it has no
// annotation ([abi.AppliedMemory], or no room), and unless another intent is known to have been the
// last one, the names of the fields show it: the API server may store their values in another form.
func (s *session) hasCreated(ctx context.Context, a plannedApply, have *object.Object) (bool, error) {
	owner := have.Controller()
	if have.Deleting() || a.owned && (owner == nil || owner.UID != s.target.Object.UID) {
		return false, nil
	}
	annotation, wanted := a.annotation, a.value(nil)
	if a.owned { // whatever the manifest says now
		annotation, wanted = AppliedAnnotation, a.digest.String()
	}
	value, annotated := have.Annotations[annotation]
	last := s.records.lastApply(a.id())
	remembers := !annotated
	noted, _ := object.CutNotedBytes(value)
	wanted, _ = object.CutNotedBytes(wanted)
	if remembers && last != nil && !a.isIntent(last.intent) || !remembers && noted != wanted {
		return false, nil
	}
	fields, err := s.fieldsOf(ctx, a, have)
	switch {
	case err != nil:
		return false, err
	case !remembers: // somebody else may have copied the annotation
		mark := []byte(`{"metadata":{"annotations":{` + quote(annotation) + `:""}}}`)
		return slices.ContainsFunc([][]byte{fields.applied, fields.created}, func(set []byte) bool { return set != nil && new(comparison).owns(set, mark) }), nil
	}
	return a.hasNames(fields, last != nil)
}

// isIntent reports whether an apply was recorded with the same intent, with the annotation or without.
func (a plannedApply) isIntent(recorded digest) bool {
	return recorded == a.digest || recorded == a.remembered() || recorded == a.withoutRoom().intent()
}

// hasNames reports whether the names of the fields that a field manager has of an object show that
// an intent has created it: by POST or, by an earlier version of the host, by an apply, which had
// no other fields than the intent. If the intent is known to have been the last one, the owner is
// enough, or that the manager of the primary has created it, since a webhook may have taken a field out.
func (a plannedApply) hasNames(fields fieldSets, known bool) (bool, error) {
	labelled, err := rawjson.MergePatch(a.body, anyLabels)
	if err != nil || fields.applied != nil && (&comparison{namesOnly: true}).isSame(fields.applied, labelled, labelled) {
		return err == nil, err
	}
	wanted, err := rawjson.MergePatch(a.body, notCreated)
	if err == nil && known {
		wanted = []byte(`{}`)
		if owners, _ := rawjson.Lookup(a.body, "metadata", "ownerReferences"); owners != nil {
			wanted = []byte(`{"metadata":{"ownerReferences":` + string(owners) + `}}`)
		}
	}
	return fields.created != nil && hasMembers(fields.created, wanted), err
}

// anyLabels is a merge patch that adds the labels of the host.
var anyLabels = []byte(`{"metadata":{"labels":{"` + abi.LabelManagedBy + `":"","` + abi.LabelAppliedBy + `":""}}}`)

// notCreated is a merge patch that removes what a creation leaves no fields of: what names the
// object. Finalizers are there to be removed.
var notCreated = []byte(`{"apiVersion":null,"kind":null,"metadata":{"name":null,"namespace":null,"finalizers":null}}`)

// taken is the error of an object that is not created because there is another one of its
// name. For the first time that is a race, which the next run decides: it may choose another
// name, or read who has this one. If the next run of the primary names the object again, it is
// a failure like others.
func (s *session) taken(a plannedApply, have *object.Object) error {
	f := newFailure(abi.ClassRetry, reasonAlreadyExists, fmt.Sprintf(
		"the name is taken by %s, which children.Create() does not change: choose another name, or leave children.Create() out to change what the primary owns", s.describeTaker(a, have)))
	f.Conflict = s.records.setTaken(a.id())
	return f
}

func (s *session) describeTaker(a plannedApply, have *object.Object) string {
	owner := have.Controller()
	_, annotated := have.Annotations[a.annotation]
	applied := annotated || a.annotation == "" && s.hasWritten(a, have)
	primary := s.target.Object
	switch {
	case owner != nil && owner.UID != primary.UID && owner.Kind == primary.Kind.Kind && owner.Name == primary.Name:
		return "an object that an earlier object of the primary's name controls"
	case owner != nil && owner.UID != primary.UID:
		return fmt.Sprintf("an object that is controlled by %s %s %s", owner.APIVersion, owner.Kind, owner.Name)
	case have.Deleting():
		return "an object that is being deleted"
	case applied && (owner != nil || !a.owned):
		return "what another intent of the primary has made"
	case owner != nil:
		return "an object of the primary that something else has made"
	}
	return "an object that nobody controls"
}
