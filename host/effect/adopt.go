package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file makes the primary the controller of an object that has none (abi/spec/writes.md, "Adoption
// and release"): alone, or before fields are applied. Neither of the two may be being deleted.
// Of the object that is certain because each write names the resourceVersion that was judged;
// the primary is read from the API server.

// adopt makes the primary the controller of an object, and changes nothing else of it.
func (s *session) adopt(ctx context.Context, a plannedApply) error {
	have, shown := s.cached(ctx, a.location)
	a.unselected = shown == Unselected
	if have == nil || a.uid != "" && string(have.UID) != a.uid { // the cache may be behind
		var err error
		if have, err = s.getLive(ctx, a.location); err != nil {
			return err
		}
	}
	return s.adoptObject(ctx, a, have)
}

// lockAdoptions waits until no other adoption of the plugin is under way if this one could make
// objects own each other. What the primary controls, as far as the cache shows, is not adopted:
// [session.mayAdopt] refuses it without the lock.
func (s *session) lockAdoptions(ctx context.Context, a plannedApply) (unlock func(), err error) {
	s.locked = false
	if !a.adopt || !s.AdoptsPrimaries {
		return func() {}, nil
	}
	if have, _ := s.cached(ctx, a.location); have != nil {
		if owner := have.Controller(); owner != nil && owner.UID == s.target.Object.UID {
			return func() {}, nil
		}
	}
	adopting := s.adopting // the function must not hold the session, which would cost every call an allocation
	select {
	case adopting <- struct{}{}:
		s.locked = true
		return func() { <-adopting }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another adoption of the plugin: %w", context.Cause(ctx))
	}
}

// adoptObject is [session.adopt] of an object that was found; nil if there is none.
func (s *session) adoptObject(ctx context.Context, a plannedApply, have *object.Object) error {
	adopts := false
	write := ownersWrite{verb: abi.VerbApply, content: a.digest}
	changed, err := s.patchOwners(ctx, a.location, have, write, func(o *object.Object) ([]byte, error) {
		body, err := s.adoptionPatch(a, o)
		if adopts = o != nil && o.Controller() == nil; adopts && err == nil {
			err = s.mayAdopt(ctx, o)
		}
		return body, err
	})
	if changed && adopts {
		s.records.dropApplied(a.id()) // it is about another object, or one that others have had since
		s.logOwner("adopted", a.ref())
	}
	return err
}

// adoptionPatch returns the patch that adopts an object, nil if it is the primary's already.
func (p *plan) adoptionPatch(a plannedApply, o *object.Object) ([]byte, error) {
	if o == nil || a.uid != "" && string(o.UID) != a.uid {
		return nil, newFailure(abi.ClassRetry, string(metav1.StatusReasonNotFound),
			"the object to adopt does not exist: an apply with adopt creates it only if it has fields")
	}
	isChild, err := p.mayApply(a, o)
	switch {
	case err != nil:
		return nil, err
	case isChild && (!p.lacksLabel(a, o) || o.Deleting()):
		return nil, nil
	case isChild:
		return metadataPatch(o, func(w *rawjson.Writer) { p.writeLabels(w, a) }), nil
	}
	owners, err := p.withController(o)
	if err != nil {
		return nil, err
	}
	return metadataPatch(o, func(w *rawjson.Writer) {
		writeOwners(w, owners)
		p.writeLabels(w, a)
	}), nil
}

// withController returns the owner references of an object with the primary as its controller.
// The others keep their bytes.
func (p *plan) withController(o *object.Object) ([][]byte, error) {
	owners, err := referencesOf(o)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == p.target.Object.UID })
	if at < 0 {
		return append(owners, controllerReference(p.target.Object)), nil
	}
	owners[at], err = rawjson.MergePatch(owners[at], []byte(`{"controller":true,"blockOwnerDeletion":true}`))
	return owners, err
}

// adopts reports whether an apply would make the primary the controller of an object that
// exists, if [session.mayApply] allows it.
func (a plannedApply) adopts(have *object.Object) bool {
	return a.owned && have != nil && have.Controller() == nil
}

// mayAdopt checks whether the primary can become the controller of an object that has none.
func (s *session) mayAdopt(ctx context.Context, o *object.Object) error {
	if err := s.canAdopt(o, s.reloading(ctx)); err != nil {
		return err
	}
	if s.AdoptsPrimaries && !s.locked {
		return superseded("the object has no controller any more, and was the primary's")
	}
	return s.checkPrimary(ctx)
}

// canAdopt is [session.mayAdopt] as far as the objects show it that fresh returns, see [plan.owns].
func (p *plan) canAdopt(o *object.Object, fresh func(*object.Object) (*object.Object, error)) error {
	switch {
	case p.target.Object.Deleting():
		return newFailure(abi.ClassRetry, reasonBeingDeleted, "the primary is being deleted and adopts nothing: leave the intent out of a cleanup")
	case o.Deleting():
		return newFailure(abi.ClassRetry, reasonBeingDeleted, "the object is being deleted and cannot be adopted: wait until it is gone")
	}
	owns, err := p.owns(o.UID, p.target.Object, fresh)
	if err == nil && owns {
		err = denied(reasonOutOfScope, "the object owns the primary, or an owner of it: two objects that own each other are both deleted when one of them is; "+
			"release one of them first, or leave the intent out")
	}
	return err
}

// maxOwners bounds how many owners of an object are looked at.
const maxOwners = 64

// owns reports whether an object is, or owns, another one: directly, or by objects that the plugin
// follows. fresh returns each of the others as it is now; nil: as the cache shows it.
func (p *plan) owns(uid types.UID, other *object.Object, fresh func(*object.Object) (*object.Object, error)) (bool, error) {
	if other.UID == uid {
		return true, nil
	}
	seen, next := map[types.UID]bool{}, []*object.Object{other}
	for len(next) > 0 && len(seen) < maxOwners {
		of := next[0]
		next = next[1:]
		if fresh != nil {
			var err error
			if of, err = fresh(of); err != nil {
				return false, err
			}
		}
		for _, r := range of.OwnerReferences {
			if r.UID == uid {
				return true, nil
			}
			owner := p.followedOwner(abi.Ref{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID)}, of.Namespace)
			if owner != nil && !seen[r.UID] {
				seen[r.UID] = true
				next = append(next, owner)
			}
		}
	}
	return false, nil
}

// reloading returns what reads an object from the API server, as it was if it is gone; nil if the cache decides. It
// does not hold a session, which would cost every call an allocation.
func (p *Performer) reloading(ctx context.Context) func(*object.Object) (*object.Object, error) {
	if !p.AdoptsPrimaries {
		return nil
	}
	return func(o *object.Object) (*object.Object, error) {
		r, err := p.Store.Resource(ctx, o.Kind)
		if err != nil {
			return nil, err
		}
		fresh, err := p.getLive(ctx, location{Resource: r, key: o.Key()})
		if err != nil || fresh == nil || fresh.UID != o.UID {
			return o, err
		}
		return fresh, nil
	}
}

// checkPrimary checks once in a run that the API server has the primary and that it is not
// being deleted: the cache may be behind, and the garbage collector deletes what a primary
// owns that is gone.
func (s *session) checkPrimary(ctx context.Context) error {
	if s.primaryLives {
		return nil
	}
	primary := s.target.Object
	r, err := s.Store.Resource(ctx, primary.Kind)
	if err != nil {
		return err
	}
	meta, err := s.client.metadata(ctx, r, primary.Key())
	switch {
	case apierrors.IsNotFound(err), err == nil && meta.UID != primary.UID:
		return superseded("the primary does not exist any more and can adopt nothing")
	case err != nil:
		return err
	case meta.DeletionTimestamp != nil:
		return superseded("the primary is being deleted and adopts nothing")
	}
	s.primaryLives = true
	return nil
}

// applyAgain handles the refusal of an apply that was to adopt an object, or is of one that is
// shared, for that version of it. If the object has changed, it is judged and applied again. If
// its reference to the primary says that it is not the controller, and nothing else is in
// conflict, the reference is changed first: an apply without force cannot.
func (s *session) applyAgain(ctx context.Context, a plannedApply, have *object.Object, refused error) error {
	byReference := s.conflictsInReference(refused)
	a.attempts++
	switch {
	case !byReference && !classify(refused).Conflict || a.attempts > maxUpdates:
		return refused
	case byReference:
		if err := s.adoptObject(ctx, a, have); err != nil || s.DryRun {
			return err
		}
	}
	fresh, err := s.reread(ctx, a.Resource, have, refused)
	switch {
	case err != nil:
		return err
	case fresh == nil:
		return superseded("the object was deleted or replaced by another one of its name")
	case fresh.ResourceVersion == have.ResourceVersion:
		return refused // for another reason than a change
	}
	return s.applyTo(ctx, a, like(have, fresh), noVersion)
}

// conflictsInReference reports whether the API server has refused an apply because of nothing
// but what somebody else has set in the reference to the primary.
func (s *session) conflictsInReference(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	causes := status.Status().Details.Causes
	path := `.metadata.ownerReferences[uid="` + string(s.target.Object.UID) + `"]`
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(c metav1.StatusCause) bool {
		return c.Type != metav1.CauseTypeFieldManagerConflict || !strings.HasPrefix(c.Field, path)
	})
}
