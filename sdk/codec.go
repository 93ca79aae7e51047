package sdk

import (
	"reflect"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// The codec of the author's types is encoding/json, unless a type brings its
// own by these two methods, which is what `thole generate` writes.
type (
	decoder interface{ DecodeJSON(r *Reader) }
	encoder interface {
		AppendJSON(dst []byte) ([]byte, error)
	}
)

// Reader is for what must be read fast. A pointer to a type that has the method
//
//	DecodeJSON(r *sdk.Reader)
//
// is filled by it wherever the SDK reads JSON into it, and the elements of a
// slice likewise, in place of encoding/json: in one pass, and strings without
// escapes are not copied. `thole generate` writes such methods, and the
// opposite AppendJSON; see package codec.
type Reader = rawjson.Reader

// others is the codec of types that bring none: encoding/json, see
// [Register]. It is behind functions that only Register sets, so that a plugin
// without it does not carry encoding/json.
var others struct {
	decode func(data []byte, into any) error
	encode func(v any) ([]byte, error)
}

// Decode reads JSON into what into points to, as [Run.Get] does: by the type's
// own codec if it has one, else by encoding/json.
func Decode(data []byte, into any) error { return decode(data, into) }

// Encode returns v as JSON, as [Run.Apply] does. Do not change the bytes: those
// of a [Raw] are its own.
func Encode(v any) ([]byte, error) { return encode(v) }

// decode reads a JSON text into what into points to. The error is a
// [*codec.Error] if it is about one value.
func decode(data []byte, into any) error {
	r := rawjson.NewReader(data)
	readValue(r, into)
	return told(r)
}

// told ends a text, and tells what went wrong without offsets, which say
// nothing to those who wrote the object.
func told(r *Reader) error {
	if err := r.End(); err != nil {
		return codec.ErrorOf(err)
	}
	return nil
}

// readValue reads the next value into what into points to; r fails if it does
// not fit.
func readValue(r *Reader, into any) {
	switch into := into.(type) {
	case decoder:
		into.DecodeJSON(r)
	case *Raw:
		*into = append(Raw(nil), r.Raw()...)
	default:
		if !readPlain(r, into) && !readList(r, into) {
			readOther(r, into)
		}
	}
}

// readPlain reads what needs no codec.
func readPlain(r *Reader, into any) bool {
	switch into := into.(type) {
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

// readList reads an array whose elements bring their own codec.
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

var decoderType = reflect.TypeFor[decoder]()

func readOther(r *Reader, into any) {
	data := r.Raw()
	if data == nil {
		return
	}
	err := errNoCodec(into)
	if others.decode != nil {
		err = others.decode(data, into)
	}
	if err != nil {
		inner := codec.ErrorOf(err)
		r.FailAt(inner.Path, inner.Message)
	}
}

// usualSize is how many bytes a value is given room for at first.
const usualSize = 512

// encode returns v as JSON; bytes are JSON already.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case encoder:
		if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.IsNil() {
			return codec.AppendNull(nil), nil
		}
		return v.AppendJSON(make([]byte, 0, usualSize))
	case Raw:
		return v, rawjson.Valid(v, rawjson.DefaultMaxDepth)
	case []byte:
		return v, rawjson.Valid(v, rawjson.DefaultMaxDepth)
	}
	if text, ok := appendPlain(v); ok {
		return text, nil
	}
	if others.encode == nil {
		return nil, errNoCodec(v)
	}
	return others.encode(v)
}

// appendPlain encodes what needs no codec.
func appendPlain(v any) (text []byte, ok bool) {
	switch v := v.(type) {
	case nil:
		text = codec.AppendNull(nil)
	case string:
		text = codec.AppendString(nil, v)
	case bool:
		text = codec.AppendBool(nil, v)
	case int:
		text = codec.AppendInt(nil, int64(v))
	case int64:
		text = codec.AppendInt(nil, v)
	case []string:
		text = codec.AppendStrings(nil, v)
	case map[string]string:
		text = codec.AppendStringMap(nil, v)
	}
	return text, text != nil
}

func errNoCodec(v any) error {
	return &codec.Error{Message: "type " + reflect.TypeOf(v).String() + " has no codec: give it one by `thole generate`, " +
		"or register the plugin's controllers by sdk.Register"}
}

// warm takes a value through the codec in both directions.
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
