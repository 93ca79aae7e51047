package sdk

import (
	"reflect"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// decoder and encoder are implemented by a type with a codec of its own, which
// `thole generate` writes. All other types are left to fallback.
type (
	decoder interface{ DecodeJSON(r *Reader) }
	encoder interface {
		AppendJSON(dst []byte) ([]byte, error)
	}
)

// Reader reads JSON. A pointer to a type that has the method
//
//	DecodeJSON(r *sdk.Reader)
//
// is filled by that method wherever the SDK reads JSON into it, and so are the
// elements of a slice, instead of by encoding/json: in one pass, and without
// copying strings that have no escapes. `thole generate` writes such methods, and
// their counterpart AppendJSON; see package codec.
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
type Reader = rawjson.Reader

// Value is a value that the SDK writes as JSON, or a pointer to one that it reads JSON
// into: a struct with the tags of encoding/json, or a slice of such structs. [Raw] and
// bytes are JSON already. Every type implements it.
//
// By this name `thole generate` finds the types that need a codec: those of which a
// value becomes a Value, wherever that is. A function that passes its parameter on to the
// SDK has a parameter of this type, or a type parameter. With a parameter of type any the
// types are not known, so that the plugin contains encoding/json for them.
type Value any

// fallback is the codec of types without methods. It is encoding/json if a type of
// the plugin needs it: see [UseEncodingJSON].
var fallback struct {
	decode func(data []byte, into any) error
	encode func(v any) ([]byte, error)
}

// UseEncodingJSON makes encoding/json read and write the types without methods. The file
// that `thole generate` writes calls it if values of such types are passed to the SDK, and
// [Register] if the types of a controller are of them.
func UseEncodingJSON() { fallback.decode, fallback.encode = unmarshalJSON, marshalJSON }

// require makes sure that a type is read and written. TinyGo knows the answer when it
// compiles, and leaves encoding/json out where no type requires it.
func require[T Value]() {
	if !hasCodec((*T)(nil)) {
		UseEncodingJSON()
	}
}

// requireAll makes sure that the types of a controller are read and written, and so is
// what else its plugin passes to the SDK.
func requireAll[Spec, Status Value]() {
	if !isGenerated[Spec]() && !isGenerated[Status]() {
		UseEncodingJSON() // other values may need it
	}
	require[Spec]()
	require[Status]()
}

// isGenerated reports whether `thole generate` has run for a type: that file links
// encoding/json if another value needs it. A type of sdk/kubernetes has a compact codec,
// and says nothing about the plugin.
func isGenerated[T Value]() bool {
	_, reads := any((*T)(nil)).(decoder)
	_, compact := any((*T)(nil)).(interface{ VisitJSON(*codec.Visitor) })
	return reads && !compact
}

// hasCodec reports whether encoding/json is not needed for what a pointer points to.
func hasCodec(pointer any) bool {
	switch pointer.(type) {
	case *struct{}, *Raw, *string, *bool, *int, *int64, *[]string, *map[string]string:
		return true
	}
	_, reads := pointer.(decoder)
	_, writes := pointer.(encoder)
	return reads && writes
}

// Decode reads JSON into the value that into points to, as [Run.Get] does: by the
// methods of its type if there are any, and otherwise by encoding/json.
func Decode(data []byte, into Value) error { return decode(data, into) }

// Encode returns v as JSON, as [Run.Apply] does. The bytes must not be modified,
// because those of a [Raw] are not copied.
func Encode(v Value) ([]byte, error) { return encode(v) }

// decode reads a JSON text into the value that into points to. The error is a
// [*codec.Error] if it is about one value.
func decode(data []byte, into any) error {
	r := rawjson.NewReader(data)
	readValue(r, into)
	return finish(r)
}

// finish ends a text and returns its error without the offset, which means
// nothing to the user who wrote the object.
func finish(r *Reader) error {
	if err := r.End(); err != nil {
		return rawjson.ErrorOf(err)
	}
	return nil
}

// readValue reads the next value into the value that into points to.
func readValue(r *Reader, into any) {
	switch into := into.(type) {
	case decoder:
		into.DecodeJSON(r)
	case *Raw:
		*into = append(Raw(nil), r.Raw()...)
	default:
		if !readPlain(r, into) && !readList(r, into) {
			readByFallback(r, into)
		}
	}
}

// readPlain reads the types that need no codec, and reports whether into points
// to one of them.
func readPlain(r *Reader, into any) bool {
	switch into := into.(type) {
	case *struct{}:
		for more := r.FirstMember(); more; more = r.NextMember() {
			r.Skip()
		}
	case *string:
		codec.ReadString(r, into)
	case *bool:
		codec.ReadBool(r, into)
	case *int:
		codec.ReadInt(r, into)
	case *int64:
		codec.ReadInt(r, into)
	case *[]string:
		codec.ReadStrings(r, into)
	case *map[string]string:
		codec.ReadStringMap(r, into)
	default:
		return false
	}
	return true
}

var (
	decoderType = reflect.TypeFor[decoder]()
	encoderType = reflect.TypeFor[encoder]()
)

// readList reads an array into a slice whose elements have a codec of their own,
// and reports whether into points to one.
func readList(r *Reader, into any) bool {
	list := reflect.ValueOf(into)
	if list.Kind() != reflect.Pointer || list.IsNil() {
		return false
	}
	list = list.Elem()
	if list.Kind() != reflect.Slice || !reflect.PointerTo(list.Type().Elem()).Implements(decoderType) {
		return false
	}
	if r.Null() {
		list.SetZero()
		return true
	}
	n := 0
	for more := r.FirstElement(); more; more = r.NextElement() {
		if n == list.Cap() {
			list.Grow(1)
		}
		list.SetLen(n + 1)
		list.Index(n).Addr().Interface().(decoder).DecodeJSON(r)
		n++
	}
	if n == 0 {
		list.Set(reflect.MakeSlice(list.Type(), 0, 0))
	}
	return true
}

// readByFallback reads a value of a type without methods.
func readByFallback(r *Reader, into any) {
	data := r.Raw()
	if data == nil {
		return
	}
	var err error
	switch t := reflect.TypeOf(into); {
	case t == nil:
		err = rawjson.NewError("", "nothing can be read into nil: pass a pointer")
	case t.Kind() != reflect.Pointer:
		err = rawjson.NewError("", "nothing can be read into a "+t.String()+": pass a pointer to it")
	case fallback.decode == nil:
		err = errNoCodec(into)
	default:
		err = fallback.decode(data, into)
	}
	if err != nil {
		inner := rawjson.ErrorOf(err)
		r.FailAt(inner.Path, inner.Message)
	}
}

// usualSize is the capacity in bytes that an encoded value begins with.
const usualSize = 512

// encode returns v as JSON. Bytes are JSON already.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case encoder:
		if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.IsNil() {
			return codec.AppendNull(nil), nil
		}
		return v.AppendJSON(make([]byte, 0, usualSize))
	case Raw:
		return v, rawjson.Valid(v, 0)
	case []byte:
		return v, rawjson.Valid(v, 0)
	case *Raw:
		if v == nil || *v == nil {
			return codec.AppendNull(nil), nil
		}
		return encode(*v)
	case *struct{}, *string, *bool, *int, *int64, *[]string, *map[string]string:
		if p := reflect.ValueOf(v); !p.IsNil() {
			return encode(p.Elem().Interface())
		}
		return codec.AppendNull(nil), nil
	}
	if text, ok := appendPlain(nil, v); ok {
		return text, nil
	}
	if text, ok, err := encodeList(v); ok {
		return text, err
	}
	if fallback.encode == nil {
		return nil, errNoCodec(v)
	}
	return fallback.encode(v)
}

// appendPlain appends a value of a type that needs no codec. ok is false for others.
func appendPlain(dst []byte, v any) (text []byte, ok bool) {
	switch v := v.(type) {
	case nil:
		return codec.AppendNull(dst), true
	case struct{}:
		return append(dst, "{}"...), true
	case string:
		return codec.AppendString(dst, v), true
	case bool:
		return codec.AppendBool(dst, v), true
	case int:
		return codec.AppendInt(dst, int64(v)), true
	case int64:
		return codec.AppendInt(dst, v), true
	case []string:
		return codec.AppendStrings(dst, v), true
	case map[string]string:
		return codec.AppendStringMap(dst, v), true
	}
	return nil, false
}

// encodeList returns a slice whose elements have a codec of their own, or what a pointer to
// one points to, as JSON. ok is false for other values.
func encodeList(v any) (text []byte, ok bool, err error) {
	list := reflect.ValueOf(v)
	t := list.Type()
	if t.Kind() == reflect.Pointer {
		t, list = t.Elem(), list.Elem()
	}
	if t.Kind() != reflect.Slice || !t.Elem().Implements(encoderType) {
		return nil, false, nil
	}
	if !list.IsValid() || list.IsNil() {
		return codec.AppendNull(nil), true, nil
	}
	text = append(make([]byte, 0, usualSize), '[')
	for i := range list.Len() {
		if i > 0 {
			text = append(text, ',')
		}
		element := list.Index(i)
		if element.Kind() == reflect.Pointer && element.IsNil() {
			text = codec.AppendNull(text)
			continue
		}
		if text, err = element.Interface().(encoder).AppendJSON(text); err != nil {
			return nil, true, err
		}
	}
	return append(text, ']'), true, nil
}

func errNoCodec(v any) error {
	return rawjson.NewError("", "type "+reflect.TypeOf(v).String()+" has no codec, and encoding/json is not linked: run `thole generate` for the package that passes it to the SDK")
}

// warm encodes and decodes a value, so that the codecs meet its type.
func warm(v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	if t := reflect.TypeOf(v); t != nil && t.Kind() != reflect.Pointer {
		v = reflect.New(t).Interface()
	}
	return decode(data, v)
}
