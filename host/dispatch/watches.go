package dispatch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// ObserveWatched handles the change of an object of a watched kind: it makes the
// primaries due that belong to the object before or after the change. field is that of
// the watch.
func (c *Controller) ObserveWatched(w *abi.Watch, field fieldpath.Path, old, updated *object.Object) {
	if onlyStatesDiffer(old, updated) {
		return
	}
	var keys []object.Key
	for _, o := range []*object.Object{old, updated} {
		if o != nil {
			keys = append(keys, c.watchers(w, field, o)...)
		}
	}
	slices.SortFunc(keys, object.Key.Compare)
	keys = slices.Compact(keys)
	c.changedFor(watchedChanged, cmp.Or(updated, old), changeOf(watchedChanged.of(len(keys)), old, updated), keys...)
}

// watchers returns the primaries that belong to an object.
func (c *Controller) watchers(w *abi.Watch, field fieldpath.Path, o *object.Object) []object.Key {
	namespaced, err := c.Cache.Namespaced(c.revision.Load().Controller.For.Kind)
	if err != nil {
		return nil // the revision is being replaced, which makes all keys due
	}
	var keys []object.Key
	switch w.By {
	case abi.WatchByOwner:
		keys = c.owners(w.Kind, o, namespaced)
	case abi.WatchByLabel:
		keys = c.named(o.Labels[w.Key], w.Kind, o, namespaced)
	case abi.WatchByAnnotation:
		keys = c.named(o.Annotations[w.Key], w.Kind, o, namespaced)
	case abi.WatchByField:
		return c.naming(field, w.Kind, o, namespaced)
	}
	return slices.DeleteFunc(keys, func(key object.Key) bool {
		_, exists := c.Cache.Get(key)
		return !exists
	})
}

// owners returns the primaries that an object has owner references to.
func (c *Controller) owners(watched abi.Kind, o *object.Object, namespaced bool) (keys []object.Key) {
	kind := c.revision.Load().Controller.For.Kind
	for _, owner := range o.OwnerReferences {
		if owner.Kind == kind.Kind && (abi.Kind{APIVersion: owner.APIVersion}).Group() == kind.Group() {
			keys = append(keys, c.named(owner.Name, watched, o, namespaced)...)
		}
	}
	return keys
}

// named returns the primary that a value of an object names, with or without a namespace.
func (c *Controller) named(value string, watched abi.Kind, o *object.Object, namespaced bool) []object.Key {
	namespace, name, hasNamespace := strings.Cut(value, "/")
	if !hasNamespace {
		namespace, name = "", value
		if namespaced {
			namespace = o.Namespace
		}
	}
	key := object.Key{Namespace: strings.Clone(namespace), Name: strings.Clone(name)}
	if name == "" || !c.mayConcern(key.Namespace, watched, o.Namespace) {
		return nil
	}
	return []object.Key{key}
}

// mayConcern reports whether a primary may be made due by a watched object: whether it may
// watch the kind in the namespace of the object. "" is that of a cluster-scoped one.
func (c *Controller) mayConcern(primary string, watched abi.Kind, namespace string) bool {
	return c.revision.Load().Reads[watched].Watch.Has(namespace != "", namespace, primary)
}

// naming returns the primaries of which a field names an object, with or without its
// namespace.
func (c *Controller) naming(field fieldpath.Path, watched abi.Kind, o *object.Object, namespaced bool) (keys []object.Key) {
	if o.Namespace == "" {
		return c.Cache.PrimariesBy("", field, o.Name)
	}
	if namespaced && c.mayConcern(o.Namespace, watched, o.Namespace) {
		keys = c.Cache.PrimariesBy(o.Namespace, field, o.Name)
	}
	for _, key := range c.Cache.PrimariesBy("", field, o.Key().String()) {
		if c.mayConcern(key.Namespace, watched, o.Namespace) {
			keys = append(keys, key)
		}
	}
	return keys
}
