package effect

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file ends that the primary is the controller of an object (abi/spec/writes.md, "Adoption and
// release"). What it has applied to the object stays.

const notReleased = "the primary cannot be the controller of the object: release only objects of kinds in Owns of the controller, in the primary's own namespace"

// planDisown checks an object to release.
func (p *plan) planDisown(ctx context.Context, ref abi.Ref) (at location, err error) {
	if own := p.target.Object.Namespace; own != "" && ref.Namespace != "" && ref.Namespace != own {
		return at, denied(reasonOutOfScope, notReleased)
	}
	at, err = p.locate(ctx, ref, rights.Patch)
	switch {
	case err != nil:
		return at, err
	case at.id() == objectIDOf(p.target.Object.Kind, p.target.Object.Key()):
		return at, denied(reasonOutOfScope, "the object is the primary, which does not control itself")
	case !at.owned:
		return at, denied(reasonOutOfScope, notReleased)
	}
	return at, nil
}

// disown takes the owner reference to the primary off an object. An object that does not
// exist any more, or that nobody controls, is what was wanted.
func (s *session) disown(ctx context.Context, at location) error {
	have, err := s.findToDelete(ctx, at)
	if err != nil {
		return err
	}
	write := ownersWrite{verb: abi.VerbRelease, content: sumStrings(abi.VerbRelease, string(s.target.Object.UID)), frees: true}
	changed, err := s.patchOwners(ctx, at, have, write, func(o *object.Object) ([]byte, error) { return s.disownPatch(at, o) })
	if err != nil {
		return err
	}
	s.records.dropApplied(at.id())
	if changed {
		s.logOwner("released", at.ref())
	}
	return nil
}

// ownLabels returns the labels by which an object is the plugin's. One that was released and is adopted again
// counts as adopted.
func (p *plan) ownLabels(o *object.Object) (names []string) {
	if o.Labels[abi.LabelManagedBy] == p.Plugin {
		names = append(names, abi.LabelManagedBy)
	}
	if o.Labels[abi.LabelAppliedBy] == abi.AppliedBy(p.Plugin, p.target.Controller.Name) {
		names = append(names, abi.LabelAppliedBy)
	}
	return names
}

// disownPatch returns the patch for an object, nil if there is nothing to take off.
func (p *plan) disownPatch(at location, o *object.Object) ([]byte, error) {
	if o == nil || at.uid != "" && string(o.UID) != at.uid {
		return nil, nil
	}
	primary := p.target.Object.UID
	if c := o.Controller(); c != nil && c.UID != primary {
		return nil, denied(reasonControlled, "the object is controlled by %s %s %s: only what the primary controls can be released", c.APIVersion, c.Kind, c.Name)
	}
	if !slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == primary }) {
		return nil, nil
	}
	owners, err := referencesOf(o)
	if err != nil {
		return nil, err
	}
	var others [][]byte
	for i, reference := range owners {
		if o.OwnerReferences[i].UID != primary {
			others = append(others, reference)
		}
	}
	return metadataPatch(o, func(w *rawjson.Writer) {
		writeOwners(w, others)
		if labels := p.ownLabels(o); len(labels) > 0 {
			w.Name("labels").Object(func() {
				for _, name := range labels {
					w.Name(name).Raw(nil)
				}
			})
		}
		// The annotation would make others take the object for one that they have created. One
		// with a size stays: it is by that what the plugin stores is counted.
		if value, has := o.Annotations[AppliedAnnotation]; has {
			if _, size := object.CutNotedBytes(value); size == 0 {
				w.Name("annotations").Object(func() { w.Name(AppliedAnnotation).Raw(nil) })
			}
		}
	}), nil
}
