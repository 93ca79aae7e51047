package codec

import (
	"encoding/base64"
	"unsafe"

	"github.com/thole-dev/thole/abi/rawjson"
)

// Reader reads one JSON text; its first error sticks.
type Reader = rawjson.Reader

// ReadString reads a string.
func ReadString(r *Reader, into *string) { r.StringTo(into) }

// ReadBool reads true or false.
func ReadBool(r *Reader, into *bool) {
	if !r.Null() {
		*into = r.Bool()
	}
}

// signed and unsigned are the integers of Go, and types of that kind.
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

// ReadRaw reads any value, a null too, as the bytes that it is.
func ReadRaw(r *Reader, into *[]byte) { *into = r.Raw() }

// ReadBytes reads bytes in base 64, or as an array of numbers.
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

// firstRoom is for how many elements a slice has room at first.
const firstRoom = 4

// Extend returns the list with one more element, which holds what its place
// held before.
func Extend[L ~[]E, E any](list L) L {
	if n := len(list); n < cap(list) {
		return list[:n+1]
	}
	if cap(list) == 0 {
		return make(L, 1, firstRoom)
	}
	var zero E
	return append(list, zero)
}

// Filled returns the list as a decoder leaves it: without elements it has no
// room either, and is not nil.
func Filled[L ~[]E, E any](list L) L {
	if len(list) == 0 {
		return L{}
	}
	return list
}

// ReadText reads a string for a type that is read from text; ok is false at a
// null and when the reader fails.
func ReadText(r *Reader) (text []byte, ok bool) {
	if r.Null() {
		return nil, false
	}
	s := r.String()
	return []byte(s), r.Err() == nil
}

// Check makes the reader fail with err, if it is one.
func Check(r *Reader, err error) {
	if err != nil {
		r.Fail(err.Error())
	}
}

// MaxDepth is how many arrays and objects deep a value may be whose type
// contains itself: a guest's stack has 64 KiB.
const MaxDepth = 100

// Deep makes the reader fail if it is deeper than [MaxDepth] inside of values.
func Deep(r *Reader) bool {
	if r.Depth() <= MaxDepth {
		return false
	}
	r.Fail("nested too deeply")
	return true
}
