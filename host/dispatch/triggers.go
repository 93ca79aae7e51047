package dispatch

import (
	"bytes"
	"maps"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
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
// objects that existed when the informer started. An event that was caused by
// the last run of the key itself does not make it due.
func (c *Controller) Observe(old, updated *object.Object, initial bool) {
	if updated == nil {
		c.Queue.Add(old.Key(), abi.ReasonPrimary)
		return
	}
	key := updated.Key()
	if initial {
		c.Queue.Add(key, abi.ReasonResync)
		return
	}
	if !c.deferOrIgnore(key, old, updated) {
		c.Queue.Add(key, reasonOf(old, updated))
	}
}

// deferOrIgnore reports whether an event of the primary needs no handling now:
// because a run of the key is in progress, which handles it when it ends and
// knows its own writes, or because it was caused by a write of the last run.
func (c *Controller) deferOrIgnore(key object.Key, old, updated *object.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[key]
	if s == nil {
		return false
	}
	if s.running {
		s.deferredEvents = append(s.deferredEvents, primaryEvent{old, updated})
		return true
	}
	return s.uid == updated.UID && s.ownVersions[updated.ResourceVersion]
}

// ObserveOwned handles an event of an owned kind: it makes the primaries due that
// control the object before or after the change.
func (c *Controller) ObserveOwned(old, updated *object.Object) {
	kind := c.revision.Load().Controller.For
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
		c.Queue.Add(key, abi.ReasonOwned)
		if old != nil && updated != nil && old.Controller() != nil && old.Controller().UID == owner.UID {
			return // the owner is the same before and after
		}
	}
}

// ObserveRead handles the change of an object or list that the key has read.
func (c *Controller) ObserveRead(key object.Key) { c.Queue.Add(key, abi.ReasonRead) }

// Resync makes keys due without any change.
func (c *Controller) Resync(keys []object.Key) {
	for _, key := range keys {
		c.Queue.Add(key, abi.ReasonResync)
	}
}

// reasonOf returns what a change of the primary means. Only a change of spec,
// labels, annotations or deletion ends a backoff; one of the status does not.
func reasonOf(old, updated *object.Object) abi.Reason {
	switch {
	case old == nil || old.UID != updated.UID:
		return abi.ReasonPrimary
	case old.Annotations[RequestedAt] != updated.Annotations[RequestedAt]:
		return abi.ReasonRequest
	case sameInput(old, updated):
		return abi.ReasonStatus
	default:
		return abi.ReasonPrimary
	}
}

// sameInput reports whether two versions of an object differ in nothing but
// status and bookkeeping.
func sameInput(a, b *object.Object) bool {
	return a.UID == b.UID &&
		a.Deleting() == b.Deleting() &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(a.Annotations, b.Annotations) &&
		sameSpec(a, b)
}

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

// sameStatus reports whether two objects, as JSON, have equal status.
func sameStatus(a, b []byte) bool {
	x, _ := rawjson.Lookup(a, "status")
	y, _ := rawjson.Lookup(b, "status")
	return bytes.Equal(x, y) || x != nil && y != nil && rawjson.Equal(x, y)
}
