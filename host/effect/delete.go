package effect

import (
	"cmp"
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file performs the deletes of a result.

// plannedDelete is a delete that was checked.
type plannedDelete struct {
	location
	propagation metav1.DeletionPropagation // "" for the default
	grace       *int64                     // in seconds; nil for the default of the kind
	version     string                     // the only resourceVersion that is deleted, "" for any
}

func (p *plan) planDelete(ctx context.Context, wanted abi.Delete) (d plannedDelete, err error) {
	d = plannedDelete{propagation: metav1.DeletionPropagation(wanted.Propagation), grace: wanted.GracePeriodSeconds, version: wanted.ResourceVersion}
	d.location, err = p.locate(ctx, wanted.Ref, rights.Delete)
	return d, err
}

// delete removes an object. Nothing is done if it does not exist or is being
// deleted already, unless it shall end sooner.
func (s *session) delete(ctx context.Context, d plannedDelete) error {
	have, err := s.findToDelete(ctx, d.location)
	if err != nil {
		return err
	}
	if have == nil || d.uid != "" && string(have.UID) != d.uid {
		s.records.setAbsent(d.id())
		return nil
	}
	if err := s.mayDelete(d.location, have); err != nil || have.Deleting() && !d.shortens(have) {
		return err
	}
	if err := s.mayWrite(s.target); err != nil {
		return err
	}
	reply, err := s.client.delete(ctx, d.Resource, d.key, deleteOptions{
		uid: have.UID, version: cmp.Or(d.version, s.onlyVersion(have.ResourceVersion)), propagation: d.propagation, grace: d.grace,
	})
	switch {
	case apierrors.IsNotFound(err):
		s.records.setAbsent(d.id())
	case apierrors.IsConflict(err):
		return s.explainRefusedDelete(ctx, d, have, err)
	case err != nil:
		return err
	case s.DryRun:
		s.Logger.Info("dry run: would delete", "object", d.ref().String())
	default:
		s.recordDelete(d.location, have, reply)
	}
	return nil
}

// shortens reports whether the delete leaves less time than an object has that is being
// deleted already. The API server never lengthens that time, nor does it change what
// becomes of the dependents.
func (d plannedDelete) shortens(have *object.Object) bool {
	return d.grace != nil && have.DeletionGracePeriodSeconds != nil && *d.grace < *have.DeletionGracePeriodSeconds
}

// findToDelete returns the object to delete, nil if there is none. If the
// cache does not have the object, the server is asked once; if it cannot have it, in
// each run, unless it is one that the primary owned.
func (s *session) findToDelete(ctx context.Context, d location) (*object.Object, error) {
	have, shown := s.cached(ctx, d)
	switch {
	case have != nil && (d.uid == "" || d.uid == string(have.UID)):
		return have, nil
	case s.records.isAbsent(d.id()) && (shown == Absent || shown == Unselected && d.owned):
		return nil, nil
	}
	return s.getLive(ctx, d)
}

// explainRefusedDelete distinguishes an object that was replaced meanwhile
// from another conflict. An object that was named by its UID does not exist
// any more then, which is what was wanted.
func (s *session) explainRefusedDelete(ctx context.Context, d plannedDelete, have *object.Object, refused error) error {
	fresh, err := s.reread(ctx, d.Resource, have, refused)
	switch {
	case err != nil:
		return err
	case fresh != nil && d.version != "" && d.version != fresh.ResourceVersion:
		f := classify(refused)
		f.Message = "the object has changed since the resourceVersion " + quote(d.version) + " of the intent: decide with the object as it is now"
		return f
	case fresh != nil:
		return refused
	case d.uid != "":
		s.records.setAbsent(d.id())
		return nil
	}
	return superseded("the object was replaced by another one of its name")
}

// recordDelete records and reports a delete. The reply is a Status, or the object:
// as it was, or as it is while finalizers or a grace period hold it.
func (s *session) recordDelete(d location, have *object.Object, reply []byte) {
	s.records.setAbsent(d.id())
	s.Logger.Debug("wrote", "verb", abi.VerbDelete, "object", d.ref().String())
	w := newDeletion(abi.VerbDelete, have)
	if o, err := object.Parse(reply, d.Kind); err == nil && o.Kind == d.Kind && o.UID == have.UID && o.Deleting() && !isLastUpdate(o) {
		w = newWrite(abi.VerbDelete, o, digest{})
	}
	s.chargeDeleted(have, w.Object)
	s.report.Writes = append(s.report.Writes, w)
}
