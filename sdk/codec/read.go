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
	Reader = rawjson.Reader
	// Error is the reason why a value does not fit into its type, or why it has
	// no JSON form.
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
