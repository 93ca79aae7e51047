package rawjson

import (
	"slices"
	"strconv"
)

// This file moves a reader into, through and out of objects and arrays.

// open enters the object or array that c begins. A null in its place is absent
// if it is the value of a member, and an error otherwise.
func (r *Reader) open(c byte, what string) bool {
	if (r.err != nil || r.peek() != c) && !r.expect(c, what) {
		return false
	}
	if len(r.path) >= r.maxDepth() {
		r.failTooDeep()
		return false
	}
	r.pos++
	if r.path == nil {
		r.path = make([]step, 0, usualDepth)
	}
	r.path = append(r.path, step{index: between})
	return true
}

// nullInstead consumes a null where an object or array that c begins could be,
// and reports whether there was one.
func (r *Reader) nullInstead(c byte) bool {
	r.space()
	return r.peek() != c && r.Null()
}

// expect moves to the next value and reports whether it begins with c. If not,
// the reader fails, unless the value is a null that stands for an absent member.
func (r *Reader) expect(c byte, what string) bool {
	if r.space(); r.err != nil {
		return false
	}
	if r.peek() == c {
		return true
	}
	top := len(r.path) - 1
	absent := r.peek() == 'n' && top >= 0 && r.path[top].index == inMember && r.literal("null")
	if !absent {
		r.Expected(what)
	}
	return false
}

func (r *Reader) maxDepth() int {
	if r.MaxDepth > 0 {
		return r.MaxDepth
	}
	return DefaultMaxDepth
}

func (r *Reader) failTooDeep() {
	r.Fail("nested more than " + strconv.Itoa(r.maxDepth()) + " levels deep")
}

// skipUnread skips the current member's or element's value if the caller has
// left it, and reports whether the reader can continue.
func (r *Reader) skipUnread() bool {
	if r.err == nil && r.pos == r.path[len(r.path)-1].start {
		r.Skip()
	}
	return r.err == nil
}

// firstMember moves to the first member of an object that has been entered. A strict reader
// begins to collect the object's names.
func (r *Reader) firstMember() bool {
	if r.Strict {
		if r.objects == nil {
			r.objects, r.seen = make([]seenNames, 0, usualDepth), make([]string, 0, usualNames)
		}
		r.objects = append(r.objects, seenNames{start: len(r.seen)})
	}
	return r.member(true)
}

// member moves to the next member, or leaves the object. The common form of a
// name is read by fastName, anything else by the functions for every case.
func (r *Reader) member(first bool) bool {
	at := &r.path[len(r.path)-1]
	if r.fastName(at, first) {
		return !r.Strict || r.checkDuplicate(at.name)
	}
	at.index = between
	if r.peek() == '}' {
		r.pos++
		r.leaveObject()
		return false
	}
	if !r.separator(first, '}') {
		r.leaveObject()
		return false
	}
	name := r.name()
	if r.err != nil {
		return false
	}
	at.name, at.index = name, inMember
	if r.Strict && !r.checkDuplicate(name) {
		return false
	}
	r.space()
	at.start = r.pos
	return true
}

// fastName reads a comma, unless the member is the first one, a name without
// escapes, and a colon, if there is no white space between them and the value.
func (r *Reader) fastName(at *step, first bool) bool {
	data, i := r.data, r.pos
	if !first {
		if i >= len(data) || data[i] != ',' {
			return false
		}
		i++
	}
	if i >= len(data) || data[i] != '"' {
		return false
	}
	end := plainEnd(data, i+1)
	if end+2 >= len(data) || data[end] != '"' || data[end+1] != ':' || data[end+2] <= ' ' {
		return false
	}
	*at = step{name: alias(data[i+1 : end]), index: inMember, start: end + 2}
	r.pos = end + 2
	return true
}

// name reads a member's name and the colon behind it.
func (r *Reader) name() string {
	if r.peek() != '"' {
		r.Expected("a member name in quotes")
		return ""
	}
	name := r.text()
	r.colon()
	return name
}

// colon reads the colon between a member's name and its value.
func (r *Reader) colon() {
	if r.space(); r.err != nil {
		return
	}
	if r.peek() != ':' {
		r.Expected("':' after the member name")
		return
	}
	r.pos++
}

// element moves to the element of that index, or leaves the array.
func (r *Reader) element(index int) bool {
	at := &r.path[len(r.path)-1]
	at.index = between
	switch c := r.peek(); {
	case c == ']':
		r.pos++
		r.leave()
		return false
	case c == ',' && index > 0 && r.pos+1 < len(r.data) && r.data[r.pos+1] > ' ' && r.data[r.pos+1] != ']':
		r.pos++
	case !r.separator(index == 0, ']'):
		r.leave()
		return false
	}
	r.space()
	at.index, at.start = index, r.pos
	return true
}

// separator moves to the next member or element and reports whether there is
// one. It consumes the comma before it or the closing byte.
func (r *Reader) separator(first bool, closing byte) bool {
	r.space()
	switch {
	case r.err != nil:
		return false
	case r.peek() == closing:
		r.pos++
		return false
	case first:
		return true
	case r.peek() != ',':
		r.Expected("',' or " + quoteByte(closing))
		return false
	}
	r.pos++
	if r.space(); r.peek() == closing {
		r.Expected("a value after ','")
		return false
	}
	return true
}

// leave removes the last step, unless the reader has failed: the path of an
// error is the path at which it occurred.
func (r *Reader) leave() {
	if r.err == nil {
		r.path = r.path[:len(r.path)-1]
	}
}

// leaveObject leaves an object and forgets its names.
func (r *Reader) leaveObject() {
	if r.leave(); r.Strict && r.err == nil {
		last := len(r.objects) - 1
		r.seen, r.objects = r.seen[:r.objects[last].start], r.objects[:last]
	}
}

// seenNames are the names that one object has had so far: Reader.seen from
// start on, and in a set too once there are many.
type seenNames struct {
	start int
	set   map[string]struct{}
}

// smallObject is the number of members up to which an object is searched
// linearly.
const smallObject = 16

// checkDuplicate fails if the innermost object has had the name before, and reports
// whether it has not.
func (r *Reader) checkDuplicate(name string) bool {
	names := &r.objects[len(r.objects)-1]
	own := r.seen[names.start:]
	if names.set == nil && len(own) > smallObject {
		names.set = make(map[string]struct{}, 2*len(own))
		for _, s := range own {
			names.set[s] = struct{}{}
		}
	}
	_, duplicate := names.set[name]
	if duplicate || names.set == nil && slices.Contains(own, name) {
		r.Fail("field given twice")
		return false
	}
	r.seen = append(r.seen, name)
	if names.set != nil {
		names.set[name] = struct{}{}
	}
	return true
}
