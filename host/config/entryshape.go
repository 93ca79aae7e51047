package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/rights"
)

// This file checks how entries are written, which the decoder would report without saying
// where.

const anEntry = "such as {groups: [''], kinds: [ConfigMap], verbs: [get, list, watch], namespaces: [a]}"

// misshapenEntries returns an error for everything in the entries of a file that is not as
// an entry is written. These entries it removes.
func misshapenEntries(known fields, written map[string]any) (problems []error) {
	for _, path := range known.paths() {
		var found []error
		switch value := valueAt(written, path); known[path] {
		case reflect.TypeFor[rights.Entries]():
			found = entriesShape(field.NewPath(path), value)
		case reflect.TypeFor[map[string]rights.Entries]():
			byPlugin, _ := value.(map[string]any) // else the decoder reports it
			for _, plugin := range slices.Sorted(maps.Keys(byPlugin)) {
				found = append(found, entriesShape(field.NewPath(path).Key(plugin), byPlugin[plugin])...)
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
func entriesShape(at *field.Path, value any) (problems []error) {
	list, ok := value.([]any)
	if value != nil && !ok {
		return []error{field.TypeInvalid(at, shown(value), "must be a list of entries, "+anEntry)}
	}
	for i, entry := range list {
		lists, ok := entry.(map[string]any)
		if !ok {
			problems = append(problems, field.TypeInvalid(at.Index(i), shown(entry), "must be an entry, "+anEntry))
		}
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			problems = append(problems, listShape(at.Index(i), name, lists[name])...)
		}
	}
	return problems
}

// listShape checks a list of an entry.
func listShape(at *field.Path, name string, value any) (problems []error) {
	known := fieldsOf(reflect.TypeFor[rights.Entry](), "").paths()
	if !slices.Contains(known, name) {
		return []error{fmt.Errorf("unknown field %s%s", rawjson.Quote(at.String()+"."+name), rawjson.DidYouMean(name, known))}
	}
	list, ok := value.([]any)
	switch {
	case value == nil:
		return []error{field.Required(at.Child(name), "write a list, or remove the line")}
	case !ok:
		return []error{field.TypeInvalid(at.Child(name), shown(value), "must be a list of names, such as [name]")}
	}
	for i, element := range list {
		if _, ok := element.(string); !ok {
			problems = append(problems, field.TypeInvalid(at.Child(name).Index(i), shown(element), "must be text: write it in quotes"))
		}
	}
	return problems
}
