package webhooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
)

// This file makes the JSON patch of a mutation, RFC 6902.

// fixedMetadata are the fields of metadata that the API server sets. Beside them are those that
// [contract.ReviewRequest.CheckResult] compares.
var fixedMetadata = []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName", "selfLink"}

// patchOf returns the patch that makes the object of a request what the guest has returned, nil if
// that is the same. given is the object as the guest was given it: what it does not have stays as
// it is in the request.
func patchOf(requested, given, returned []byte) ([]byte, error) {
	before, err := decodeMap(requested)
	if err != nil {
		return nil, err
	}
	seen, err := decodeMap(given)
	if err != nil {
		return nil, err
	}
	after, err := decodeMap(returned)
	if err != nil {
		return nil, err
	}
	if err := keepMetadata(before, seen, after); err != nil {
		return nil, err
	}
	return diff(before, after)
}

// decodeMap decodes an object. Numbers keep their digits.
func decodeMap(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	err := decoder.Decode(&object)
	return object, err
}

// keepMetadata gives after what the guest may not change, and what it was not given.
func keepMetadata(before, seen, after map[string]any) error {
	was, _ := before["metadata"].(map[string]any)
	is, ok := after["metadata"].(map[string]any)
	if !ok {
		return errors.New("object.metadata is missing")
	}
	given, _ := seen["metadata"].(map[string]any)
	for _, name := range fixedMetadata {
		value, there := is[name]
		if there && value != nil && !reflect.DeepEqual(value, given[name]) {
			return fmt.Errorf("object.metadata.%s cannot be changed", name)
		}
		delete(is, name)
		if old, had := was[name]; had {
			is[name] = old
		}
	}
	keepAnnotations(was, given, is)
	return nil
}

// keepAnnotations adds the annotations that the guest was not given.
func keepAnnotations(was, given, is map[string]any) {
	all, _ := was["annotations"].(map[string]any)
	shown, _ := given["annotations"].(map[string]any)
	kept, _ := is["annotations"].(map[string]any)
	for name, value := range all {
		if _, known := shown[name]; known {
			continue
		}
		if kept == nil {
			kept = map[string]any{}
			is["annotations"] = kept
		}
		kept[name] = value
	}
}

// diff returns the patch between two objects, nil if they are the same.
func diff(before, after map[string]any) ([]byte, error) {
	if reflect.DeepEqual(before, after) {
		return nil, nil
	}
	if isCostly(before) || isCostly(after) {
		return encode(replacements(before, after))
	}
	from, err := encode(before)
	if err != nil {
		return nil, err
	}
	to, err := encode(after)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.CreatePatch(from, to)
	if err != nil || len(operations) == 0 {
		return nil, err
	}
	return encode(operations)
}

// maxPaths bounds the paths of a patch together, in bytes.
const maxPaths = 16 << 20

// isCostly reports whether the paths of a patch of an object could take more than [maxPaths]: each
// operation has the names of all that is around a value, so that a long name around many values is
// repeated for each of them. Operations are about values of either object.
func isCostly(object map[string]any) bool {
	left := maxPaths
	var walk func(value any, path int) bool
	walk = func(value any, path int) bool {
		if left -= path; left < 0 {
			return true
		}
		switch value := value.(type) {
		case map[string]any:
			for name, member := range value {
				if walk(member, path+2*len(name)+1) {
					return true
				}
			}
		case []any:
			for _, element := range value {
				if walk(element, path+8) {
					return true
				}
			}
		}
		return false
	}
	return walk(object, 0)
}

// replacements returns a patch that replaces whole members of an object.
func replacements(before, after map[string]any) (all []jsonpatch.Operation) {
	for name := range before {
		if _, left := after[name]; !left {
			all = append(all, jsonpatch.NewOperation("remove", "/"+escape(name), nil))
		}
	}
	for name, value := range after {
		if !reflect.DeepEqual(before[name], value) {
			all = append(all, jsonpatch.NewOperation("add", "/"+escape(name), value))
		}
	}
	return all
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1") // RFC 6901

func escape(name string) string { return escaper.Replace(name) }
