package dispatch

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
)

// RequestedAt is the annotation by which people request a reconcile now. Its
// value, by convention a time, is copied to status.lastHandledReconcileAt by the
// run that it led to.
const RequestedAt = "reconcile.thole.dev/requestedAt"

// Suspend is the annotation that keeps an object from being reconciled while its
// value is "true". An object that is being deleted is cleaned up all the same.
const Suspend = "reconcile.thole.dev/suspend"

// Observe handles an event of the primary kind: old is nil for an object that was
// created, updated is nil for one that was deleted, and initial is set for
// objects that existed when the informer started.
func (c *Controller) Observe(old, updated *object.Object, initial bool) {
	c.callChanged(old, updated)
	switch {
	case updated == nil:
		c.observeGone(old, false)
		c.due(primaryGone, old.Key())
	case initial:
		c.due(resynced, updated.Key())
	default:
		if old == nil {
			c.observeCreation(updated)
		}
		if onlyStatesDiffer(old, updated) {
			return
		}
		c.changed(updated.Key(), changeOf(editOf(old, updated).of(1), old, updated))
	}
}

// ObserveLost handles that a primary is not there any more although nothing shows that it was
// deleted: see Lost of [cache.Event].
func (c *Controller) ObserveLost(o *object.Object) {
	c.callChanged(o, nil)
	c.observeGone(o, true)
	c.due(primaryGone, o.Key())
}

// ObserveOwned handles an event of an owned kind: it makes the primaries due that
// control the object before or after the change.
func (c *Controller) ObserveOwned(old, updated *object.Object) {
	if onlyStatesDiffer(old, updated) {
		return
	}
	kind := c.revision.Load().Controller.For.Kind
	owners := make([]object.Key, 0, 2)
	for _, o := range []*object.Object{old, updated} {
		if o == nil {
			continue
		}
		owner := o.Controller()
		if owner == nil || owner.Kind != kind.Kind || (abi.Kind{APIVersion: owner.APIVersion}).Group() != kind.Group() {
			continue
		}
		// The owner of a namespaced object is in the same namespace or cluster
		// scoped. A key without an object ends its run at once.
		key := object.Key{Namespace: o.Namespace, Name: owner.Name}
		if _, ok := c.Cache.Get(key); !ok {
			key.Namespace = ""
		}
		owners = append(owners, key)
		if old != nil && updated != nil && old.Controller() != nil && old.Controller().UID == owner.UID {
			break // the owner is the same before and after
		}
	}
	c.changedFor(ownedChanged, cmp.Or(updated, old), changeOf(ownedChanged.of(1), old, updated), owners...)
}

// ObserveRead handles the change of an object that the key has read, alone or in a
// list; both are nil if it is not known what changed. bulk is set if very many keys
// have read it.
func (c *Controller) ObserveRead(key object.Key, old, updated *object.Object, bulk bool) {
	why := readChanged.of(1)
	why.Bulk = bulk
	o := cmp.Or(updated, old)
	switch {
	case o == nil:
		c.changed(key, change{Cause: why})
	case !c.states.only(old, updated):
		made := changeOf(why, old, updated)
		_, made.index = cache.SourceOf(o.Kind)
		c.changedFor(readChanged, o, made, key)
	}
}

// Restored handles that the API server has gone back to an earlier state, whose
// resourceVersions come again for other changes: none that comes from now on was
// made by a run. It makes keys due.
func (c *Controller) Restored(keys []object.Key) {
	c.mu.Lock()
	c.restores++
	for _, s := range c.keys {
		s.own = nil
		c.callRestored(s)
	}
	c.mu.Unlock()
	c.Resync(keys)
}

// editOf returns what a change of the primary means. Only a change of spec,
// labels, annotations or deletion ends a backoff; one of the status does not.
func editOf(old, updated *object.Object) cause {
	switch {
	case old == nil || old.UID != updated.UID:
		return primaryEdited
	case old.Annotations[RequestedAt] != updated.Annotations[RequestedAt]:
		return primaryRequested
	case SameInput(old, updated):
		return primaryStatus
	default:
		return primaryEdited
	}
}

// SameInput reports whether two versions of an object differ in nothing but
// status and bookkeeping. A cleanup may wait for another controller to remove its
// finalizer, or an owner.
func SameInput(a, b *object.Object) bool {
	return a.UID == b.UID &&
		a.Deleting() == b.Deleting() &&
		(!a.Deleting() || slices.Equal(a.Finalizers, b.Finalizers) && reflect.DeepEqual(a.OwnerReferences, b.OwnerReferences)) &&
		maps.Equal(a.Labels, b.Labels) &&
		sameAnnotations(a.Annotations, b.Annotations, countsAsInput) &&
		sameSpec(a, b)
}

// InputDigest returns a digest of the spec, labels and annotations of an object.
func InputDigest(o *object.Object) object.Hash {
	annotations := make(map[string]string, len(o.Annotations))
	for name, value := range o.Annotations {
		if countsAsInput(name) {
			annotations[name] = value
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%q %q ", o.Labels, annotations)
	if o.Generation != 0 {
		fmt.Fprint(&text, o.Generation)
	} else {
		text.Write(spec(o.Raw))
	}
	return object.HashOf(text.String())
}

// sameContent reports whether two versions of an object differ in nothing but
// bookkeeping.
func sameContent(a, b *object.Object) bool { return SameInput(a, b) && SameStatus(a.Raw, b.Raw) }

// sameSpec compares metadata.generation where the API server maintains it, else
// everything but metadata and status.
func sameSpec(a, b *object.Object) bool {
	if a.Generation != 0 || b.Generation != 0 {
		return a.Generation == b.Generation
	}
	return rawjson.Equal(spec(a.Raw), spec(b.Raw))
}

var withoutSpec = []byte(`{"metadata":null,"status":null}`)

func spec(raw []byte) []byte {
	rest, err := rawjson.MergePatch(raw, withoutSpec)
	if err != nil {
		return raw // cannot happen for an object that was parsed; a difference is the safe result
	}
	return rest
}

// SameStatus reports whether two objects, as JSON, have equal status.
func SameStatus(a, b []byte) bool {
	x, _ := rawjson.Lookup(a, "status")
	y, _ := rawjson.Lookup(b, "status")
	return bytes.Equal(x, y) || x != nil && y != nil && rawjson.Equal(x, y)
}
