package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi/rawjson"
)

// This file checks how entries are written, which the decoder would report
// without saying where.

// misshapenEntries returns an error for everything in the entries of a file
// that is not written as they are. Those it removes.
func misshapenEntries(known fields, written map[string]any) (problems []error) {
	for _, path := range known.paths() {
		var found []error
		value, t := valueAt(written, path), known[path]
		switch {
		case entryExample(t) != "":
			found = entriesShape(field.NewPath(path), t, value)
		case t.Kind() == reflect.Map && entryExample(t.Elem()) != "":
			byPlugin, _ := value.(map[string]any) // else the decoder reports it
			for _, plugin := range slices.Sorted(maps.Keys(byPlugin)) {
				found = append(found, entriesShape(field.NewPath(path).Key(plugin), t.Elem(), byPlugin[plugin])...)
			}
		}
		if found != nil {
			unstructured.RemoveNestedField(written, split(path)...)
			problems = append(problems, found...)
		}
	}
	return problems
}

// entriesShape checks a list of entries, nil for none.
func entriesShape(at *field.Path, t reflect.Type, value any) (problems []error) {
	list, ok := value.([]any)
	if value != nil && !ok {
		return []error{field.TypeInvalid(at, shown(value), "must be a list of entries, "+entryExample(t))}
	}
	for i, entry := range list {
		problems = append(problems, mappingShape(at.Index(i), t.Elem(), entry, "must be an entry, "+entryExample(t))...)
	}
	return problems
}

// mappingShape checks a mapping with the fields of a struct.
func mappingShape(at *field.Path, t reflect.Type, value any, expected string) (problems []error) {
	values, ok := value.(map[string]any)
	if !ok {
		return []error{field.TypeInvalid(at, shown(value), expected)}
	}
	known := fieldsOf(t, "")
	for _, name := range sortedNames(values) {
		if known[name] == nil {
			problems = append(problems, unknownIn(at, name, known.paths()))
			continue
		}
		problems = append(problems, memberShape(at.Child(name), known[name], values[name])...)
	}
	return problems
}

// memberShape checks a field of an entry: a text, a list of texts, or a mapping of texts.
func memberShape(at *field.Path, t reflect.Type, value any) []error {
	_, isText := value.(string)
	switch {
	case value == nil:
		return []error{field.Required(at, "write "+written(t)+", or remove the line")}
	case t.Kind() == reflect.Slice:
		return listShape(at, value)
	case t.Kind() == reflect.Pointer:
		return mappingShape(at, t.Elem(), value, expected(t.Elem()))
	case !isText:
		return []error{field.TypeInvalid(at, shown(value), "must be text: write it in quotes")}
	}
	return nil
}

// written names a value of a type in a file.
func written(t reflect.Type) string {
	if t.Kind() == reflect.Slice {
		return "a list"
	}
	return "a value"
}

// listShape checks a list of an entry.
func listShape(at *field.Path, value any) (problems []error) {
	list, ok := value.([]any)
	if !ok {
		return []error{field.TypeInvalid(at, shown(value), "must be a list of names, such as [name]")}
	}
	for i, element := range list {
		if _, ok := element.(string); !ok {
			problems = append(problems, field.TypeInvalid(at.Index(i), shown(element), "must be text: write it in quotes"))
		}
	}
	return problems
}

// unknownIn returns the error of a field that an element of a list does not have.
func unknownIn(at *field.Path, name string, known []string) error {
	return fmt.Errorf("unknown field %s%s", rawjson.Quote(at.String()+"."+name), rawjson.DidYouMean(name, known))
}

func sortedNames(fields map[string]any) []string { return slices.Sorted(maps.Keys(fields)) }
