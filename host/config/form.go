package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi/rawjson"
)

// form holds what a file says against the struct that it is decoded into:
// encoding/json would tell its own types of the first thing that is wrong.
type form struct {
	misfits []error
	zeros   []string // paths of numbers and durations that are 0
}

var (
	durationType = reflect.TypeFor[metav1.Duration]()
	anyType      = reflect.TypeFor[json.RawMessage]()
)

// value checks a value, decoded with [json.Number], against its type.
func (f *form) value(path string, t reflect.Type, v any) {
	if t.Kind() == reflect.Pointer {
		before := len(f.zeros)
		f.value(path, t.Elem(), v)
		f.zeros = f.zeros[:before] // nil is what is not there
		return
	}
	switch {
	case t == anyType:
	case t == durationType:
		f.duration(path, v)
	case t.Kind() == reflect.Struct:
		f.fields(path, t, v)
	case t.Kind() == reflect.Slice:
		f.list(path, t, v)
	case t.Kind() == reflect.Bool:
		if _, ok := v.(bool); !ok {
			f.wrong(path, v, "neither true nor false: write one of them, without quotes")
		}
	case t.Kind() == reflect.String:
		if _, ok := v.(string); !ok {
			f.wrong(path, v, "no text: write it in quotes, such as "+example(t))
		}
	default:
		f.number(path, t, v)
	}
}

func (f *form) wrong(path string, given any, what string) {
	where := path + ": "
	if path == "" {
		where = "the file holds "
	}
	f.misfits = append(f.misfits, fmt.Errorf("%s%s, which is %s", where, show(given), what))
}

func (f *form) duration(path string, v any) {
	const units = "no duration: write a number with its unit (ms, s, m or h), such as "
	switch v := v.(type) {
	case json.Number:
		f.wrong(path, v, units+v.String()+"s")
	case string:
		d, err := time.ParseDuration(v)
		if err != nil {
			f.wrong(path, v, units+example(durationType))
		}
		f.zero(path, err == nil && d == 0)
	default:
		f.wrong(path, v, units+example(durationType))
	}
}

// number checks a whole number, or one with a fraction.
func (f *form) number(path string, t reflect.Type, v any) {
	given, isNumber := v.(json.Number)
	what, text := "no number", given.String()
	if !isNumber {
		text, _ = v.(string)
	}
	n, err := strconv.ParseFloat(text, t.Bits())
	if t.Kind() != reflect.Float32 {
		what = "no whole number"
		_, err = strconv.ParseInt(text, 10, t.Bits())
	}
	switch fits := err == nil; {
	case isNumber && fits:
		f.zero(path, n == 0)
	case fits:
		f.wrong(path, v, "text: write "+text+", without quotes")
	default:
		f.wrong(path, v, what+": write one, such as "+example(t))
	}
}

func (f *form) zero(path string, is bool) {
	if is {
		f.zeros = append(f.zeros, path)
	}
}

func (f *form) list(path string, t reflect.Type, v any) {
	entries, ok := v.([]any)
	if !ok && v != nil {
		shown := example(t)
		if text, isText := v.(string); isText {
			shown = "[" + text + "]"
		}
		f.wrong(path, v, "no list: write "+shown)
	}
	for i, entry := range entries {
		f.value(fmt.Sprintf("%s[%d]", path, i), t.Elem(), entry)
	}
}

// fields checks a mapping. An empty one may be left unwritten.
func (f *form) fields(path string, t reflect.Type, v any) {
	given, ok := v.(map[string]any)
	if !ok && v != nil {
		f.wrong(path, v, "no mapping of fields: write them as "+example(t))
	}
	known := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		if field, ok := known.of[name]; ok {
			f.value(at, field, given[name])
		} else {
			f.misfits = append(f.misfits, unknown(name, path, known))
		}
	}
}

// unknown tells of a field that is not known what may have been meant: one of
// the same mapping, one below it, or one of another file.
func unknown(name, path string, known fields) error {
	text, there := fmt.Sprintf("unknown field %q", name), ""
	if path != "" {
		text, there = text+" in "+path, " there"
	}
	for _, below := range known.names {
		if t := known.of[below]; t.Kind() == reflect.Struct && fieldsOf(t).of[name] != nil {
			return fmt.Errorf("%s: it belongs below %s", text, below)
		}
	}
	if near, ok := rawjson.Nearest(name, known.names); ok {
		return fmt.Errorf("%s, did you mean %q?", text, near)
	}
	if path == "" && fieldsOf(reflect.TypeFor[Config]()).of[name] != nil {
		return fmt.Errorf("%s: it belongs into the file of --config", text)
	}
	return fmt.Errorf("%s; known%s are %s", text, there, strings.Join(known.names, ", "))
}

// fields are those of a struct by their names in a file.
type fields struct {
	names []string // in the struct's order
	of    map[string]reflect.Type
}

func fieldsOf(t reflect.Type) fields {
	known := fields{of: map[string]reflect.Type{}}
	if t == durationType {
		return known
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known.names = append(known.names, name)
		known.of[name] = field.Type
	}
	return known
}

// example is a value of a type as people write it.
func example(t reflect.Type) string {
	switch {
	case t == durationType:
		return "10s"
	case t.Kind() == reflect.Slice:
		return "[name]"
	case t.Kind() == reflect.Struct:
		known := fieldsOf(t)
		return "{" + known.names[0] + ": " + example(known.of[known.names[0]]) + "}"
	case t.Kind() == reflect.String:
		return `"text"`
	case t.Kind() == reflect.Bool:
		return "true"
	case t.Kind() == reflect.Int64: // of which there may be many
		return "1000000000"
	}
	return "8"
}

const mostShown = 40 // characters of a value

// show is a value as an error tells it.
func show(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	if runes := []rune(string(text)); len(runes) > mostShown {
		return string(runes[:mostShown]) + "..."
	}
	return string(text)
}
