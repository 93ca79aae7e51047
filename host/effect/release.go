package effect

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file releases the fields that a primary has applied to objects that it
// does not own (shared.go). An apply without fields removes those that no other
// manager owns, and the primary's annotation.

// Release gives up the fields of the objects that the primary shares: those that
// the last result, performed by [Performer.PerformIntents], did not name, or all.
// An object that only this primary shares and that it has created is left as it
// is. All are tried; the failure is that of the first.
func (p *Performer) Release(ctx context.Context, t Target, all bool) (Report, *Failure) {
	return p.releaseOf(ctx, t.Controller, t.Object.Key(), all, func() error { return p.mayWrite(t) })
}

// ReleaseGone gives up all fields of a primary that the cache does not have any
// more, unless the API server still has it.
func (p *Performer) ReleaseGone(ctx context.Context, c *abi.Controller, primary object.Key) (Report, *Failure) {
	if len(p.shares.list(sharerOf(c, primary), true)) == 0 {
		return Report{}, nil
	}
	r, err := p.Store.Resource(ctx, c.For.Kind)
	if err == nil {
		_, err = p.client.get(ctx, r, primary)
	}
	switch {
	case err == nil:
		return Report{}, nil
	case isUnknownKind(err) || apierrors.IsNotFound(err):
		return p.releaseOf(ctx, c, primary, true, func() error { return nil })
	}
	return Report{}, failed(abi.VerbApply, c.For.Ref(primary.Namespace, primary.Name), err)
}

// releaseOf releases the fields of a primary. mayWrite is called before each write.
func (p *Performer) releaseOf(ctx context.Context, c *abi.Controller, primary object.Key, all bool, mayWrite func() error) (report Report, first *Failure) {
	who := sharerOf(c, primary)
	for _, s := range p.shares.list(who, all) {
		r := release{Performer: p, share: s, controller: c, primary: primary, all: all, mayWrite: mayWrite, report: &report}
		released, err := all && r.isPrimary(), error(nil) // which disappears with its fields
		if !released {
			released, err = r.perform(ctx)
		}
		if err != nil && first == nil {
			first = failed(abi.VerbApply, r.ref(), err)
			first.Message = "release the fields that an earlier run has applied: " + first.Message
		}
		if err == nil && (released || all) {
			p.shares.drop(who, s.kind, s.key)
		}
	}
	return report, first
}

// release gives up the fields of one primary on one object.
type release struct {
	*Performer
	share
	controller *abi.Controller
	primary    object.Key
	all        bool // nothing remembers the object afterwards
	mayWrite   func() error
	report     *Report
}

// perform returns released if there is nothing to release any more. It sends
// nothing that could create the object, or change another one of its name.
func (r release) perform(ctx context.Context) (released bool, err error) {
	end, err := r.turns.take(ctx, objectIDOf(r.kind, r.key))
	if err != nil {
		return false, err
	}
	defer end()
	annotation := r.sharedAnnotation(r.controller, r.primary)
	if have, _ := r.Store.Get(r.kind, r.key); !r.all && have != nil && r.isOnlyCreator(have.Annotations, annotation) {
		return false, nil
	}
	if err := r.mayChangeIn(r.key.Namespace); err != nil { // any more
		r.Logger.Warn("the fields of a primary stay on an object", "object", r.ref().String(), "primary", r.primary.String(), "reason", err)
		return true, nil
	}
	at, err := r.Store.Resource(ctx, r.kind)
	if isUnknownKind(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !r.Allow.Reach(r.kind, "", rights.Patch).Has(at.Namespaced, r.key.Namespace, r.primary.Namespace) { // any more
		r.Logger.Warn("the fields of a primary stay on an object", "object", r.ref().String(), "primary", r.primary.String(),
			"reason", notAllowed(r.kind, "", rights.Patch, r.key.Namespace, r.primary.Namespace))
		return true, nil
	}
	meta, err := r.client.metadata(ctx, at, r.key)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	case r.isOnlyCreator(meta.Annotations, annotation):
		return false, nil
	case applierOf(meta, r.manager()) < 0 && creatorOf(meta, r.manager()) < 0 || r.ownedByOther(meta):
		return true, nil
	case r.DryRun:
		r.Logger.Info("dry run: would release the fields of a primary", "object", r.ref().String(), "primary", r.primary.String())
		return true, nil
	}
	if creatorOf(meta, r.manager()) >= 0 { // what it has set there stays
		if err := r.mayWrite(); err != nil {
			return false, err
		}
		h := handover{from: r.manager(), to: r.manager(), annotation: annotation}
		if _, err := r.patchManagers(ctx, at, r.key, meta, h); err != nil {
			return false, err
		}
		if meta, err = r.client.metadata(ctx, at, r.key); apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, r.send(ctx, at, meta)
}

// isOnlyCreator reports whether an object was made by the primary, which has that annotation, and
// no other primary applies fields of it.
func (r release) isOnlyCreator(annotations map[string]string, annotation string) bool {
	value, annotated := annotations[annotation]
	if !annotated {
		return r.created && sharers(annotations) == 0
	}
	return readNote(value).created && sharers(annotations) == 1
}

func (r release) isPrimary() bool {
	return objectIDOf(r.kind, r.key) == objectIDOf(r.controller.For.Kind, r.primary)
}

func (r release) manager() string { return r.sharedManager(r.controller, r.primary) }
func (r release) ref() abi.Ref    { return r.kind.Ref(r.key.Namespace, r.key.Name) }

// ownedByOther reports whether an object has another controller than the
// primary. Such an object is never changed.
func (r release) ownedByOther(meta metav1.PartialObjectMetadata) bool {
	owner := metav1.GetControllerOf(&meta)
	return owner != nil && (owner.Kind != r.controller.For.Kind.Kind || owner.Name != r.primary.Name)
}

// send sends an apply of nothing but the object's identity. If the object would
// not be valid without the fields, they stay and belong to nobody.
func (r release) send(ctx context.Context, at object.Resource, meta metav1.PartialObjectMetadata) error {
	if err := r.mayWrite(); err != nil {
		return err
	}
	before := &object.Object{Kind: r.kind, ObjectMeta: meta.ObjectMeta} // its managedFields have no sizes
	reply, err := r.patch(ctx, at, r.key, patch{
		patchType: types.ApplyPatchType, manager: r.manager(), body: r.identity(meta), before: before, frees: true,
	})
	if err == nil {
		r.add(r.report, abi.VerbApply, before, reply, digest{})
		return nil
	}
	fresh, rereadErr := r.reread(ctx, at, before, err)
	switch {
	case rereadErr != nil:
		return rereadErr
	case fresh == nil: // it does not exist any more
		return nil
	case !apierrors.IsInvalid(err):
		return err
	}
	r.Logger.Warn("the object is not valid without the fields of a primary: they stay", "object", r.ref().String(), "primary", r.primary.String(), "error", err)
	reply, err = r.patchManagers(ctx, at, r.key, meta, handover{from: r.manager(), annotation: r.sharedAnnotation(r.controller, r.primary)})
	if err == nil {
		r.add(r.report, abi.VerbApply, before, reply, digest{})
	}
	return err
}

// identity returns the body of an apply without fields.
func (r release) identity(meta metav1.PartialObjectMetadata) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(r.kind.APIVersion)
		w.Name("kind").String(r.kind.Kind)
		w.Name("metadata").Object(func() {
			w.Name("name").String(r.key.Name)
			if r.key.Namespace != "" {
				w.Name("namespace").String(r.key.Namespace)
			}
			w.Name("uid").String(string(meta.UID))
			if version := r.onlyVersion(meta.ResourceVersion); version != "" {
				w.Name("resourceVersion").String(version)
			}
		})
	})
	return w.Bytes()
}
