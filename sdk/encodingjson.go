package sdk

import (
	"encoding"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/internal/anyjson"
)

// This file makes encoding/json usable in a guest, as the codec of types without
// methods.

// unmarshalJSON returns errors in terms of the object, for the user who wrote it.
// Those of encoding/json are in terms of the author's types: "Go struct field
// Spec.image of type string".
func unmarshalJSON(data []byte, into any) error {
	err := anyjson.Unmarshal(data, into)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return rawjson.NewError(e.Field, "expected "+kindName(e.Type.Kind())+", found "+e.Value)
	}
	return err
}

// kindName returns the JSON term for a kind of Go.
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

// marshalJSON returns an error for a value that cannot be encoded. encoding/json
// reports such a value by a panic that it recovers from, which is not possible
// under TinyGo, so it must only be called with values that it can encode.
func marshalJSON(v any) ([]byte, error) {
	if err := encodable(v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// encodable returns the error that encoding/json would return for v. Whether a
// type has any value that cannot be encoded is computed once per type, and is
// false for most; only values of the others are visited.
func encodable(v any) error {
	if v == nil || !fallible(reflect.TypeOf(v)) {
		return nil
	}
	return encodableValue(reflect.ValueOf(v), 0)
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonNumber    = reflect.TypeFor[json.Number]()
)

// fallibles caches the results of [fallible].
var fallibles = map[reflect.Type]bool{}

// fallible reports whether some value of the type cannot be encoded.
func fallible(t reflect.Type) bool {
	known, ok := fallibles[t]
	if ok {
		return known
	}
	fallibles[t] = true // for a recursive type, whose values may contain themselves
	fallibles[t] = hasMarshaler(t) || t == jsonNumber || fallibleKind(t)
	return fallibles[t]
}

// hasMarshaler reports whether the type has a method that encodes it.
func hasMarshaler(t reflect.Type) bool {
	for _, m := range []reflect.Type{jsonMarshaler, textMarshaler} {
		if t.Implements(m) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(m) {
			return true
		}
	}
	return false
}

// fallibleKind is [fallible] for a type without methods of its own.
func fallibleKind(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool:
		return false
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return fallible(t.Elem())
	case reflect.Map:
		return t.Key().Kind() != reflect.String || fallible(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if isEncoded(t.Field(i)) && fallible(t.Field(i).Type) {
				return true
			}
		}
		return false
	default: // floats, interfaces, and kinds without a JSON form
		return !isPlainKey(t)
	}
}

// isPlainKey reports whether a value of the type is a string or an integer, and
// so can be the name of a member.
func isPlainKey(t reflect.Type) bool {
	return t.Kind() == reflect.String || reflect.Int <= t.Kind() && t.Kind() <= reflect.Uintptr
}

// isEncoded reports whether encoding/json encodes a field.
func isEncoded(f reflect.StructField) bool {
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-"
}

// encodableValue visits a value of a type that may fail. A value that contains itself
// exceeds the depth at which encoding/json would find the cycle.
func encodableValue(v reflect.Value, depth int) error {
	if depth > rawjson.DefaultMaxDepth {
		return errors.New("json: nested too deeply, or contains itself")
	}
	if pointer := v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; pointer && v.IsNil() || !fallible(v.Type()) {
		return nil
	}
	if done, err := tryMarshaler(v); done {
		return err
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return encodableValue(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return encodableElements(v, depth+1)
	case reflect.Map:
		return encodableMap(v, depth+1)
	case reflect.Struct:
		return encodableFields(v, depth+1)
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return errors.New("json: unsupported value: " + strconv.FormatFloat(f, 'g', -1, 64))
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return errors.New("json: unsupported type: " + v.Type().String())
	}
	return nil
}

// tryMarshaler calls the method that encodes v, if there is one, and returns its
// error.
func tryMarshaler(v reflect.Value) (done bool, err error) {
	if v.CanAddr() && v.Kind() != reflect.Pointer {
		v = v.Addr()
	}
	if !v.CanInterface() {
		return false, nil
	}
	switch m := v.Interface().(type) {
	case json.Marshaler:
		text, err := m.MarshalJSON()
		if err == nil {
			err = rawjson.Valid(text, 0)
		}
		return true, err
	case encoding.TextMarshaler:
		_, err := m.MarshalText()
		return true, err
	case json.Number:
		return true, validNumber(m)
	case *json.Number:
		return true, validNumber(*m)
	}
	return false, nil
}

// validNumber returns an error unless n is a number, or empty: encoding/json
// encodes the empty one as 0.
func validNumber(n json.Number) error {
	r := rawjson.NewReader([]byte(n))
	if n == "" || r.Kind() == '0' && len(r.Raw()) == len(n) {
		return nil
	}
	return errors.New("json: invalid number " + strconv.Quote(n.String()))
}

// encodableElements visits the elements of a slice or array.
func encodableElements(v reflect.Value, depth int) error {
	for i := range v.Len() {
		if err := encodableValue(v.Index(i), depth); err != nil {
			return err
		}
	}
	return nil
}

// encodableMap visits the keys and values of a map. A key must be a string or an integer, or
// have a method that encodes it as text.
func encodableMap(v reflect.Value, depth int) error {
	if t := v.Type().Key(); !isPlainKey(t) && !t.Implements(textMarshaler) {
		return errors.New("json: unsupported type: " + v.Type().String())
	}
	for entries := v.MapRange(); entries.Next(); {
		// A string is never asked for its text.
		k := entries.Key()
		if m, ok := k.Interface().(encoding.TextMarshaler); ok && k.Kind() != reflect.String {
			if _, err := m.MarshalText(); err != nil {
				return err
			}
		}
		if err := encodableValue(entries.Value(), depth); err != nil {
			return err
		}
	}
	return nil
}

// encodableFields visits the fields of a struct that encoding/json encodes.
func encodableFields(v reflect.Value, depth int) error {
	for i := range v.NumField() {
		if isEncoded(v.Type().Field(i)) {
			if err := encodableValue(v.Field(i), depth); err != nil {
				return err
			}
		}
	}
	return nil
}
