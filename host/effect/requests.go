package effect

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file returns what would be sent for a run as a function of its decision, the object and the cache.

// Wanted is what a run has decided.
type Wanted struct {
	Finalizer bool        // the primary gets the finalizer of the controller
	Result    *abi.Result // whose intents are performed; nil: none are
	Status    Status
	Removal   bool // the finalizer is removed
}

// Request is a request that changes an object.
type Request struct {
	Verb     string // abi.VerbFinalizer to abi.VerbStatus
	Resource object.Resource
	Key      object.Key
	Status   bool            // of the subresource /status
	Create   bool            // by POST
	Type     types.PatchType // of a patch; "" for a deletion
	Manager  string          // the field manager
	Force    bool
	Body     []byte // nil for a deletion
}

// Requests returns what a [Performer] sends for a run, in this order, if every object is as the cache shows it and
// nothing is known of earlier runs: finalizer, patch, releases, applies, deletes, what is pruned, status, and the
// removal of the finalizer. Of two requests for one object both name the version that the cache shows. What the cache
// shows to change nothing is left out, and so are fields that go from one field manager to another (handover.go). A failure of an intent of a group ends the group, any other all that follows.
func (p *Planner) Requests(ctx context.Context, t Target, want Wanted) (requests []Request, failures []*Failure) {
	r := requester{plan: plan{Planner: p, target: t}, ended: map[string]bool{}}
	var err error
	if r.primary, err = p.Store.Resource(ctx, t.Object.Kind); err != nil {
		return nil, []*Failure{failed(abi.VerbPatch, t.Object.Ref(), err)}
	}
	name := Finalizer(p.Plugin, t.Controller.Name)
	if want.Finalizer {
		r.ofPrimary(abi.VerbFinalizer, func() (*patch, error) { return r.finalizer(additionOf(name, t.Object)) })
	}
	if want.Result != nil {
		r.intents(ctx, want.Result)
	}
	if !t.Object.MetadataOnly {
		r.ofPrimary(abi.VerbStatus, func() (*patch, error) {
			return p.statusPatch(ctx, r.primary, t, want.Status, statusReplies{pruned: &prunedFields{}}, &statusChange{})
		})
	}
	if want.Removal {
		r.ofPrimary(abi.VerbFinalizer, func() (*patch, error) { return r.finalizer(removalOf(name, t.Object), nil) })
	}
	return r.requests, r.failures
}

// requester makes the requests of one run.
type requester struct {
	plan
	primary  object.Resource // how the kind of the primary is served
	requests []Request
	failures []*Failure
	ended    map[string]bool // the groups that have failed; "" for the run
}

// step adds a request, nil for none, unless the run or the group has ended.
func (r *requester) step(verb string, at location, next func() (*patch, error)) {
	if r.ended[""] || r.ended[at.group] {
		return
	}
	failure := at.refused
	if failure == nil {
		p, err := next()
		if err == nil {
			r.add(verb, at, p)
			return
		}
		failure = at.inGroup(failed(verb, at.ref(), err))
	}
	r.failures = append(r.failures, failure)
	r.ended[at.group] = true
	r.ended[""] = r.ended[""] || !failure.endsGroup()
}

func (r *requester) add(verb string, at location, p *patch) {
	if p != nil {
		r.requests = append(r.requests, Request{
			Verb: verb, Resource: at.Resource, Key: at.key, Status: p.status, Create: p.create, Type: p.patchType, Manager: p.manager, Force: p.force, Body: p.body,
		})
	}
}

// ofPrimary adds a request for the primary, unless that must not be changed so.
func (r *requester) ofPrimary(verb string, next func() (*patch, error)) {
	primary := r.target.Object
	r.step(verb, location{Resource: r.primary, key: primary.Key()}, func() (*patch, error) {
		p, err := next()
		if err == nil && p != nil {
			err = r.mayChangeIn(primary.Namespace)
		}
		if err == nil && p != nil {
			err = r.mayPatchPrimary(primary, p.subresource())
		}
		return p, err
	})
}

func (r *requester) finalizer(next *operation, err error) (*patch, error) {
	if err != nil || next == nil {
		return nil, err
	}
	p, err := r.finalizerPatch(r.target.Controller, r.target.Object, *next, "")
	return &p, err
}

func (r *requester) intents(ctx context.Context, result *abi.Result) {
	if failure := r.check(ctx, r.Planner, r.target, result, r.Managed); failure != nil {
		r.failures, r.ended[""] = append(r.failures, failure), true
		return
	}
	if len(result.Patch) > 0 {
		r.ofPrimary(abi.VerbPatch, func() (*patch, error) {
			if _, noop, err := (patchRecord{}).isNoop(r.target.Object, result.Patch); err != nil || noop {
				return nil, err
			}
			p, err := r.primaryPatch(r.target.Object, result.Patch, "")
			return &p, err
		})
	}
	for _, at := range r.disowns {
		r.step(abi.VerbRelease, at, func() (*patch, error) { return r.ownersPatch(r.disownPatch(at, r.shown(at))) })
	}
	for _, a := range r.applies {
		r.step(abi.VerbApply, a.location, func() (*patch, error) { return r.applyOf(a) })
	}
	for _, d := range r.deletes {
		r.step(abi.VerbDelete, d.location, func() (*patch, error) { return r.deletion(d) })
	}
	if result.Prune && len(r.ended) == 0 && !r.unheldWhileDeleting() {
		all, failure := r.unnamed(ctx)
		if failure != nil {
			r.failures, r.ended[""] = append(r.failures, failure), true
		}
		for _, o := range all {
			r.step(abi.VerbDelete, o.location, func() (*patch, error) { return &patch{}, r.mayPruneIn(&o.location) })
		}
	}
}

// shown returns an object as the cache shows it, nil if it does not.
func (r *requester) shown(at location) *object.Object {
	have, _ := r.Store.Get(at.Kind, at.key)
	return have
}

func (r *requester) ownersPatch(body []byte, err error) (*patch, error) {
	if err != nil || body == nil {
		return nil, err
	}
	return &patch{patchType: types.MergePatchType, manager: r.manager(r.target.Controller), body: body}, nil
}

// applyOf returns the request of an apply, nil if the cache shows that it would change nothing.
func (r *requester) applyOf(a plannedApply) (*patch, error) {
	have, shown := r.Store.Get(a.Kind, a.key)
	a.unselected = shown == Unselected
	switch {
	case a.alone:
		body, err := r.adoptionPatch(a, have)
		if err == nil && a.adopts(have) {
			err = r.canAdopt(have, nil)
		}
		return r.ownersPatch(body, err)
	case a.create && have != nil:
		return nil, nil // it was created before, or the name is taken, which managedFields say
	case have == nil:
		if err := r.mayCreate(&a.location); err != nil {
			return nil, err
		}
	}
	force, err := r.mayApply(a, have)
	if err == nil && a.adopts(have) {
		err = r.canAdopt(have, nil)
	}
	if err != nil {
		return nil, err
	}
	kept := func() (fieldSets, error) { return r.keptFields(a, have), nil }
	if a.appliedBy, err = r.appliedBy(a, have, have == nil, kept); err != nil {
		return nil, err
	}
	if have != nil && !r.lacksLabel(a, have) {
		if unchanged, err := r.isUnchanged(a, have, kept); err != nil || unchanged {
			return nil, err
		}
	}
	version, err := r.versionFor(a, have)
	if err != nil {
		return nil, err
	}
	p, err := r.applyPatch(a, have, applyOptions{force: force, version: version})
	return &p, err
}

// versionFor returns the resourceVersion of an apply: that of the object if the primary becomes its controller, or one
// more primary that applies fields of it.
func (r *requester) versionFor(a plannedApply, have *object.Object) (string, error) {
	switch {
	case have == nil && a.create:
		return "", nil
	case have == nil:
		return noVersion, nil
	case a.adopts(have):
		return have.ResourceVersion, nil
	case a.owned:
		return "", nil
	}
	if _, shares := have.Annotations[a.annotation]; shares {
		return "", nil
	}
	return have.ResourceVersion, mayJoin(have)
}

// deletion returns the request of a delete, nil if there is nothing to delete.
func (r *requester) deletion(d plannedDelete) (*patch, error) {
	have := r.shown(d.location)
	if have == nil || d.uid != "" && string(have.UID) != d.uid {
		return nil, nil
	}
	if err := r.mayDelete(d.location, have); err != nil || have.Deleting() && !d.shortens(have) {
		return nil, err
	}
	return &patch{}, nil
}
