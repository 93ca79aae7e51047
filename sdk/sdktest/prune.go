package sdktest

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// appliedBy returns the label of what the controller creates, for an object that is about to be applied; o is
// nil if it does not exist. It is "" for an object that the controller has not created.
func (w *World) appliedBy(i *intent, o *object) string {
	if !i.owned || !w.controller.Prune || o != nil && !w.hasCreated(o) {
		return ""
	}
	return abi.AppliedBy(w.plugin, w.controller.Name)
}

// hasCreated reports whether the controller has set the label of what it creates.
func (w *World) hasCreated(o *object) bool {
	label, ok := rawjson.Lookup(w.applied[o.id], "metadata", "labels", abi.LabelAppliedBy)
	return ok && string(label) == string(rawjson.AppendString(nil, o.meta.Labels[abi.LabelAppliedBy]))
}

// prune deletes what the controller has created for the primary and no intent names, the last one first.
func (r *Run) prune(named []intent) *abi.EffectFailure {
	w := r.world
	if !r.Result.Prune || r.Code != abi.CodeOK {
		return nil
	}
	unnamed := w.list(func(o *object) bool {
		return w.controller.IsOwned(o.kind) && o.meta.ControlledBy(r.primary.meta.UID) && w.hasCreated(o) && !o.meta.Deleting() &&
			!slices.ContainsFunc(named, func(i intent) bool { return i.id == o.id })
	})
	slices.SortStableFunc(unnamed, func(a, b *object) int {
		if order := b.meta.CreationTimestamp.Time().Compare(a.meta.CreationTimestamp.Time()); order != 0 {
			return order
		}
		return strings.Compare(b.name, a.name)
	})
	for _, o := range unnamed {
		if f := r.failedByTest("delete", o.id); f != nil {
			return f
		}
		w.delete(o)
		r.Writes = append(r.Writes, "delete "+o.String())
	}
	return nil
}
