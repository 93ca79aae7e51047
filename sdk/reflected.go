package sdk

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/thole-dev/thole/sdk/codec"
)

// useEncodingJSON makes encoding/json the codec of types that bring none.
func useEncodingJSON() {
	others.decode, others.encode = unmarshalJSON, marshalJSON
}

// unmarshalJSON says what those can act on who wrote the object: encoding/json
// tells of a "Go struct field Spec.image of type string".
func unmarshalJSON(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &codec.Error{Path: e.Field, Message: "expected " + kindName(e.Type.Kind()) + ", found " + e.Value}
	}
	return err
}

// kindName names a kind of Go as JSON has it.
func kindName(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a natural number"
	default:
		return "a number"
	}
}

// marshalJSON returns an error for what cannot be encoded: encoding/json panics
// inside, and TinyGo cannot recover, so that it only gets to see what is known
// to work.
func marshalJSON(v any) ([]byte, error) {
	if err := encodable(v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
