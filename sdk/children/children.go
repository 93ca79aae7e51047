// Package children has what a controller of built-in kinds does with its children beyond
// applying and deleting them: it creates objects under new names, adopts and releases them,
// replaces what cannot be changed, and lets intents fail by groups.
//
//	pods := children.Group{Name: "pods", Condition: "ReplicaFailure"}
//	pods.Declare(r.Run)
//	for range missing {
//		pods.Apply(r.Run, podOf(r.UniqueName(r.Name+"-")), children.Create())
//	}
//	for _, pod := range orphans {
//		children.Adopt(r.Run, pod.Ref())
//	}
package children

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Create only creates the object. If another object has its name, the intent fails with the
// class retry and the reason AlreadyExists; it succeeds if an earlier run of the primary has
// created the object by the same intent, and the reply was lost. The object has the finalizers of
// the intent, which other applies leave out. See [sdk.Run.UniqueName] and [sdk.Run.ChildName].
func Create() sdk.ApplyOption { return func(a *abi.Apply) { a.Create = true } }

// Replace deletes the object and creates it anew if the API server refuses to change one of its
// fields, and would create the object. An Event says so. The object is created once the old one is
// gone; until then runs end as waiting, with the reason Replacing. It is for kinds in Owns.
func Replace() sdk.ApplyOption { return func(a *abi.Apply) { a.Replace = true } }

// Adopt makes the primary the controller of an object that has none. Nothing else of the object
// is changed, but for the label of a plugin with [sdk.Managed], which needs the kind in Reads. If
// ref has a UID, only the object with that UID is adopted.
//
// Adopting an object that the primary controls already does nothing. Otherwise the run fails,
// and the object stays as it is: with the class retry and the reason NotFound if it does not exist,
// or BeingDeleted if it or the primary is being deleted; with the class denied and the reason
// ControlledByAnother if it has another controller.
//
// An apply with [sdk.Adopt] of an object without any fields is the same, and creates nothing.
func Adopt(r *sdk.Run, ref sdk.Ref) { r.Apply(named(ref), sdk.Adopt()) }

// named returns an object without any fields.
func named(ref sdk.Ref) sdk.Raw {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(ref.APIVersion)
		w.Name("kind").String(ref.Kind)
		w.Name("metadata").Object(func() {
			w.Name("name").String(ref.Name)
			if ref.Namespace != "" {
				w.Name("namespace").String(ref.Namespace)
			}
			if ref.UID != "" {
				w.Name("uid").String(ref.UID)
			}
		})
	})
	return w.Bytes()
}

// Release ends that the primary is the controller of an object: its owner reference to the
// primary is removed, with what shows the host that the object was a child. Fields that were applied
// stay. Releasing an object that does not exist, that has no controller, or whose UID is
// another one than that of ref, does nothing; one that has another controller is denied. An
// object is named by only one of Release, Apply and Delete in a run, and is released first.
func Release(r *sdk.Run, ref sdk.Ref) {
	r.Intend(func(out *abi.Result) { out.Release = append(out.Release, ref) })
}

// Propagation is what becomes of the dependents of an object that is deleted.
type Propagation = abi.Propagation

// The values of [Propagation].
const (
	Background Propagation = abi.PropagationBackground // the garbage collector deletes them afterwards; the default
	Foreground Propagation = abi.PropagationForeground // they are deleted before the object
	Orphan     Propagation = abi.PropagationOrphan     // they stay
)

// Propagate sets what becomes of the dependents of an object that is deleted.
func Propagate(p Propagation) sdk.DeleteOption { return func(d *abi.Delete) { d.Propagation = p } }

// GracePeriod sets the seconds that an object has to end by itself; 0 deletes it at once.
func GracePeriod(seconds int64) sdk.DeleteOption {
	return func(d *abi.Delete) { d.GracePeriodSeconds = &seconds }
}

// AtVersion deletes an object only if it has this resourceVersion.
func AtVersion(resourceVersion string) sdk.DeleteOption {
	return func(d *abi.Delete) { d.ResourceVersion = resourceVersion }
}

// OwnedBySelf lists only the objects whose controller is the primary.
func OwnedBySelf() sdk.ReadOption {
	return func(o *guest.ReadOptions) { o.OwnedBy = abi.OwnedBySelf }
}

// Group has intents that are performed in order, of which the first that fails ends the group
// and nothing else: other groups go on, and the status is written. The run has failed all the
// same, and is retried, at the time of [sdk.RequeueAfter] if that is earlier than the backoff; the
// failure is in [sdk.Run.Previous] of the next run.
type Group struct {
	Name string // a DNS label
	// Condition is the type of a condition that has the reason and message of a failure, and
	// the good status after a run without one; "" for none. It is one of Owned of the
	// controller's [sdk.Conditions].
	Condition string
}

// Apply is [sdk.Run.Apply] in the group.
func (g Group) Apply(r *sdk.Run, object sdk.Value, options ...sdk.ApplyOption) {
	g.Declare(r)
	r.Apply(object, append(slices.Clip(options), func(a *abi.Apply) { a.Group = g.Name })...)
}

// Adopt is [Adopt] in the group.
func (g Group) Adopt(r *sdk.Run, ref sdk.Ref) { g.Apply(r, named(ref), sdk.Adopt()) }

// Delete is [sdk.Run.Delete] in the group.
func (g Group) Delete(r *sdk.Run, ref sdk.Ref, options ...sdk.DeleteOption) {
	g.Declare(r)
	r.Delete(ref, append(slices.Clip(options), func(d *abi.Delete) { d.Group = g.Name })...)
}

// Event is [sdk.Run.Event] in the group: it is not emitted if an intent of the group fails.
func (g Group) Event(r *sdk.Run, eventType, reason, message string) {
	g.Declare(r)
	r.Intend(func(out *abi.Result) {
		out.Events = append(out.Events, abi.Event{Type: eventType, Reason: reason, Message: message, Group: g.Name})
	})
}

// Declare makes the condition tell of the group also if the run has no intent of it. The other
// methods do so too.
func (g Group) Declare(r *sdk.Run) {
	if g.Condition == "" {
		return
	}
	r.Intend(func(out *abi.Result) {
		if !slices.ContainsFunc(out.Groups, func(other abi.Group) bool { return other.Name == g.Name }) {
			out.Groups = append(out.Groups, abi.Group(g))
		}
	})
}
