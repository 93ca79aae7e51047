// Package anyjson decodes values of any type by encoding/json without losing digits of integers: encoding/json makes a
// float64 of each number in a value of type any, which has 53 bits for an integer.
package anyjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// Unmarshal is [json.Unmarshal], but for numbers in values of type any. An integer is an int64 there, as in the
// unstructured objects of client-go, and a [json.Number] if it is too large for one. Another number is a float64,
// or a [json.Number] if that cannot hold it.
func Unmarshal(data []byte, into any) error {
	if into == nil || !holdsAny(reflect.TypeOf(into)) {
		return json.Unmarshal(data, into)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if end := data[d.InputOffset():]; len(bytes.TrimLeft(end, " \t\r\n")) > 0 {
		return json.Unmarshal(data, new(json.RawMessage)) // which says what is wrong
	}
	visit(reflect.ValueOf(into))
	return nil
}

// holding caches the results of [holdsAny].
var holding = map[reflect.Type]bool{}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// holdsAny reports whether values of a type have values of type any that encoding/json sets.
func holdsAny(t reflect.Type) bool {
	known, ok := holding[t]
	if ok {
		return known
	}
	// For a recursive type. What has none is then visited in vain, but none is overlooked.
	holding[t] = true
	switch {
	case t.Kind() == reflect.Interface:
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(unmarshaler):
		holding[t] = false // it decodes itself
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice, t.Kind() == reflect.Array, t.Kind() == reflect.Map:
		holding[t] = holdsAny(t.Elem())
	case t.Kind() == reflect.Struct:
		holds := false
		for i := range t.NumField() {
			f := t.Field(i)
			holds = isDecoded(f) && holdsAny(f.Type) || holds
		}
		holding[t] = holds
	default:
		holding[t] = false
	}
	return holding[t]
}

func isDecoded(f reflect.StructField) bool {
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-"
}

// visit replaces the numbers in values of type any.
func visit(v reflect.Value) {
	if !holdsAny(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		if e := v.Elem(); e.Kind() == reflect.Pointer { // it was there before
			visit(e)
		} else if v.CanSet() {
			v.Set(reflect.ValueOf(exact(v.Interface())))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			visit(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			visit(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if isDecoded(v.Type().Field(i)) {
				visit(v.Field(i))
			}
		}
	}
}

// exact replaces numbers in a value that encoding/json has made for an any.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case map[string]any:
		for name, member := range v {
			v[name] = exact(member)
		}
	case []any:
		for i, element := range v {
			v[i] = exact(element)
		}
	}
	return v
}

func number(n json.Number) any {
	if !strings.ContainsAny(string(n), ".eE") {
		if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
			return i
		}
		return n
	}
	if f, err := strconv.ParseFloat(string(n), 64); err == nil {
		return f
	}
	return n
}
