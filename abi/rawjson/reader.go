// Package rawjson reads, writes and edits JSON (RFC 8259) as bytes, so that an
// object passes through the host without being decoded into maps and encoded
// again: a value that no code looks into is copied as the bytes that it was.
//
// Every function takes time linear in the length of its input, whatever the
// input contains, and memory of at most a small multiple of it.
//
// The package imports only the standard library, uses no reflection and
// compiles under TinyGo, because it is part of every plugin.
package rawjson

// DefaultMaxDepth is the nesting of arrays and objects that a [Reader] accepts
// unless MaxDepth says otherwise. It is the limit of encoding/json, and so of
// the API server, plus some levels for the lists and messages around an object:
// whatever a cluster can store can be read.
const DefaultMaxDepth = 10_000 + 10

// Reader decodes one JSON text from front to back in a single pass. The caller
// asks for the value that it expects next. After the first error every call
// returns a zero value, and [Reader.End] returns that error with the path at
// which it occurred.
//
// A member whose value is null reads as the zero value, as if the member were
// absent; only [Reader.Raw] and [Reader.Null] see the null. The elements of an
// array must have the type that is asked for.
//
// Names, raw values and strings without escapes alias the input: it must not be
// modified while they are in use, and each of them keeps all of it in memory.
// Bytes of a string that are not UTF-8 are returned as they are.
//
// [Reader.Object] and [Reader.Array] call a function for each member or
// element. The loops of FirstMember and FirstElement do the same without a
// closure, for generated code:
//
//	for more := r.FirstMember(); more; more = r.NextMember() {
//		switch r.Name() {
//		case "image":
//			image = r.String()
//		}
//	}
//
// The body reads the value or leaves it to be skipped. It must not break or
// return. To these loops a null has no members and no elements, wherever it
// stands.
type Reader struct {
	// Strict makes the reader fail at names that the caller reports with
	// [Reader.Unknown] and, at any depth and in skipped and raw values too, at
	// names that occur twice in one object and at escapes of half of a surrogate
	// pair, which are no text. Otherwise unknown names are ignored, and each
	// occurrence of a name is passed to the caller.
	Strict bool
	// MaxDepth bounds the nesting; 0 means DefaultMaxDepth.
	MaxDepth int

	data []byte
	pos  int
	path []step
	err  *Error

	// Only if Strict: the names read so far of all objects in path, outermost
	// object first, and for each of these objects which of the names are its own.
	seen    []string
	objects []seenNames
}

// step is one level of the path to the value that is being read.
type step struct {
	name  string // of the member
	index int    // of the element; inMember or between otherwise
	start int    // the offset of the value
}

const (
	inMember = -1 // the step is a member
	between  = -2 // no member or element is being read
)

// Initial capacities, so that most texts need no reallocation.
const (
	usualDepth = 4
	usualNames = 16
)

// NewReader returns a reader of one JSON text.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Object reads an object and calls member for each of its members. member reads
// the value or leaves it to be skipped. name is valid as long as the input is.
func (r *Reader) Object(member func(name string)) {
	for more := r.open('{', "an object") && r.firstMember(); more; more = r.NextMember() {
		member(r.Name())
	}
}

// Array reads an array and calls element for each of its elements. element
// reads the value or leaves it to be skipped.
func (r *Reader) Array(element func(index int)) {
	for more := r.open('[', "an array") && r.element(0); more; more = r.NextElement() {
		element(r.path[len(r.path)-1].index)
	}
}

// FirstMember enters an object and moves to its first member. It returns false
// if the object is empty, and is then left, or if the reader has failed.
func (r *Reader) FirstMember() bool {
	return !r.nullInstead('{') && r.open('{', "an object") && r.firstMember()
}

// NextMember moves to the object's next member. It returns false if there is
// none, and the object is then left, or if the reader has failed.
func (r *Reader) NextMember() bool { return r.skipUnread() && r.member(false) }

// Name returns the name of the current member. It is valid as long as the input
// is.
func (r *Reader) Name() string { return r.path[len(r.path)-1].name }

// FirstElement enters an array and moves to its first element. It returns false
// if the array is empty, and is then left, or if the reader has failed.
func (r *Reader) FirstElement() bool {
	return !r.nullInstead('[') && r.open('[', "an array") && r.element(0)
}

// NextElement moves to the array's next element. It returns false if there is
// none, and the array is then left, or if the reader has failed.
func (r *Reader) NextElement() bool {
	return r.skipUnread() && r.element(r.path[len(r.path)-1].index+1)
}

// Raw returns the bytes of the next value of any type, after checking its
// syntax. They alias the input.
func (r *Reader) Raw() []byte {
	r.space()
	start := r.pos
	r.Skip()
	if r.err != nil {
		return nil
	}
	return r.Since(start)
}

// Kind returns the byte that the next value starts with: '{', '[', '"', 't',
// 'f', 'n', or '0' for every number. It returns 0 at the end of the input.
func (r *Reader) Kind() byte {
	r.space()
	return kindOf(r.peek())
}

// kindOf returns the kind of a value that begins with c; see [Reader.Kind].
func kindOf(c byte) byte {
	if c == '-' || isDigit(c) {
		return '0'
	}
	return c
}

// Pos returns the offset of the next byte to be read.
func (r *Reader) Pos() int { return r.pos }

// Since returns what was read since the reader was at offset pos. It aliases
// the input.
func (r *Reader) Since(pos int) []byte { return r.data[pos:r.pos:r.pos] }

// Depth returns the number of objects and arrays around the next value.
func (r *Reader) Depth() int { return len(r.path) }

// Nested reads the next value with a separate reader, whose paths begin at the
// value. It returns the error of that reader. After an error r is still before
// the value, which the caller may skip.
func (r *Reader) Nested(read func(*Reader)) error {
	inner := &Reader{data: r.data, pos: r.pos, Strict: r.Strict, MaxDepth: r.maxDepth() - len(r.path), err: r.err}
	if read(inner); inner.err == nil {
		r.pos = inner.pos
	}
	return inner.Err()
}

// Member is one member of an object. Value aliases the text that it was read
// from.
type Member struct {
	Name  string
	Value []byte
}

// Members returns the members of an object in their order. A name that occurs
// twice is returned twice.
func Members(object []byte) ([]Member, error) {
	r := NewReader(object)
	var members []Member
	r.Object(func(name string) {
		members = append(members, Member{Name: name, Value: r.Raw()})
	})
	return members, r.End()
}

// Elements returns the elements of an array. They alias the text.
func Elements(array []byte) ([][]byte, error) {
	r := NewReader(array)
	var elements [][]byte
	r.Array(func(int) { elements = append(elements, r.Raw()) })
	return elements, r.End()
}

// Valid returns an error unless data is one JSON text nested at most maxDepth
// levels deep; 0 means [DefaultMaxDepth].
func Valid(data []byte, maxDepth int) error {
	r := Reader{data: data, MaxDepth: maxDepth}
	r.Skip()
	return r.End()
}

// Lookup returns the value at a path of member names; of a name that occurs
// twice, the last one. The value aliases data. ok is false if there is no such
// member, or if data is not valid JSON.
func Lookup(data []byte, path ...string) (value []byte, ok bool) {
	value = data
	for _, name := range path {
		if value = lookup(value, name); value == nil {
			return nil, false
		}
	}
	return value, true
}

// lookup returns the last member of that name, or nil. It reads the whole object, because a
// text that is not valid must not yield a value.
func lookup(object []byte, name string) (value []byte) {
	r := NewReader(object)
	r.Object(func(member string) {
		if member == name {
			value = r.Raw()
		}
	})
	if r.End() != nil {
		return nil
	}
	return value
}
