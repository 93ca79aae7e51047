package cache

import (
	"iter"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/object"
)

// This file puts the plugin's own writes into a list, and bounds it.

// left is an object as the plugin left it: nil if a list does not have it.
type left struct {
	key    object.Key
	object *object.Object
}

// ownIn returns the plugin's own writes in the namespace of a query that are not
// shown, ordered by namespace and name.
func (v *view) ownIn(q objects.Query) (all []left, err error) {
	if v.own == nil {
		return nil, nil
	}
	looked := 0
	defer func() { q.Look(looked) }()
	v.own.AscendGreaterOrEqual(&ownWrite{key: q.First()}, func(own *ownWrite) bool {
		looked++
		if q.Namespace != "" && own.key.Namespace != q.Namespace || err != nil {
			return false
		}
		var shown *object.Object
		if shown, err = v.Get(own.key); err != nil || own.key == q.After {
			return err == nil
		}
		if o := v.with(own, shown); o != shown {
			all = append(all, left{own.key, o})
			if o != nil && !q.Matches(o) {
				all[len(all)-1].object = nil
			}
		}
		return true
	})
	return all, err
}

// merged yields the objects that are shown, with those that the plugin left in their
// place. Both are in order.
func merged(shown iter.Seq[*object.Object], own []left) iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		give := func(o *object.Object) bool { return o == nil || yield(o) }
		for o := range shown {
			for len(own) > 0 && own[0].key.Compare(o.Key()) < 0 {
				if !give(own[0].object) {
					return
				}
				own = own[1:]
			}
			if len(own) > 0 && own[0].key == o.Key() {
				o, own = own[0].object, own[1:]
			}
			if !give(o) {
				return
			}
		}
		for _, l := range own {
			if !give(l.object) {
				return
			}
		}
	}
}

// collector collects a list within its bounds.
type collector struct {
	Reading
	List
	err error
}

// add adds an object. It returns false when the list is to end.
func (c *collector) add(o *object.Object) bool {
	size, err := c.sizeOf(o)
	if err != nil {
		c.List, c.err = List{}, err
		return false
	}
	withSeparators := c.Bytes + size + (len(c.Items)+1)*len(abi.ListReplySeparator)
	tooLarge := c.MaxBytes > 0 && withSeparators > c.MaxBytes
	switch {
	case c.Limit > 0 && (len(c.Items) == c.Limit || tooLarge && len(c.Items) > 0):
		c.More = true
		return false
	case tooLarge:
		c.List, c.err = List{}, ErrTooLarge
		return false
	}
	c.Items, c.Bytes = append(c.Items, o), c.Bytes+size
	return true
}

// sizeOf returns the bytes of the part of an object that is read.
func (c *collector) sizeOf(o *object.Object) (int, error) {
	if c.Part.All() {
		return len(o.Raw), nil
	}
	if c.Look != nil { // twice, because the reply makes it again
		c.Look(2 * objects.ReadingCost(o))
	}
	part, err := c.Part.Project(o.Raw)
	return len(part), err
}

// isSame reports whether a part of two objects, either of which may be nil, is the
// same, whoever has shown them.
func isSame(part fieldpath.Set, a, b *object.Object) bool {
	switch {
	case a == nil || b == nil || a == b:
		return a == b
	case a.IsStateOf(b):
		return true
	}
	return a.UID == b.UID && !part.All() && part.Same(a.Raw, b.Raw)
}

func isSameList(part fieldpath.Set, a, b List) bool {
	return a.More == b.More && slices.EqualFunc(a.Items, b.Items, func(a, b *object.Object) bool { return isSame(part, a, b) })
}
