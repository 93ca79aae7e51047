package rawjson

import "bytes"

// MergePatch applies an RFC 7386 merge patch to target and returns a new
// text. The order of target's members is kept, new ones follow; values that
// the patch does not reach stay the bytes they were. An empty target counts as
// absent. A name given twice in the patch, or in the target where the patch
// has it too, is an error.
func MergePatch(target, patch []byte) ([]byte, error) {
	p, err := parse(patch)
	if err != nil {
		return nil, err
	}
	m := merger{
		w:     NewWriter(make([]byte, 0, len(target)+len(patch))),
		patch: p,
		done:  make([]bool, len(p.nodes)),
	}
	if len(bytes.TrimSpace(target)) == 0 {
		m.add(0)
		return m.w.Bytes(), nil
	}
	r := NewReader(target)
	m.merge(r, 0)
	if err := r.End(); err != nil {
		return nil, err
	}
	return m.w.Bytes(), nil
}

// merger writes a target that it reads once, changed by a patch.
type merger struct {
	w     *Writer
	patch *tree
	done  []bool // which nodes of the patch have met their member
}

// merge reads the next value of the target and writes what the patch at i
// makes of it.
func (m *merger) merge(r *Reader, i int) {
	if m.patch.kind(i) != '{' || r.Kind() != '{' {
		r.Skip()
		m.add(i)
		return
	}
	m.w.Object(func() {
		x := m.patch.index(i)
		r.Object(func(name string) { m.member(r, name, x.find(name)) })
		m.patch.children(i, func(child int) bool {
			if !m.done[child] {
				m.addMember(child)
			}
			return r.err == nil
		})
	})
}

// member writes a member of the target; i is the same of the patch, or -1.
func (m *merger) member(r *Reader, name string, i int) {
	switch {
	case i < 0:
		m.w.Name(name).Raw(r.Raw())
		return
	case m.done[i]:
		r.Fail("field given twice")
		return
	}
	m.done[i] = true
	if !m.patch.isNull(i) {
		m.w.Name(name)
		m.merge(r, i)
	}
}

func (m *merger) addMember(i int) {
	if !m.patch.isNull(i) {
		m.w.Name(m.patch.nodes[i].name)
		m.add(i)
	}
}

// add writes a value of the patch that meets nothing to be merged with: an
// object without its nulls.
func (m *merger) add(i int) {
	if m.patch.kind(i) != '{' {
		m.w.Raw(m.patch.raw(i))
		return
	}
	m.w.Object(func() {
		m.patch.children(i, func(child int) bool { m.addMember(child); return true })
	})
}

// Diff returns the RFC 7386 merge patch that turns the object before into the
// object after, nil if there is nothing to change. Values that [Equal] takes
// for the same are not changed. A null in after counts as absent: a merge
// patch cannot say anything else.
func Diff(before, after []byte) ([]byte, error) {
	from, err := parseObject(before)
	if err != nil {
		return nil, err
	}
	to, err := parseObject(after)
	if err != nil {
		return nil, err
	}
	d := differ{w: NewWriter(nil), from: from, to: to}
	if !d.object(0, 0) {
		return nil, nil
	}
	return d.w.Bytes(), nil
}

func parseObject(text []byte) (*tree, error) {
	t, err := parse(text)
	if err == nil && t.kind(0) != '{' {
		r := NewReader(text)
		r.Object(nil) // fails
		err = r.End()
	}
	return t, err
}

type differ struct {
	w        *Writer
	from, to *tree
}

// object writes the patch from one object to another and says whether it says
// anything.
func (d *differ) object(i, j int) (changed bool) {
	d.w.Object(func() {
		inFrom, inTo := d.from.index(i), d.to.index(j)
		d.to.children(j, func(member int) bool {
			changed = d.member(inFrom.find(d.to.nodes[member].name), member) || changed
			return true
		})
		d.from.children(i, func(member int) bool {
			name := d.from.nodes[member].name
			if inTo.find(name) < 0 && !d.from.isNull(member) {
				d.w.Name(name).Null()
				changed = true
			}
			return true
		})
	})
	return changed
}

// member writes what the patch says of member j; i is what it was, or -1.
func (d *differ) member(i, j int) bool {
	name := d.to.nodes[j].name
	switch {
	case i < 0 && d.to.isNull(j):
		return false
	case i >= 0 && d.from.kind(i) == '{' && d.to.kind(j) == '{':
		return d.nested(name, i, j)
	case i >= 0 && equal(d.from, i, d.to, j):
		return false
	}
	d.w.Name(name).Raw(d.to.raw(j))
	return true
}

// nested writes a member if there is anything to say of it.
func (d *differ) nested(name string, i, j int) bool {
	mark := len(d.w.buf)
	d.w.Name(name)
	if d.object(i, j) {
		return true
	}
	d.w.buf = d.w.buf[:mark]
	return false
}
