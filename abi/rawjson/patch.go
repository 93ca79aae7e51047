package rawjson

import "bytes"

// MergePatch applies an RFC 7386 merge patch to target and returns a new text.
// The members of target keep their order, and new ones follow. Values that the
// patch does not change keep their bytes. An empty target counts as absent. A
// name that occurs twice in an object of the patch is an error; so is one that
// occurs twice in the target where the patch has it too.
func MergePatch(target, patch []byte) ([]byte, error) { return merge(target, patch, false) }

// ComposePatches returns the merge patch that has the effect of first and then
// second. In contrast to [MergePatch] it keeps the nulls of second, which remove
// members of a target that is not known yet. Both must be objects.
func ComposePatches(first, second []byte) ([]byte, error) {
	for _, patch := range [][]byte{first, second} {
		if _, err := parseObject(patch); err != nil {
			return nil, err
		}
	}
	return merge(first, second, true)
}

// merge applies a patch to a target, of which only the members that are in the patch are
// looked into.
func merge(target, patch []byte, keepNulls bool) ([]byte, error) {
	p, err := parse(patch)
	if err != nil {
		return nil, err
	}
	m := merger{
		w:         NewWriter(make([]byte, 0, len(target)+len(patch))),
		patch:     p,
		merged:    make([]bool, len(p.nodes)),
		keepNulls: keepNulls,
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

// merger copies a target, which it reads once, and changes it by a patch.
type merger struct {
	w         *Writer
	patch     *tree
	merged    []bool // by node of the patch: the target has the same member
	keepNulls bool   // write the nulls of the patch instead of removing members
}

// merge reads the next value of the target and writes it, changed by node i of
// the patch.
func (m *merger) merge(r *Reader, i int) {
	if m.patch.kind(i) != '{' || r.Kind() != '{' {
		r.Skip()
		m.add(i)
		return
	}
	m.w.Object(func() {
		byName := m.patch.index(i)
		r.Object(func(name string) { m.member(r, name, byName.find(name)) })
		for child := i + 1; child < m.patch.end(i) && r.err == nil; child = m.patch.end(child) {
			if !m.merged[child] {
				m.addMember(child)
			}
		}
	})
}

// member writes a member of the target; i is the same member of the patch, or
// -1.
func (m *merger) member(r *Reader, name string, i int) {
	switch {
	case i < 0:
		m.w.Name(name).Raw(r.Raw())
		return
	case m.merged[i]:
		r.Fail("field given twice")
		return
	}
	m.merged[i] = true
	if m.keepNulls || !m.patch.isNull(i) {
		m.w.Name(name)
		m.merge(r, i)
	}
}

// addMember writes a member of the patch that the target does not have.
func (m *merger) addMember(i int) {
	if m.keepNulls || !m.patch.isNull(i) {
		m.w.Name(m.patch.nodes[i].name)
		m.add(i)
	}
}

// add writes a value of the patch that has nothing to be merged with. Nulls are
// left out of objects unless they are kept.
func (m *merger) add(i int) {
	if m.keepNulls || m.patch.kind(i) != '{' {
		m.w.Raw(m.patch.raw(i))
		return
	}
	m.w.Object(func() {
		for child := i + 1; child < m.patch.end(i); child = m.patch.end(child) {
			m.addMember(child)
		}
	})
}

// Diff returns the RFC 7386 merge patch that turns the object before into the
// object after, or nil if there is no difference. Values for which [Equal] is
// true do not differ. A null in after counts as absent, because a merge patch
// cannot set a null.
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

// parseObject is [parse] for a text that must be an object.
func parseObject(text []byte) (*tree, error) {
	t, err := parse(text)
	if err == nil && t.kind(0) != '{' {
		r := NewReader(text)
		r.expect('{', "an object") // fails
		err = r.Err()
	}
	return t, err
}

type differ struct {
	w        *Writer
	from, to *tree
}

// object writes the patch from object i to object j, and reports whether they
// differ.
func (d *differ) object(i, j int) (changed bool) {
	d.w.Object(func() {
		inFrom, inTo := d.from.index(i), d.to.index(j)
		for child := j + 1; child < d.to.end(j); child = d.to.end(child) {
			changed = d.member(inFrom.find(d.to.nodes[child].name), child) || changed
		}
		for child := i + 1; child < d.from.end(i); child = d.from.end(child) {
			name := d.from.nodes[child].name
			if inTo.find(name) < 0 && !d.from.isNull(child) {
				d.w.Name(name).Raw(nil) // a null
				changed = true
			}
		}
	})
	return changed
}

// member writes the change of a member from i, which is -1 if it is new, to j,
// and reports whether there is one.
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

// nested writes the change of a member that is an object before and after.
func (d *differ) nested(name string, i, j int) bool {
	mark := len(d.w.buf)
	d.w.Name(name)
	if d.object(i, j) {
		return true
	}
	d.w.buf = d.w.buf[:mark] // remove the name again
	return false
}
