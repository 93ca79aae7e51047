package dispatch

import (
	"bytes"
	"maps"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// RequestedAt is the annotation by which people ask for a reconcile now.
// Its value, a time by custom, is answered in status.lastHandledReconcileAt.
const RequestedAt = "reconcile.thole.dev/requestedAt"

// Suspend is the annotation by which people keep an object from being
// reconciled, with the value "true". An object that is being deleted is
// cleaned up all the same.
const Suspend = "reconcile.thole.dev/suspend"

// Observe takes an event of the primary kind. before is nil for an object that
// is new, after for one that is gone; initial is set for objects that were
// there when the informer began.
//
// A write of the key's own last run does not wake it.
func (c *Controller) Observe(before, after *object.Object, initial bool) {
	if after == nil {
		c.Queue.Trigger(before.Key(), abi.ReasonPrimary)
		return
	}
	key := after.Key()
	if initial {
		c.Queue.Trigger(key, abi.ReasonResync)
		return
	}
	c.mu.Lock()
	s := c.keys[key]
	hold := s != nil && s.running
	own := s != nil && !hold && s.uid == after.UID && s.own[after.ResourceVersion]
	if hold {
		s.held = append(s.held, change{before, after})
	}
	c.mu.Unlock()
	if !hold && !own {
		c.Queue.Trigger(key, reasonOf(before, after))
	}
}

// ObserveOwned takes an event of an owned kind: it wakes the primaries that
// control the object before or after it.
func (c *Controller) ObserveOwned(before, after *object.Object) {
	kind := c.generation.Load().Controller.For
	for _, o := range []*object.Object{before, after} {
		if o == nil {
			continue
		}
		owner := o.Controller()
		if owner == nil || owner.Kind != kind.Kind || (abi.Kind{APIVersion: owner.APIVersion}).Group() != kind.Group() {
			continue
		}
		// A namespaced object's owner is in its namespace or cluster-scoped;
		// the key that does not exist is settled at once.
		key := object.Key{Namespace: o.Namespace, Name: owner.Name}
		if _, ok := c.Cache.Get(key); !ok {
			key.Namespace = ""
		}
		c.Queue.Trigger(key, abi.ReasonOwned)
		if before != nil && after != nil && before.Controller() != nil && before.Controller().UID == owner.UID {
			return // the same owner before and after
		}
	}
}

// Wake takes the change of something that the key has read.
func (c *Controller) Wake(key object.Key) { c.Queue.Trigger(key, abi.ReasonRead) }

// Resync triggers keys without a reason of their own.
func (c *Controller) Resync(keys []object.Key) {
	for _, key := range keys {
		c.Queue.Trigger(key, abi.ReasonResync)
	}
}

// reasonOf tells what a change of the primary means: only one of its spec,
// labels, annotations or life resets a backoff.
func reasonOf(before, after *object.Object) abi.Reason {
	switch {
	case before == nil || before.UID != after.UID:
		return abi.ReasonPrimary
	case before.Annotations[RequestedAt] != after.Annotations[RequestedAt]:
		return abi.ReasonRequest
	case sameInput(before, after):
		return abi.ReasonStatus
	default:
		return abi.ReasonPrimary
	}
}

// sameInput says whether two versions of an object differ in nothing but
// status and bookkeeping.
func sameInput(a, b *object.Object) bool {
	return a.UID == b.UID &&
		a.Deleting() == b.Deleting() &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(a.Annotations, b.Annotations) &&
		sameSpec(a, b)
}

// sameSpec compares generations where the API server counts them, else what
// is left of the object without metadata and status.
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
		return raw // objects were read before: cannot happen, and differing is the safe answer
	}
	return rest
}

// sameStatus says whether two versions of an object have the same status.
func sameStatus(a, b []byte) bool {
	x, _ := rawjson.Lookup(a, "status")
	y, _ := rawjson.Lookup(b, "status")
	return bytes.Equal(x, y) || x != nil && y != nil && rawjson.Equal(x, y)
}
