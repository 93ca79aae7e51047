package dispatch

import (
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
)

// This file finds primaries for what comes from outside of the cluster.

// Has reports whether there is a primary.
func (c *Controller) Has(key object.Key) bool {
	_, exists := c.Cache.Get(key)
	return exists
}

// Resolve returns the keys of the primaries that have a key of an index, or a value of its field, in no
// order: most of them at the most. The index is one of the running revision, of the primary kind. The
// error is why it cannot be read now.
func (c *Controller) Resolve(name, key string, most int) ([]object.Key, error) {
	rev := c.revision.Load()
	all := rev.Controller.Indexes
	i := slices.IndexFunc(all, func(x abi.Index) bool { return x.Name == name && x.Kind == rev.Controller.For.Kind })
	if i < 0 {
		return c.resolveByHook(rev, name, key, most)
	}
	field, err := fieldpath.ParsePath(all[i].Field)
	if err != nil {
		return nil, err // cannot happen: the manifest was checked
	}
	keys := c.Cache.PrimariesBy("", field, key)
	return keys[:min(most, len(keys))], nil
}

// resolveByHook is Resolve for an index of a capability.
func (c *Controller) resolveByHook(rev *Revision, name, key string, most int) ([]object.Key, error) {
	for i := range c.Hooks {
		if f := c.Hooks[i].Resolve; f != nil {
			if wanted, ok := f(rev, name, key); ok {
				wanted.Limit = most
				return c.primariesIn(rev, name, wanted)
			}
		}
	}
	return nil, fmt.Errorf("the controller has no index %q of its primaries any more", name)
}

// primariesIn returns the keys of the primaries that have the name of an object of a list.
func (c *Controller) primariesIn(rev *Revision, name string, wanted cache.Reading) (keys []object.Key, err error) {
	reads := c.Cache.BeginUnrecorded(object.Key{}, rev.Scopes.Reads)
	defer reads.Close()
	found, err := reads.List(wanted)
	if err != nil {
		return nil, fmt.Errorf("read the index %q: %w", name, err)
	}
	for _, o := range found.Items {
		if k := o.Key(); c.Has(k) { // the index may be of more than the primaries
			keys = append(keys, k)
		}
	}
	return keys, nil
}
