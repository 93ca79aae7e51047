package effect

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// This file compares sets of fields (FieldsV1, see the documentation of server-side apply) with
// values. This needs no schema: a set without members stands for everything below it, as it is
// written for atomic lists and maps.

// A comparison is of a set of fields with the value that an intent has, and the one that an
// object has.
type comparison struct {
	namesOnly bool // the values of the fields may differ
	names     int  // how many elements of lists were compared with names of a set
}

// maxNames bounds the time of a comparison, which grows with the square of the length of a list: one
// of 300 elements is within it in any order. Beyond, what is compared counts as different.
const maxNames = 1 << 17

// owns reports whether a set of fields contains every field of a value.
func (c *comparison) owns(fields, value []byte) bool {
	set, err := rawjson.Members(fields)
	if err != nil {
		return false
	}
	if len(set) == 0 {
		return true
	}
	switch r := rawjson.NewReader(value); r.Kind() {
	case '{':
		members, err := rawjson.Members(value)
		return err == nil && c.ownsMembers(set, members)
	case '[':
		elements, err := rawjson.Elements(value)
		return err == nil && !slices.ContainsFunc(elements, func(e []byte) bool { return !c.ownsElement(set, e) })
	default:
		return false // a set with members is of an object or a list
	}
}

// ownsMembers reports whether a set of fields contains every member of an
// object, with everything below. A member that is null asks for nothing.
func (c *comparison) ownsMembers(set, members []rawjson.Member) bool {
	owned := byName(set)
	return !slices.ContainsFunc(members, func(m rawjson.Member) bool {
		of, ok := owned["f:"+m.Name]
		return string(m.Value) != "null" && !(ok && c.owns(of, m.Value))
	})
}

// byName returns the values of members by their names.
func byName(members []rawjson.Member) map[string][]byte {
	values := make(map[string][]byte, len(members))
	for _, m := range members {
		values[m.Name] = m.Value
	}
	return values
}

// ownsElement reports whether a set of fields contains an element of a list.
func (c *comparison) ownsElement(set []rawjson.Member, element []byte) bool {
	return slices.ContainsFunc(set, func(m rawjson.Member) bool {
		return c.isNamed(element, m.Name) && (m.Name[0] == 'v' || c.owns(m.Value, element))
	})
}

// isNamed reports whether a member of a set of fields names an element of a list. The set names
// elements by keys ("k:") or by value ("v:"), never by position.
func (c *comparison) isNamed(element []byte, member string) bool {
	if c.names++; c.names > maxNames {
		return false
	}
	kind, identity, _ := strings.Cut(member, ":")
	switch kind {
	case "k": // an element of an associative list, by its keys and their values
		return hasKeys(element, identity)
	case "v": // an element of a set of scalars, by its value
		return rawjson.Equal(element, []byte(identity))
	}
	return false
}

// hasKeys reports whether an element of an associative list has these keys. A
// key that the element does not have is one that the server fills in, such as
// the protocol of a port.
func hasKeys(element []byte, identity string) bool {
	keys, err := rawjson.Members([]byte(identity))
	return err == nil && !slices.ContainsFunc(keys, func(k rawjson.Member) bool {
		got, ok := rawjson.Lookup(element, k.Name)
		return ok && !rawjson.Equal(got, k.Value)
	})
}

// isSame reports whether the intent has every field of a set, and the object has the same values
// there. Elements of lists must be in the same order, whatever is between them. A nil value is
// absent, and one that is null asks for nothing.
func (c *comparison) isSame(set, wanted, have []byte) bool {
	if wanted == nil || have == nil {
		return string(wanted) == "null"
	}
	members, err := rawjson.Members(set)
	switch {
	case err != nil:
		return false
	case len(members) == 0:
		return c.namesOnly || rawjson.Equal(wanted, have)
	case rawjson.NewReader(wanted).Kind() == '[':
		return c.isSameList(members, wanted, have)
	}
	wantedMembers, err := rawjson.Members(wanted)
	if err != nil {
		return false
	}
	haveMembers, err := rawjson.Members(have)
	if err != nil {
		return false
	}
	w, h := byName(wantedMembers), byName(haveMembers)
	return !slices.ContainsFunc(members, func(m rawjson.Member) bool {
		name, isField := strings.CutPrefix(m.Name, "f:")
		return m.Name != itself && !(isField && c.isSame(m.Value, w[name], h[name]))
	})
}

// itself is the member of a set for the object or list whose fields or elements the other members are.
const itself = "."

// isSameList is [comparison.isSame] of a list that the set has elements of.
func (c *comparison) isSameList(set []rawjson.Member, wanted, have []byte) bool {
	elements, err := rawjson.Elements(wanted)
	if err != nil {
		return false
	}
	there, err := rawjson.Elements(have)
	if err != nil {
		return false
	}
	set = slices.DeleteFunc(slices.Clone(set), func(m rawjson.Member) bool { return m.Name == itself })
	for _, e := range elements {
		i, next := c.findElement(set, e, there)
		if i < 0 {
			return false
		}
		set, there = slices.Delete(set, i, i+1), there[next:]
	}
	return len(set) == 0
}

// findElement returns which member of a set names an element, and how many elements of the
// object's list end with the same one; -1 if there is none.
func (c *comparison) findElement(set []rawjson.Member, element []byte, there [][]byte) (member, next int) {
	for i, m := range set {
		if !c.isNamed(element, m.Name) {
			continue
		}
		for j, h := range there {
			if c.isNamed(h, m.Name) && (m.Name[0] == 'v' || c.isSame(m.Value, element, h)) {
				return i, j + 1
			}
		}
	}
	return -1, 0
}

// hasMembers reports whether a set of fields, those with which an object was created, has each member
// of an intent and of its metadata. What is in them does not count: others may have removed it since.
func hasMembers(set, wanted []byte) bool {
	fields, err := rawjson.Members(set)
	if err != nil {
		return false
	}
	members, err := rawjson.Members(wanted)
	of := byName(fields)
	return err == nil && !slices.ContainsFunc(members, func(m rawjson.Member) bool {
		inside, ok := of["f:"+m.Name]
		return !isEmpty(m.Value) && (!ok || m.Name == "metadata" && !hasMembers(inside, m.Value))
	})
}
