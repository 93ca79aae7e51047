package effect

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/host/object"
)

// This file has what the updates of the primary have in common: finalizers, annotations of the host and status.

// maxUpdates is how often an update of the primary is sent because another
// client changed the primary meanwhile.
const maxUpdates = 5

// update sends the patch that plan returns for the primary, nil for none. If
// the patch is refused, and changed reports that what it depends on has changed
// meanwhile, plan is called for what the primary is now: nil if it does not
// exist any more or another object has its name. update returns the primary
// before the patch and as the server returned it; both are nil if nothing was
// sent.
func (p *Performer) update(ctx context.Context, t Target, changed func(from, to *object.Object) bool, plan func(object.Resource, *object.Object) (*patch, error)) (before, reply *object.Object, err error) {
	if err := p.mayChangeIn(t.Object.Namespace); err != nil {
		return nil, nil, err
	}
	r, err := p.Store.Resource(ctx, t.Object.Kind)
	if err != nil {
		return nil, nil, err
	}
	o := t.Object
	for sent := 0; ; sent++ {
		next, err := plan(r, o)
		switch {
		case err != nil || next == nil:
			return nil, nil, err
		case sent == maxUpdates:
			return nil, nil, superseded("the object changed %d times during the write", sent)
		}
		if err := p.mayPatchPrimary(o, next.subresource()); err != nil {
			return nil, nil, err
		}
		if err := p.mayWrite(t); err != nil {
			return nil, nil, err
		}
		next.before = o
		reply, refused := p.patch(ctx, r, o.Key(), *next)
		if refused == nil {
			return o, reply, nil
		}
		fresh, err := p.reread(ctx, r, o, refused)
		if err != nil {
			return nil, nil, err
		}
		if fresh != nil && !changed(o, fresh) {
			return nil, nil, refused // for another reason than a change
		}
		o = fresh
	}
}

// reread returns an object as it is after a write of it was refused, nil if it
// does not exist any more or another object has its name. It returns refused
// if the reason cannot be a change of the object: a failed test of a JSON
// patch, for example, is 422.
func (p *Performer) reread(ctx context.Context, r object.Resource, o *object.Object, refused error) (*object.Object, error) {
	notFound := apierrors.IsNotFound(refused)
	if !notFound && !apierrors.IsConflict(refused) && !apierrors.IsInvalid(refused) {
		return nil, refused
	}
	fresh, err := p.client.get(ctx, r, o.Key())
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case fresh.UID != o.UID:
		return nil, nil
	case notFound:
		return nil, refused // the object exists, its subresource does not
	}
	return fresh, nil
}
