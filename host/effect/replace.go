package effect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file performs applies that replace an object which the API server refuses to change:
// [abi.Apply.Replace]. Nothing is deleted but what the primary controls, and nothing that the
// API server would not create.

const (
	reasonReplacing = "Replacing" // the object is being deleted, and is created anew once it is gone
	reasonReplaced  = "Replaced"  // of the Event
)

// mayReplace checks an intent with replace before any request.
func (p *plan) mayReplace(at *location) error {
	switch {
	case !at.owned:
		return invalid("replace: only objects that the primary owns are deleted to be created anew: list the kind in Owns of the controller")
	case !p.mayOwn(at, rights.Delete):
		return notAllowed(at.Kind, "", rights.Delete, at.key.Namespace, p.target.Object.Namespace)
	}
	return p.mayCreate(at)
}

// replace deletes an object that the API server refuses to change, and creates it anew. If
// something holds the old one, the run ends, and that of its deletion creates it. refused is
// the error of the apply, and is returned if the object is not to be replaced.
func (s *session) replace(ctx context.Context, a plannedApply, refused error) error {
	fields, ok := refusedFields(refused)
	if !ok {
		return refused
	}
	have, err := s.getLive(ctx, a.location)
	if err != nil {
		return err
	}
	if have != nil {
		if err := s.checkReplaced(ctx, a, have, refused); err != nil {
			return err
		}
		if have.Deleting() {
			return replacing(have)
		}
		if held, err := s.deleteReplaced(ctx, a, have, fields); err != nil || held {
			return err
		}
	}
	return s.applyTo(ctx, a, nil, noVersion)
}

// refusedFields returns the fields that the API server has found invalid in an apply. That
// another object has the name is none of them.
func refusedFields(refused error) (fields []string, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(refused, &status) || status.Status().Code != http.StatusUnprocessableEntity || classify(refused).Conflict {
		return nil, false
	}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Field != "" && !slices.Contains(fields, cause.Field) {
				fields = append(fields, cause.Field)
			}
		}
	}
	return fields, true
}

// checkReplaced returns why an object is not replaced. That the API server would create the
// object that it refuses to change is what shows that only the change is wrong: messages and
// causes of immutable fields have no common form.
func (s *session) checkReplaced(ctx context.Context, a plannedApply, have *object.Object, refused error) error {
	owner := have.Controller()
	switch {
	case owner == nil || owner.UID != s.target.Object.UID:
		return notReplaced(refused, "the primary does not control it")
	case have.Deleting():
		return nil
	case s.isMadeBy(a, have): // it would be replaced again and again
		return notReplaced(refused, "it was made by the same intent, and others have changed it since")
	}
	body, err := s.request(a, nil, "")
	if err != nil {
		return err
	}
	err = s.client.checkCreation(ctx, a, s.managerOf(a.location), body)
	switch {
	case err == nil:
		return nil
	case uncertain(err) || apierrors.IsTooManyRequests(err):
		return err
	case err.Error() == refused.Error(): // an invalid value
		return refused
	}
	return notReplaced(refused, "it could not be created anew: "+err.Error())
}

// isMadeBy reports whether the last apply of an object was the same intent. Without the annotation
// that is known as long as the host runs.
func (s *session) isMadeBy(a plannedApply, have *object.Object) bool {
	if a.annotation == "" {
		last := s.records.lastApply(a.id())
		return last != nil && last.intent == a.intent() && s.hasWritten(a, have) // else somebody else has made it
	}
	noted, _ := object.CutNotedBytes(have.Annotations[a.annotation])
	return noted == a.digest.String()
}

// hasWritten reports whether the cache shows that the field manager of the location has applied, or
// created, an object.
func (s *session) hasWritten(a plannedApply, have *object.Object) bool {
	applied, _ := have.AppliedBy(s.managerOf(a.location), a.Kind.APIVersion)
	created, _ := have.CreatedBy(s.managerOf(a.location), a.Kind.APIVersion)
	return applied != nil || created != nil
}

func notReplaced(refused error, why string) error {
	f := classify(refused)
	f.Message = sanitize.TruncateMiddle(f.Message, abi.MaxErrorMessage/2) + "; the object is not replaced, because " + why
	return f
}

// checkCreation returns why the API server would not create an object, nil if nothing but the
// one that exists is in the way. It checks everything else before that.
func (c client) checkCreation(ctx context.Context, a plannedApply, manager string, body []byte) error {
	_, err := send(ctx, c.rest.Post().AbsPath(a.Collection(a.key.Namespace)...).
		Param("fieldManager", manager).Param("dryRun", metav1.DryRunAll).Body(body))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// deleteReplaced deletes an object that nobody has changed since it was read. It reports
// whether it is still there afterwards; the error is then how the run ends. The delete takes
// no place under the limit of writes: that of the apply, which has changed nothing, is its own.
// With a place each, a run that waits for the second would begin with the first again.
func (s *session) deleteReplaced(ctx context.Context, a plannedApply, have *object.Object, fields []string) (held bool, err error) {
	reply, err := s.client.delete(ctx, a.Resource, a.key, deleteOptions{uid: have.UID, version: have.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err == nil || uncertain(err):
		s.tellReplaced(a, fields)
	}
	if err != nil {
		return true, err
	}
	if s.DryRun {
		return true, nil
	}
	s.recordDelete(a.location, have, reply)
	if now := s.report.Writes[len(s.report.Writes)-1].Object; now != nil {
		return true, replacing(now)
	}
	return false, nil
}

// tellReplaced emits the Event. The values that the API server names in its message may be
// large, or secret.
func (s *session) tellReplaced(a plannedApply, fields []string) {
	message := fmt.Sprintf("%s is deleted to be created anew, because the API server refuses to change it", a.ref())
	if len(fields) > 0 {
		message += ": " + strings.Join(fields, ", ")
	}
	if s.DryRun {
		s.Logger.Info("dry run: would replace", "object", a.ref().String(), "fields", fields)
	}
	s.emit(s.target, abi.Event{Type: abi.EventNormal, Reason: reasonReplaced, Message: sanitize.Truncate(message, abi.MaxEventMessage)})
}

// replacing is how a run ends whose object is created anew once the old one is gone. Its
// deletion starts the next run.
func replacing(have *object.Object) error {
	message := "the object is being deleted, and is created anew once it is gone"
	if len(have.Finalizers) > 0 {
		message += ": it is held by the finalizers " + strings.Join(have.Finalizers, ", ")
	}
	return newFailure(abi.ClassWaiting, reasonReplacing, message)
}
