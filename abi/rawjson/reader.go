// Package rawjson reads, writes and edits JSON (RFC 8259) as bytes. It is
// what lets an object pass through the host without being decoded into maps
// and encoded again: a value that nobody looks into stays the bytes it was.
//
// Every function takes time linear in the length of its input, whatever the
// input holds, and memory of at most a small multiple of it.
//
// It imports only the standard library, uses no reflection and compiles under
// TinyGo, where it runs inside every guest.
package rawjson

import "strconv"

// DefaultMaxDepth is the nesting of arrays and objects that a [Reader]
// accepts unless told otherwise: that of encoding/json, and so of the API
// server, with some levels for the lists and messages that objects are sent
// in. Whatever a cluster can store can be read.
const DefaultMaxDepth = 10_000 + 10

// Reader decodes one JSON text from front to back in a single pass: the
// caller asks for the value that it expects next. The first error sticks,
// every later call returns a zero value, and [Reader.End] reports it with the
// path at which it happened.
//
// A member whose value is null reads as the zero value, as if it were not
// there; [Reader.Raw] and [Reader.Null] see the null. An array's element must
// be what is asked for.
//
// Strings without escapes, names and raw values alias the input: it must not
// be modified while they are in use, and keeping one of them keeps all of it.
// Bytes of a string that are not UTF-8 are passed on as they are.
type Reader struct {
	// Strict refuses names that a caller reports with [Reader.Unknown] and
	// names that an object holds twice, at any depth and in skipped and raw
	// values too. Otherwise unknown names are skipped, and a name given
	// twice is given to the caller twice.
	Strict bool
	// MaxDepth bounds the nesting; 0 means DefaultMaxDepth.
	MaxDepth int

	data []byte
	pos  int
	path []step
	seen []string // names so far of the objects in path, outermost first; only if Strict
	had  []names  // for each object in path, which of seen are its own; only if Strict
	err  *Error
}

// step is one level of the path to the value being read: a member if index is
// inMember, an element if it is not negative, none of these in between.
type step struct {
	name  string
	index int
	start int // where the value begins
}

const (
	inMember = -1
	between  = -2
)

// NewReader returns a reader of one JSON text.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Object reads an object and calls member for each of its members, which
// reads the value or leaves it to be skipped. name is valid as long as the
// input is.
func (r *Reader) Object(member func(name string)) {
	for more := r.open('{', "an object") && r.intoObject(); more; more = r.NextMember() {
		member(r.Name())
	}
}

// Array reads an array and calls element for each of its elements, which
// reads the value or leaves it to be skipped.
func (r *Reader) Array(element func(index int)) {
	for more := r.open('[', "an array") && r.intoArray(); more; more = r.NextElement() {
		element(r.path[len(r.path)-1].index)
	}
}

// Raw returns the bytes of the next value, whatever it is, after checking
// its syntax. They alias the input.
func (r *Reader) Raw() []byte {
	r.space()
	start := r.pos
	r.Skip()
	if r.err != nil {
		return nil
	}
	return r.data[start:r.pos:r.pos]
}

// Kind returns what the next value starts with: '{', '[', '"', 't', 'f', 'n'
// or '0' for a number; 0 at the end of the input.
func (r *Reader) Kind() byte {
	r.space()
	c := r.peek()
	if c == '-' || isDigit(c) {
		return '0'
	}
	return c
}

// Pos returns the offset of the next byte to be read.
func (r *Reader) Pos() int { return r.pos }

// Since returns what was read from that offset on. It aliases the input.
func (r *Reader) Since(pos int) []byte { return r.data[pos:r.pos:r.pos] }

// Nested reads the next value by a reader of its own, whose paths begin at the
// value. Its error is returned and leaves r before the value, to be skipped.
func (r *Reader) Nested(read func(*Reader)) error {
	inner := &Reader{data: r.data, pos: r.pos, Strict: r.Strict, MaxDepth: r.maxDepth() - len(r.path), err: r.err}
	if read(inner); inner.err == nil {
		r.pos = inner.pos
	}
	return inner.Err()
}

// Unknown reports that the caller does not know the member that is being
// read. A strict reader fails and names the nearest of the known ones.
func (r *Reader) Unknown(name string, known ...string) {
	if !r.Strict {
		return
	}
	message := "unknown field " + Quote(name)
	if near, ok := Nearest(name, known); ok {
		message += ", did you mean " + Quote(near) + "?"
	}
	// The path's last step is the unknown name itself.
	r.failAt(message, r.path[:max(len(r.path)-1, 0)])
}

// Fail makes the reader fail at the current path; the first failure sticks.
func (r *Reader) Fail(message string) { r.failAt(message, r.path) }

// FailAt is [Reader.Fail] for a value at a path below the current one, such as
// "ports[1].name"; "" is the current path.
func (r *Reader) FailAt(path, message string) {
	if r.err != nil {
		return
	}
	if r.Fail(message); path == "" {
		return
	}
	if r.err.Path != "" && path[0] != '[' {
		path = "." + path
	}
	r.err.Path += path
}

// End checks that nothing follows the text and returns the first error.
func (r *Reader) End() error {
	r.space()
	if r.err == nil && r.pos < len(r.data) {
		r.Fail("unexpected " + r.found() + " after the value")
	}
	return r.Err()
}

// Err returns the first error, an [*Error].
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// expect moves to the next value and says whether it starts with c. If not,
// the reader fails, unless the value is a null that stands for none.
func (r *Reader) expect(c byte, what string) bool {
	if r.space(); r.err != nil {
		return false
	}
	if r.peek() == c {
		return true
	}
	if !r.absent() {
		r.Expected(what)
	}
	return false
}

// absent consumes a null that is a member's value.
func (r *Reader) absent() bool {
	top := len(r.path) - 1
	return r.peek() == 'n' && top >= 0 && r.path[top].index == inMember && r.literal("null")
}

func (r *Reader) open(c byte, what string) bool {
	if (r.err != nil || r.peek() != c) && !r.expect(c, what) {
		return false
	}
	if len(r.path) >= r.maxDepth() {
		r.tooDeep()
		return false
	}
	r.pos++
	return true
}

func (r *Reader) tooDeep() {
	r.Fail("nested more than " + strconv.Itoa(r.maxDepth()) + " levels deep")
}

// more steps over the separator before the next member or element and says
// whether there is one; it consumes the closing byte.
func (r *Reader) more(first bool, closing byte) bool {
	r.space()
	if r.err != nil {
		return false
	}
	if r.peek() == closing {
		r.pos++
		return false
	}
	if first {
		return true
	}
	if r.peek() != ',' {
		r.Expected("',' or " + quoteByte(closing))
		return false
	}
	r.pos++
	r.space()
	if r.peek() == closing {
		r.Expected("a value after ','")
		return false
	}
	return true
}

// name reads a member's name and the colon behind it.
func (r *Reader) name() string {
	if r.peek() != '"' {
		r.Expected("a member name in quotes")
		return ""
	}
	name := r.text()
	if r.space(); r.err != nil {
		return ""
	}
	if r.peek() != ':' {
		r.Expected("':' after " + Quote(name))
		return ""
	}
	r.pos++
	return name
}

func (r *Reader) maxDepth() int {
	if r.MaxDepth > 0 {
		return r.MaxDepth
	}
	return DefaultMaxDepth
}

func (r *Reader) peek() byte {
	if r.pos < len(r.data) {
		return r.data[r.pos]
	}
	return 0
}

// space skips white space. Most texts have none.
func (r *Reader) space() {
	if r.pos < len(r.data) && r.data[r.pos] <= ' ' {
		r.spaces()
	}
}

func (r *Reader) spaces() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\n', '\t', '\r':
			r.pos++
		default:
			return
		}
	}
}
