package rawjson

import "slices"

// names are those that one object has had so far: r.seen from start on, and
// in a set too once there are many.
type names struct {
	start int
	set   map[string]struct{}
}

// smallObject is up to how many members an object is searched one by one.
const smallObject = 16

// once fails if the object has had the name before.
func (r *Reader) once(had *names, name string) {
	if r.hasSeen(had, name) {
		r.Fail("field given twice")
		return
	}
	r.seen = append(r.seen, name)
	if had.set != nil {
		had.set[name] = struct{}{}
	}
}

func (r *Reader) hasSeen(had *names, name string) bool {
	seen := r.seen[had.start:]
	if had.set == nil && len(seen) > smallObject {
		had.set = make(map[string]struct{}, 2*len(seen))
		for _, s := range seen {
			had.set[s] = struct{}{}
		}
	}
	if had.set != nil {
		_, ok := had.set[name]
		return ok
	}
	return slices.Contains(seen, name)
}
