package objects

import (
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// This file counts objects by the values of a field, from the index by that field.

// Counts are numbers of objects by the values of a field. An object counts once for each of its values.
type Counts struct {
	ByValue map[string]int // the values do not alias the text of an object
	Without int            // objects without a value
	Other   int            // objects with more than 8 values, and values of more than 256 bytes
}

// FieldAttribute is that of a field.
func FieldAttribute(field fieldpath.Path) Attribute {
	return Attribute{path: field.String(), field: field}
}

// HasIndex reports whether the snapshot has an index by an attribute, and records that a plugin uses it.
func (n *Snapshot) HasIndex(of Attribute, by string, now time.Time) bool {
	shared := n.state.Load()
	if shared == nil || shared.indexes[of.name()] == nil {
		return false
	}
	shared.indexes[of.name()].isUsed(by, now)
	return true
}

// Count counts the objects by the values of a field. Without an index by that it reads all of them.
// shown reports whether an object counts; nil: all do. The error is [ErrExpired].
func (n *Snapshot) Count(of Attribute, shown func(*Entry) bool) (Counts, error) {
	shared := n.state.Load()
	if shared == nil {
		return Counts{}, ErrExpired
	}
	c := &counting{Counts: Counts{ByValue: map[string]int{}}, of: of, shown: shown}
	if x := shared.indexes[of.name()]; x != nil {
		c.index(shared, x)
	} else {
		shared.all.Ascend(func(e *Entry) bool {
			if c.counts(e) {
				c.object(e.Peek())
			}
			return true
		})
	}
	return c.Counts, nil
}

// counting is a count in progress.
type counting struct {
	Counts
	of    Attribute
	shown func(*Entry) bool
}

func (c *counting) counts(e *Entry) bool { return c.shown == nil || c.shown(e) }

// index counts the entries of an index, and what it does not have.
func (c *counting) index(shared *state, x *index) {
	found := 0                    // objects in the index
	seen := map[*Entry]struct{}{} // of those that may be there several times
	several := slices.Contains(c.of.field.Steps(), "[*]")
	x.tree.Ascend(func(l labelled) bool {
		if !c.counts(l.Entry) {
			return true
		}
		if !several {
			found++
		} else if _, again := seen[l.Entry]; !again {
			seen[l.Entry] = struct{}{}
			found++
		}
		if l.value == overflow[0] {
			c.object(l.Peek())
		} else {
			c.ByValue[l.value]++
		}
		return true
	})
	c.Without += c.total(shared) - found
}

// total returns how many objects count.
func (c *counting) total(shared *state) (n int) {
	if c.shown == nil {
		return shared.all.Len()
	}
	shared.all.Ascend(func(e *Entry) bool {
		if c.shown(e) {
			n++
		}
		return true
	})
	return n
}

// object counts an object, whose values are read.
func (c *counting) object(o *object.Object) {
	values := c.of.field.Values(o.Raw)
	switch {
	case len(values) == 0:
		c.Without++
	case len(values) > maxValues:
		c.Other++
		values = nil
	}
	for _, value := range values {
		if len(value) > maxValueBytes {
			c.Other++
			continue
		}
		if _, known := c.ByValue[value]; !known {
			value = strings.Clone(value)
		}
		c.ByValue[value]++
	}
}
