package effect

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file deletes what a controller has created for a primary and does not name any more
// ([abi.Result.Prune]). The cache says what that may be; the API server decides.

// appliedBy returns the label of the controller for an object that is about to be applied; "" if it does
// not get it. A creation sets it, and a later apply keeps it if the controller has set it: anybody can write
// the label, but who has applied it, managedFields say. What was adopted never has it so.
func (p *plan) appliedBy(a plannedApply, have *object.Object, creates bool, fieldsOf func() (fieldSets, error)) (string, error) {
	if !p.target.Controller.Prune || !a.owned {
		return "", nil
	}
	value := abi.AppliedBy(p.Plugin, p.target.Controller.Name)
	if have == nil && creates {
		return value, nil
	}
	if have == nil || have.Labels[abi.LabelAppliedBy] != value {
		return "", nil
	}
	fields, err := fieldsOf()
	if err != nil || !ownsAppliedBy(fields.applied) && !ownsAppliedBy(fields.created) {
		return "", err
	}
	return value, nil
}

// ownsAppliedBy reports whether a set of fields (FieldsV1) has the label of what a controller has created.
func ownsAppliedBy(fields []byte) bool {
	return fields != nil && new(comparison).owns(fields, []byte(`{"metadata":{"labels":{"`+abi.LabelAppliedBy+`":""}}}`))
}

// prune deletes the objects of kinds in owns that the controller has created for the primary, and that no
// intent names.
func (s *session) prune(ctx context.Context) *Failure {
	if s.unheldWhileDeleting() { // how it is deleted says what becomes of its children
		return nil
	}
	unnamed, failure := s.unnamed(ctx)
	if failure != nil {
		return failure
	}
	for _, o := range unnamed {
		if err := s.pruneOne(ctx, o); err != nil {
			return failed(abi.VerbDelete, o.location.ref(), err)
		}
	}
	return nil
}

// created is an object that the cache shows to have been created for the primary.
type created struct {
	location
	*object.Object
}

// unnamed returns the objects that the controller has created for the primary, as far as the cache shows
// them, and that no intent names: the last one first.
func (p *plan) unnamed(ctx context.Context) (all []created, failure *Failure) {
	for _, kind := range abi.Kinds(p.target.Controller.Owns) {
		r, err := p.Store.Resource(ctx, kind)
		if err != nil {
			return nil, failed(abi.VerbDelete, kind.Ref("", ""), err)
		}
		owned, ok := p.Store.OwnedBy(kind, p.target.Object.Namespace, p.target.Object.UID)
		if !ok {
			return nil, failed(abi.VerbDelete, kind.Ref("", ""), newFailure(abi.ClassRetry, reasonCacheNotSynced, "prune: the host does not see all objects of the kind yet"))
		}
		for _, o := range owned {
			at := location{Resource: r, key: o.Key(), uid: string(o.UID), owned: true}
			if p.mayPrune(&o.ObjectMeta) && !p.named[at.id()] {
				all = append(all, created{at, o})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b created) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(b.Name, a.Name))
	})
	return all, nil
}

// mayPrune reports whether the metadata of an object says that the controller has created it for the primary.
func (p *plan) mayPrune(o *metav1.ObjectMeta) bool {
	owner := metav1.GetControllerOfNoCopy(o)
	return owner != nil && owner.UID == p.target.Object.UID && o.DeletionTimestamp == nil &&
		o.Labels[abi.LabelAppliedBy] == abi.AppliedBy(p.Plugin, p.target.Controller.Name)
}

// mayPruneIn checks whether the policy allows to delete an object that the controller has created.
func (p *plan) mayPruneIn(at *location) error {
	if err := p.mayChangeIn(at.key.Namespace); err != nil {
		return err
	}
	if !p.mayOwn(at, rights.Delete) {
		return notAllowed(at.Kind, "", rights.Delete, at.key.Namespace, p.target.Object.Namespace)
	}
	return nil
}

// isCreator reports whether the controller itself has set the label of what it creates.
func (p *plan) isCreator(meta metav1.PartialObjectMetadata) bool {
	manager := p.manager(p.target.Controller)
	return slices.ContainsFunc([]int{applierOf(meta, manager), creatorOf(meta, manager)}, func(i int) bool {
		return i >= 0 && meta.ManagedFields[i].FieldsV1 != nil && ownsAppliedBy(meta.ManagedFields[i].FieldsV1.GetRawBytes())
	})
}

// pruneOne deletes an object if the API server says that the controller has created it, as it is then.
func (s *session) pruneOne(ctx context.Context, o created) error {
	if err := s.mayPruneIn(&o.location); err != nil {
		return err
	}
	meta, err := s.client.metadata(ctx, o.Resource, o.key)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case meta.UID != o.UID, !s.mayPrune(&meta.ObjectMeta), !s.isCreator(meta):
		return nil // the cache is behind, or somebody else has set the label
	}
	if err := s.mayWrite(s.target); err != nil {
		return err
	}
	reply, err := s.client.delete(ctx, o.Resource, o.key, deleteOptions{uid: meta.UID, version: meta.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case s.DryRun:
		s.Logger.Info("dry run: would prune", "object", o.location.ref().String())
		return nil
	}
	s.Logger.Info("pruned", "object", o.location.ref().String(), "controller", s.target.Controller.Name, "primary", s.target.Object.Key().String())
	have := *o.Object
	have.ResourceVersion = meta.ResourceVersion
	s.recordDelete(o.location, &have, reply)
	return nil
}
