// Package codec has the functions that the code of `thole generate` calls: they
// read and append the values that a type consists of. Authors need it only for a
// type with a JSON form of its own:
//
//	func (c *Color) DecodeJSON(r *codec.Reader)
//	func (c Color) AppendJSON(dst []byte) ([]byte, error)
//
// The read functions behave as encoding/json does: a null leaves a plain value
// unchanged and sets a slice or map to nil, an existing value is filled and not
// replaced, and an integer that does not fit into its type is an error. Strings
// and raw values alias the input, which must not be modified while they are in
// use. Nothing is allocated but what the value itself needs.
//
// The package imports nothing that uses reflection.
package codec

import (
	"encoding/base64"
	"unsafe"

	"github.com/thole-dev/thole/abi/rawjson"
)

type (
	// Reader reads one JSON text. After its first error it reads zero values.
	//
	//	type Reader struct {
	//		// Strict makes the reader fail at names that the caller reports with
	//		// Reader.Unknown and, at any depth and in skipped and raw values too, at
	//		// names that occur twice in one object and at escapes of half of a surrogate
	//		// pair, which are no text. Otherwise unknown names are ignored, and each
	//		// occurrence of a name is passed to the caller.
	//		Strict bool
	//		// MaxDepth bounds the nesting; 0 means DefaultMaxDepth.
	//		MaxDepth int
	//		// contains filtered or unexported fields
	//	}
	//
	//	func (r *Reader) Array(element func(index int))        // reads an array and calls element for each of its elements
	//	func (r *Reader) Bool() bool                           // reads true or false
	//	func (r *Reader) Depth() int                           // returns the number of objects and arrays around the next value
	//	func (r *Reader) End() error                           // checks that nothing follows the text and returns the first error
	//	func (r *Reader) Err() error                           // returns the first error, which is an *Error
	//	func (r *Reader) Expected(what string)
	//	func (r *Reader) Fail(message string)                  // makes the reader fail at the current path
	//	func (r *Reader) FailAt(path, message string)
	//	func (r *Reader) FirstElement() bool                   // enters an array and moves to its first element
	//	func (r *Reader) FirstMember() bool                    // enters an object and moves to its first member
	//	func (r *Reader) Float(bits int) float64               // reads a number as the nearest one of 32 or 64 bits
	//	func (r *Reader) Int() int64                           // reads an integer of 64 bits that is written without fraction and exponent
	//	func (r *Reader) IntOf(bits int) int64                 // reads an integer of up to 64 bits that is written without fraction and exponent
	//	func (r *Reader) Kind() byte                           // returns the byte that the next value starts with
	//	func (r *Reader) Name() string                         // returns the name of the current member
	//	func (r *Reader) Nested(read func(*Reader)) error      // reads the next value with a separate reader, whose paths begin at the value
	//	func (r *Reader) NextElement() bool                    // moves to the array's next element
	//	func (r *Reader) NextMember() bool                     // moves to the object's next member
	//	func (r *Reader) Null() bool                           // consumes the next value if it is null, and reports whether it was
	//	func (r *Reader) Object(member func(name string))      // reads an object and calls member for each of its members
	//	func (r *Reader) Pos() int                             // returns the offset of the next byte to be read
	//	func (r *Reader) Raw() []byte                          // returns the bytes of the next value of any type, after checking its syntax
	//	func (r *Reader) Since(pos int) []byte                 // returns what was read since the reader was at offset pos
	//	func (r *Reader) Skip()                                // consumes the next value after checking its syntax and depth
	//	func (r *Reader) String() string                       // reads a string
	//	func (r *Reader) StringTo(into *string)                // reads a string into into, as Reader.String does
	//	func (r *Reader) Uint(bits int) uint64
	//	func (r *Reader) Unknown(name string, known ...string) // reports that the caller does not know the current member
	Reader = rawjson.Reader
	// Error is the reason why a value does not fit into its type, or why it has
	// no JSON form.
	//
	//	type Error struct {
	//		Path    string // such as "controllers[1].for.kind"; "" for the value as a whole
	//		Offset  int    // in bytes; negative if there is none
	//		Message string
	//	}
	//
	//	func (e *Error) Error() string
	Error = rawjson.Error
)

// ReadString reads a string.
func ReadString(r *Reader, into *string) { r.StringTo(into) }

// ReadBool reads true or false.
func ReadBool(r *Reader, into *bool) {
	if !r.Null() {
		*into = r.Bool()
	}
}

type (
	signed interface {
		~int | ~int8 | ~int16 | ~int32 | ~int64
	}
	unsigned interface {
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
	}
)

// ReadInt reads an integer that fits into its type.
func ReadInt[T signed](r *Reader, into *T) {
	if !r.Null() {
		*into = T(r.IntOf(int(unsafe.Sizeof(*into)) * 8))
	}
}

// ReadUint reads a natural number or 0 that fits into its type.
func ReadUint[T unsigned](r *Reader, into *T) {
	if !r.Null() {
		*into = T(r.Uint(int(unsafe.Sizeof(*into)) * 8))
	}
}

// ReadFloat reads a number.
func ReadFloat[T ~float32 | ~float64](r *Reader, into *T) {
	if !r.Null() {
		*into = T(r.Float(int(unsafe.Sizeof(*into)) * 8))
	}
}

// ReadRaw reads the bytes of any value, including a null.
func ReadRaw(r *Reader, into *[]byte) { *into = r.Raw() }

// ReadBytes reads bytes in base64, or as an array of numbers.
func ReadBytes(r *Reader, into *[]byte) {
	switch {
	case r.Null():
		*into = nil
	case r.Kind() == '[':
		readNumbers(r, into)
	default:
		decoded, err := base64.StdEncoding.DecodeString(r.String())
		*into = decoded
		Check(r, err)
	}
}

// readNumbers reads an array of numbers from 0 to 255, which encoding/json accepts for bytes
// too.
func readNumbers(r *Reader, into *[]byte) {
	list := (*into)[:0]
	for more := r.FirstElement(); more; more = r.NextElement() {
		list = Extend(list)
		ReadUint(r, &list[len(list)-1])
	}
	*into = Filled(list)
}

// ReadStrings reads an array of strings.
func ReadStrings[L ~[]S, S ~string](r *Reader, into *L) {
	if r.Null() {
		*into = nil
		return
	}
	list := (*into)[:0]
	for more := r.FirstElement(); more; more = r.NextElement() {
		list = Extend(list)
		value := string(list[len(list)-1])
		r.StringTo(&value)
		list[len(list)-1] = S(value)
	}
	*into = Filled(list)
}

// ReadStringMap reads an object whose members are strings.
func ReadStringMap[M ~map[K]V, K, V ~string](r *Reader, into *M) {
	if r.Null() {
		*into = nil
		return
	}
	if *into == nil {
		*into = M{}
	}
	for more := r.FirstMember(); more; more = r.NextMember() {
		name := r.Name()
		var value string
		r.StringTo(&value)
		(*into)[K(name)] = V(value)
	}
}

// Extend returns the list with one more element. The element keeps the value
// that its place in the array had before, which encoding/json fills likewise.
func Extend[L ~[]E, E any](list L) L {
	if n := len(list); n < cap(list) {
		return list[:n+1]
	}
	if cap(list) == 0 {
		return make(L, 1, 4)
	}
	var zero E
	return append(list, zero)
}

// Filled returns the list as a decoder must leave it: an empty one is not nil
// and has no capacity.
func Filled[L ~[]E, E any](list L) L {
	if len(list) == 0 {
		return L{}
	}
	return list
}

// ReadText reads a string for an UnmarshalText method. ok is false for a null and
// after an error.
func ReadText(r *Reader) (text []byte, ok bool) {
	if r.Null() {
		return nil, false
	}
	s := r.String()
	return []byte(s), r.Err() == nil
}

// Check makes the reader fail with err unless it is nil.
func Check(r *Reader, err error) {
	if err != nil {
		r.Fail(err.Error())
	}
}

// MaxDepth is the depth of arrays and objects up to which a value of a recursive
// type is read and written. The stack of a guest may have only 64 KiB.
const MaxDepth = 100

// ErrDepth is the error for a value that is nested more than [MaxDepth] levels
// deep, such as one that contains itself.
var ErrDepth error = rawjson.NewError("", "nested too deeply, or contains itself")

// Deep makes the reader fail, and returns true, if it is more than [MaxDepth]
// levels deep.
func Deep(r *Reader) bool {
	if r.Depth() <= MaxDepth {
		return false
	}
	r.Fail("nested too deeply")
	return true
}
