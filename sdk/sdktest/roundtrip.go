package sdktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/thole-dev/thole/sdk"
)

// This file finds out what a conversion loses.

// RoundTrip expects that an object of a version with every field set is the same after it was
// converted to another version and back. A test fails with the paths of what was lost or has changed:
//
//	func TestConversionLosesNothing(t *testing.T) {
//		w := sdktest.New(t)
//		sdktest.RoundTrip[v1beta1.Spec, v1beta1.Status](w, "v1beta1", "v1")
//		sdktest.RoundTrip[v1.Spec, v1.Status](w, "v1", "v1beta1")
//	}
//
// It sets fields by reflection, each to another value: a string to a text with the name of the field,
// slices and maps to two entries. What cannot have such a value, such as a string of which only some
// are allowed, the functions set. They are called with the object before it is converted.
// [World.RoundTrip] does the same for an object that is given.
func RoundTrip[Spec, Status any](w *World, version, by string, set ...func(*sdk.Object[Spec, Status])) {
	w.tb.Helper()
	var o sdk.Object[Spec, Status]
	f := filler{}
	f.fill("spec", reflect.ValueOf(&o.Spec).Elem(), 0)
	f.fill("status", reflect.ValueOf(&o.Status).Elem(), 0)
	o.Name, o.Namespace, o.UID = "round-trip", "default", "uid-round-trip"
	o.Labels, o.Annotations = map[string]string{"label": "a"}, map[string]string{"annotation": "b"}
	for _, set := range set {
		set(&o)
	}
	w.RoundTrip(map[string]any{
		"apiVersion": w.controller.For.Group() + "/" + version, "kind": w.controller.For.Kind.Kind,
		"metadata": o.ObjectMeta, "spec": w.encodeTyped(&o.Spec), "status": w.encodeTyped(&o.Status),
	}, by)
}

// encodeTyped returns a value as the SDK writes it, or as encoding/json does if the plugin does not
// contain that.
func (w *World) encodeTyped(value any) json.RawMessage {
	w.tb.Helper()
	if text, err := sdk.Encode(value); err == nil {
		return text
	}
	return w.encode(value)
}

// RoundTrip expects that an object is the same after it was converted to another version and back. The
// value is as for [World.Create]. Fields that were absent may be there afterwards, if they are empty.
func (w *World) RoundTrip(value any, by string) {
	w.tb.Helper()
	before := w.encode(value)
	version := w.versionOf(before)
	there := w.Convert(before, by)
	if there.Object == nil {
		w.tb.Errorf("convert from %s to %s: %s %s: %s", version, by, there.Class, there.Reason, there.Message)
		return
	}
	back := w.Convert([]byte(there.Object), version)
	if back.Object == nil {
		w.tb.Errorf("convert back from %s to %s: %s %s: %s", by, version, back.Class, back.Reason, back.Message)
		return
	}
	var lost differences
	lost.compare("", w.decoded(before), w.decoded(back.Object))
	if len(lost) > 0 {
		w.tb.Errorf("the conversion from %s to %s and back loses something:\n  %s", version, by, strings.Join(lost, "\n  "))
	}
}

func (w *World) versionOf(object []byte) string {
	w.tb.Helper()
	var meta sdk.TypeMeta
	if err := json.Unmarshal(object, &meta); err != nil {
		w.tb.Fatalf("convert: %v", err)
	}
	_, version, _ := strings.Cut(meta.APIVersion, "/")
	return version
}

// decoded returns a JSON value, with numbers as they are written.
func (w *World) decoded(text []byte) (value any) {
	w.tb.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		w.tb.Fatalf("read %s: %v", text, err)
	}
	return value
}

// differences has what differs between two JSON values, with the paths.
type differences []string

func (d *differences) add(path, format string, args ...any) {
	*d = append(*d, strings.TrimPrefix(path, ".")+" "+fmt.Sprintf(format, args...))
}

func (d *differences) compare(path string, before, after any) {
	was, wasObject := before.(map[string]any)
	is, isObject := after.(map[string]any)
	if wasObject && isObject {
		d.compareMembers(path, was, is)
		return
	}
	wasList, wasArray := before.([]any)
	isList, isArray := after.([]any)
	switch {
	case wasArray && isArray && len(wasList) == len(isList):
		for i := range wasList {
			d.compare(fmt.Sprintf("%s[%d]", path, i), wasList[i], isList[i])
		}
	case wasArray && isArray:
		d.add(path, "has %d entries, had %d", len(isList), len(wasList))
	case !reflect.DeepEqual(before, after):
		d.add(path, "has become %s, was %s", text(after), text(before))
	}
}

func (d *differences) compareMembers(path string, was, is map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		at := memberPath(path, name)
		after, ok := is[name]
		switch {
		case ok:
			d.compare(at, was[name], after)
		case !empty(was[name]):
			d.add(at, "is lost, was %s", text(was[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[name]; !ok && !empty(is[name]) {
			d.add(memberPath(path, name), "is new: %s", text(is[name]))
		}
	}
}

// memberPath returns the path of a member, in brackets if its name has a dot or a slash.
func memberPath(path, name string) string {
	if strings.ContainsAny(name, "./[]\" ") {
		return fmt.Sprintf("%s[%q]", path, name)
	}
	return path + "." + name
}

// empty reports whether a value equals an absent one.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, member := range v {
			if !empty(member) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case json.Number:
		return v == "0"
	}
	return reflect.ValueOf(value).IsZero()
}

func text(value any) string {
	out, _ := json.Marshal(value) // it was decoded
	return string(out)
}

// filler sets values to something, each to another one.
type filler struct{ n int }

// deepest is how deep values are filled: a type may contain itself.
const deepest = 8

// valuesOf are those of types that do not take any text or number.
var valuesOf = map[reflect.Type]func(n int) any{
	reflect.TypeFor[sdk.Time]():        func(n int) any { return sdk.Time(fmt.Sprintf("2026-01-02T03:04:%02dZ", n%60)) },
	reflect.TypeFor[sdk.MicroTime]():   func(n int) any { return sdk.MicroTime(fmt.Sprintf("2026-01-02T03:04:05.%06dZ", n)) },
	reflect.TypeFor[sdk.Quantity]():    func(n int) any { return sdk.Quantity(fmt.Sprintf("%dm", n)) },
	reflect.TypeFor[sdk.IntOrString](): func(n int) any { return sdk.FromString(fmt.Sprintf("%d%%", n)) },
	reflect.TypeFor[sdk.Raw]():         func(n int) any { return sdk.Raw(fmt.Sprintf(`{"raw":%d}`, n)) },
}

func (f *filler) fill(name string, v reflect.Value, depth int) {
	f.n++
	if value, ok := valuesOf[v.Type()]; ok {
		v.Set(reflect.ValueOf(value(f.n)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprintf("%s-%d", name, f.n))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.n % 127))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(uint64(f.n % 127))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(fmt.Sprintf("%s-%d", name, f.n)))
		}
	default:
		if depth < deepest {
			f.fillParts(name, v, depth+1)
		}
	}
}

// fillParts fills what consists of other values.
func (f *filler) fillParts(name string, v reflect.Value, depth int) {
	const entries = 2
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(name, v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			embedded := field.Anonymous && field.Type.Kind() == reflect.Struct // its fields can be set, whatever its name
			if (v.Field(i).CanSet() || embedded) && field.Tag.Get("json") != "-" {
				f.fill(strings.ToLower(field.Name), v.Field(i), depth)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(name, v.Index(i), depth)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), entries, entries))
		for i := range entries {
			f.fill(name, v.Index(i), depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range entries {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(name, key, depth)
			f.fill(name, value, depth)
			v.SetMapIndex(key, value)
		}
	}
}
