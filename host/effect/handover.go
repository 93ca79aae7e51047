package effect

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file hands the fields of one field manager over to another by editing
// metadata.managedFields, so that no value is removed, not even for a moment. It
// is needed for objects that an earlier version of the host applied with one
// manager for all primaries, when a kind moves between owns and writes, and when a primary applies
// what it has created and does not own: it would be in conflict with itself.

// handover is what has to change in the metadata of an object.
type handover struct {
	from, to   string // field managers; to is "" to give the fields to nobody
	annotation string // of from, with the digest of its last intent
	// whole hands all fields over. Otherwise it is not known which primary they
	// belong to: to gets the annotation alone, and the values stay until the
	// primaries have applied them again.
	whole bool
}

// formerAnnotation returns the name of the annotation that an earlier version
// of the host used for all primaries of a controller.
func (p *Planner) formerAnnotation(c *abi.Controller) string {
	return c.Name + "." + p.Plugin + "." + AppliedAnnotation
}

// takeOver hands the fields over that the controller has applied to an object as
// another manager than the one it uses now. It returns the object as it is then.
func (s *session) takeOver(ctx context.Context, at location, have *object.Object) (*object.Object, error) {
	h, ok := s.handover(at, have)
	if !ok || s.DryRun {
		return have, nil
	}
	meta, err := s.client.metadata(ctx, at.Resource, at.key)
	if err != nil {
		return nil, err
	}
	if meta.UID != have.UID {
		return nil, superseded("the object was replaced by another one of its name")
	}
	if err := s.mayWrite(s.target); err != nil {
		return nil, err
	}
	reply, err := s.patchManagers(ctx, at.Resource, at.key, meta, h)
	if err != nil || reply == nil {
		return have, err
	}
	s.add(&s.report, abi.VerbApply, have, reply, digest{})
	return reply, nil
}

// handover returns what has to be handed over, by the annotations of an object and its field
// managers.
func (p *plan) handover(at location, have *object.Object) (h handover, ok bool) {
	c, primary := p.target.Controller, p.target.Object
	forAll, forOne := p.manager(c), p.sharedManager(c, primary.Key())
	if at.owned { // the kind was in writes
		h = handover{from: forOne, to: forAll, annotation: p.sharedAnnotation(c, primary.Key()), whole: true}
		_, ok = have.Annotations[h.annotation]
		return h, ok
	}
	if owner := have.Controller(); owner != nil && owner.UID == primary.UID { // the kind was in owns
		h = handover{from: forAll, to: forOne, annotation: AppliedAnnotation, whole: true}
		_, annotated := have.Annotations[h.annotation]
		return h, annotated || slices.ContainsFunc(have.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { // abi.AppliedMemory
			return e.Manager == h.from && e.Operation == metav1.ManagedFieldsOperationApply || isCreationOf(e, h.from)
		})
	}
	h = handover{from: forAll, to: forOne, annotation: p.formerAnnotation(c)}
	if _, ok = have.Annotations[h.annotation]; !ok {
		h.from, h.annotation = forOne, p.sharedAnnotation(c, primary.Key())
		ok = slices.ContainsFunc(have.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return isCreationOf(e, h.from) })
	}
	return h, ok
}

// patchManagers performs a handover. It returns nil if there is nothing to hand
// over. The patch is a conflict if the object has changed since meta was read.
func (p *Performer) patchManagers(ctx context.Context, r object.Resource, key object.Key, meta metav1.PartialObjectMetadata, h handover) (*object.Object, error) {
	operations := h.operations(meta)
	if len(operations) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(append(operations, operation{Op: "replace", Path: "/metadata/resourceVersion", Value: meta.ResourceVersion}))
	if err != nil {
		return nil, err
	}
	return p.patch(ctx, r, key, patch{
		patchType: types.JSONPatchType, manager: h.from, body: body, frees: true,
		before: &object.Object{Kind: r.Kind, ObjectMeta: meta.ObjectMeta},
	})
}

// operations returns the edits of managedFields. An entry that is handed over
// keeps the annotation: the next apply of its manager, which does not have it,
// removes it. The list must not become empty, since the server would then give
// all fields to a manager of its own. What was created has the defaults of the server, too, which
// no apply may remove: of that nothing but the annotation is handed over, and the values stay.
func (h handover) operations(meta metav1.PartialObjectMetadata) (all []operation) {
	from, to := applierOf(meta, h.from), applierOf(meta, h.to)
	if created := creatorOf(meta, h.from); created >= 0 {
		entry := "/metadata/managedFields/" + strconv.Itoa(created)
		if from < 0 && to < 0 && h.to != "" {
			return []operation{
				{Op: "replace", Path: entry + "/operation", Value: metav1.ManagedFieldsOperationApply},
				{Op: "replace", Path: entry + "/manager", Value: h.to},
				{Op: "replace", Path: entry + "/fieldsV1", Value: annotationField(h.annotation)},
			}
		}
		all = append(all, operation{Op: "remove", Path: entry})
		meta.ManagedFields = slices.Delete(slices.Clone(meta.ManagedFields), created, created+1)
		from, to = applierOf(meta, h.from), applierOf(meta, h.to)
	}
	if h.from == h.to {
		return all
	}
	entry := "/metadata/managedFields/" + strconv.Itoa(from)
	if from >= 0 && to < 0 && h.to != "" {
		all = append(all, operation{Op: "replace", Path: entry + "/manager", Value: h.to})
		if !h.whole {
			all = append(all, operation{Op: "replace", Path: entry + "/fieldsV1", Value: annotationField(h.annotation)})
		}
		return all
	}
	if from >= 0 {
		all = append(all, operation{Op: "remove", Path: entry})
	}
	if _, ok := meta.Annotations[h.annotation]; ok {
		all = append(all, operation{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(h.annotation, "/", "~1")})
	}
	return all
}

// annotationField returns the set of fields (FieldsV1) with one annotation.
func annotationField(name string) any {
	type set = map[string]any
	return set{"f:metadata": set{"f:annotations": set{"f:" + name: set{}}}}
}

// hasMade reports whether a manager has applied fields of an object, or set owner references
// of it.
func hasMade(meta metav1.PartialObjectMetadata, manager string) bool {
	return applierOf(meta, manager) >= 0 || slices.ContainsFunc(meta.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Subresource == "" && e.FieldsV1 != nil && strings.Contains(string(e.FieldsV1.GetRawBytes()), `"f:ownerReferences"`)
	})
}

// applierOf returns the index of the entry of a manager that applies fields of
// an object, -1 if there is none.
func applierOf(meta metav1.PartialObjectMetadata, manager string) int {
	return slices.IndexFunc(meta.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
}

// creatorOf is [applierOf] of the entry of a manager that has created an object by POST.
func creatorOf(meta metav1.PartialObjectMetadata, manager string) int {
	return slices.IndexFunc(meta.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return isCreationOf(e, manager) && e.Subresource == "" && e.FieldsV1 != nil && object.MayBeCreation(manager, e.FieldsV1.GetRawBytes())
	})
}

// isCreationOf reports whether an entry, as [object.Object] keeps it, is of the creation of an
// object by a manager.
func isCreationOf(e metav1.ManagedFieldsEntry, manager string) bool {
	return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.APIVersion != ""
}
