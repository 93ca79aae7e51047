package sdk

import (
	"encoding"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"

	"github.com/thole-dev/thole/abi/rawjson"
)

// encodable returns the error that encoding/json would make of v. Most types
// cannot fail, which is found out once per type; the values of the others are
// looked at each time.
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

// fallibles remembers what [fallible] found out.
var fallibles = map[reflect.Type]bool{}

// fallible says whether some value of the type cannot be encoded.
func fallible(t reflect.Type) bool {
	known, ok := fallibles[t]
	if ok {
		return known
	}
	fallibles[t] = true // a type that contains itself may hold a cycle
	fallibles[t] = marshals(t) || t == jsonNumber || fallibleKind(t)
	return fallibles[t]
}

// marshals says whether code of the author encodes the type.
func marshals(t reflect.Type) bool {
	for _, m := range []reflect.Type{jsonMarshaler, textMarshaler} {
		if t.Implements(m) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(m) {
			return true
		}
	}
	return false
}

func fallibleKind(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return false
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return fallible(t.Elem())
	case reflect.Map:
		return t.Key().Kind() != reflect.String || fallible(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if encoded(t.Field(i)) && fallible(t.Field(i).Type) {
				return true
			}
		}
		return false
	default: // floats, interfaces, and what has no form in JSON
		return true
	}
}

// encoded says whether encoding/json looks at a field.
func encoded(f reflect.StructField) bool {
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-"
}

func encodableValue(v reflect.Value, depth int) error {
	if depth > rawjson.DefaultMaxDepth {
		return errors.New("json: nested too deeply, or a cycle")
	}
	if pointer := v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; pointer && v.IsNil() || !fallible(v.Type()) {
		return nil
	}
	if done, err := marshal(v); done {
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

// marshal asks the author's own method what would become of v, if there is
// one.
func marshal(v reflect.Value) (done bool, err error) {
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
			err = rawjson.Valid(text, rawjson.DefaultMaxDepth)
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

// validNumber: an empty one is written as 0.
func validNumber(n json.Number) error {
	r := rawjson.NewReader([]byte(n))
	if n == "" || r.Kind() == '0' && r.Raw() != nil && r.End() == nil {
		return nil
	}
	return errors.New("json: invalid number " + strconv.Quote(n.String()))
}

func encodableElements(v reflect.Value, depth int) error {
	for i := range v.Len() {
		if err := encodableValue(v.Index(i), depth); err != nil {
			return err
		}
	}
	return nil
}

func encodableMap(v reflect.Value, depth int) error {
	if t := v.Type().Key(); !plainKey(t) && !t.Implements(textMarshaler) {
		return errors.New("json: unsupported type: " + v.Type().String())
	}
	for entries := v.MapRange(); entries.Next(); {
		if err := encodableKey(entries.Key()); err != nil {
			return err
		}
		if err := encodableValue(entries.Value(), depth); err != nil {
			return err
		}
	}
	return nil
}

// plainKey says whether values of the type name members as they are.
func plainKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	default:
		return false
	}
}

// encodableKey asks a key that says itself which member it names. A string is
// never asked.
func encodableKey(k reflect.Value) error {
	if m, ok := k.Interface().(encoding.TextMarshaler); ok && k.Kind() != reflect.String {
		_, err := m.MarshalText()
		return err
	}
	return nil
}

func encodableFields(v reflect.Value, depth int) error {
	for i := range v.NumField() {
		if !encoded(v.Type().Field(i)) {
			continue
		}
		if err := encodableValue(v.Field(i), depth); err != nil {
			return err
		}
	}
	return nil
}
