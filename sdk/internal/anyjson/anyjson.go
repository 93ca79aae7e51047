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
	holding[t] = false // for a recursive type
	switch {
	case t.Kind() == reflect.Interface:
		holding[t] = true
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(unmarshaler):
		// It decodes itself.
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice, t.Kind() == reflect.Array, t.Kind() == reflect.Map:
		holding[t] = holdsAny(t.Elem())
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && holdsAny(f.Type) {
				holding[t] = true
			}
		}
	}
	return holding[t]
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
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
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
