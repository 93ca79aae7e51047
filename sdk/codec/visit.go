package codec

// Visitor reads or appends the fields of a struct with a compact codec. That is one
// method which names each field once:
//
//	func (x *Port) VisitJSON(v *codec.Visitor) {
//		for at := v.First(); at >= 0; at = v.Next(at) {
//			codec.VisitString(v, "name", codec.OmitEmpty, &x.Name)
//			codec.VisitInt(v, "port", codec.Always, &x.Port)
//		}
//	}
//
// While a struct is read, the method visits all fields for each member, and the one
// with the name of the member is filled. Most functions below are not inlined: the size
// of a codec is that of its calls.
type Visitor struct {
	mode mode
	r    *Reader
	name string // of the member that is read
	dst  []byte
	err  error // of the first value that has no JSON form

	// done reports, while reading, that the member was read, and while searching,
	// that a field is not zero.
	done bool
}

// mode is what a visitor does with fields.
type mode uint8

const (
	reading mode = iota
	appending
	searching // for a field that is not zero
)

// Presence is when a field is appended: the options of its tag.
type Presence uint8

// The values of [Presence].
const (
	Always Presence = iota
	OmitEmpty
	OmitZero
)

// ReadVisited reads a value by its VisitJSON method.
func ReadVisited[T any](r *Reader, x *T, visit func(*T, *Visitor)) {
	visit(x, &Visitor{r: r})
}

// AppendVisited appends a value by its VisitJSON method.
func AppendVisited[T any](dst []byte, x *T, visit func(*T, *Visitor)) ([]byte, error) {
	v := Visitor{mode: appending, dst: dst}
	visit(x, &v)
	return v.dst, v.err
}

// IsZero reports whether a value has only fields that are zero, as the option omitzero
// requires. Fields without JSON do not count.
func IsZero[T any](x *T, visit func(*T, *Visitor)) bool {
	v := Visitor{mode: searching}
	visit(x, &v)
	return !v.done
}

// First begins the fields of a struct. The result is for Next; they are to be visited
// until it is negative.
func (v *Visitor) First() (at int) {
	switch v.mode {
	case reading:
		return v.member(v.r.FirstMember())
	case appending:
		return len(v.dst)
	case searching:
		if v.done {
			return -1
		}
	}
	return 0
}

// Next is called after all fields were visited.
func (v *Visitor) Next(at int) int {
	switch v.mode {
	case reading:
		return v.member(v.r.NextMember())
	case appending:
		v.dst = CloseObject(v.dst, at)
	case searching:
	}
	return -1
}

// member sets the member that is read next, if there is one. If not, the member that
// has the struct as its value is done.
func (v *Visitor) member(more bool) int {
	v.done = !more
	if !more {
		return -1
	}
	v.name = v.r.Name()
	return 0
}

// field reports whether the value of a field is to be read or appended.
//
//go:noinline
func (v *Visitor) field(name string, when Presence, zero bool) bool {
	switch v.mode {
	case reading:
		if v.done || v.name != name {
			return false
		}
		v.done = true
	case appending:
		if zero && when != Always {
			return false
		}
		// No name that a tag or Go accepts has characters to escape.
		v.dst = append(append(append(v.dst, `,"`...), name...), `":`...)
	case searching:
		v.done = v.done || !zero
		return false
	}
	return true
}

// zeroList is the zero argument of field for a list or map: to omitempty an empty one
// is the same as none.
func (v *Visitor) zeroList(when Presence, isNil bool, length int) bool {
	return isNil || when == OmitEmpty && v.mode == appending && length == 0
}

// search begins to search a struct that is omitted if it is zero, when it is to be
// appended.
func (v *Visitor) search(when Presence) bool {
	if v.mode != appending || when != OmitZero {
		return false
	}
	v.mode, v.done = searching, false
	return true
}

// found ends the search, if there was one, and reports whether the struct is to be
// visited.
//
//go:noinline
func (v *Visitor) found(name string, searched bool) bool {
	if searched {
		v.mode = appending
	}
	return v.mode == searching || v.field(name, OmitZero, searched && !v.done)
}

// The results of nullable.
type state uint8

const (
	absent  state = iota // nothing is to be done
	null                 // a null was read
	present              // the value is to be visited
)

// nullable is field for a value that can be null, which it reads or appends.
//
//go:noinline
func (v *Visitor) nullable(name string, when Presence, zero bool) state {
	switch {
	case !v.field(name, when, zero):
		return absent
	case v.mode == reading && v.r.Null():
		return null
	case v.mode == appending && zero:
		v.dst = AppendNull(v.dst)
		return absent
	}
	return present
}

// element moves to the next element of a list, and reports whether there is one.
//
//go:noinline
func (v *Visitor) element(i, length int) bool {
	switch {
	case v.mode == reading && i == 0:
		return v.r.FirstElement()
	case v.mode == reading:
		return v.r.NextElement()
	case i < length:
		v.dst = append(v.dst, ',')
		return true
	}
	return false
}
