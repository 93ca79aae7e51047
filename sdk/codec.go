package sdk

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/thole-dev/thole/abi/rawjson"
)

// The codec of the author's types is encoding/json, unless a type brings its
// own by these two methods, which is how generated code comes in.
type (
	decoder interface{ DecodeJSON(r *Reader) }
	encoder interface{ AppendJSON(dst []byte) []byte }
)

// Reader is for what must be read fast. A pointer to a type that has the method
//
//	DecodeJSON(r *sdk.Reader)
//
// is filled by it where [Run.Get] and [Run.List] fill it, in place of
// encoding/json: in one pass, and strings without escapes are not copied.
type Reader = rawjson.Reader

// decode reads a JSON text into what into points to. The error is a
// [*fieldError] if it is about one value.
func decode(data []byte, into any) error {
	switch into := into.(type) {
	case decoder:
		r := rawjson.NewReader(data)
		into.DecodeJSON(r)
		return describe(r.End())
	case *Raw:
		*into = append(Raw(nil), data...)
		return nil
	}
	return describe(json.Unmarshal(data, into))
}

// fieldError is why a value does not fit into the author's type.
type fieldError struct{ path, message string }

func (e *fieldError) Error() string {
	if e.path == "" {
		return e.message
	}
	return e.path + ": " + e.message
}

// describe says what those can act on who wrote the object: encoding/json
// tells of a "Go struct field Spec.image of type string".
func describe(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &fieldError{path: e.Field, message: "expected " + goKinds[e.Type.Kind()] + ", found " + e.Value}
	}
	if e, ok := errors.AsType[*rawjson.Error](err); ok {
		return &fieldError{path: e.Path, message: e.Message}
	}
	return err
}

// within puts the path of an error below the member of that name.
func within(name string, err error) error {
	if err == nil {
		return nil
	}
	inner, ok := errors.AsType[*fieldError](err)
	if !ok {
		return &fieldError{path: name, message: err.Error()}
	}
	if inner.path != "" && inner.path[0] != '[' {
		name += "."
	}
	return &fieldError{path: name + inner.path, message: inner.message}
}

// goKinds names kinds of Go as JSON has them.
var goKinds = map[reflect.Kind]string{
	reflect.Bool:    "true or false",
	reflect.String:  "a string",
	reflect.Slice:   "an array",
	reflect.Array:   "an array",
	reflect.Map:     "an object",
	reflect.Struct:  "an object",
	reflect.Float32: "a number", reflect.Float64: "a number",
	reflect.Int: "an integer", reflect.Int8: "an integer", reflect.Int16: "an integer",
	reflect.Int32: "an integer", reflect.Int64: "an integer",
	reflect.Uint: "a natural number", reflect.Uint8: "a natural number", reflect.Uint16: "a natural number",
	reflect.Uint32: "a natural number", reflect.Uint64: "a natural number",
}

// encode returns v as JSON; bytes are JSON already. What cannot be encoded is
// an error: encoding/json panics inside, and TinyGo cannot recover, so that it
// only gets to see what is known to work.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case encoder:
		return v.AppendJSON(nil), nil
	case Raw:
		return v, rawjson.Valid(v, rawjson.DefaultMaxDepth)
	case []byte:
		return v, rawjson.Valid(v, rawjson.DefaultMaxDepth)
	}
	if err := encodable(v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
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
