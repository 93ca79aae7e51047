package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/sanitize"
)

// maxBytes is the size of the largest file that is decoded, for which up to 300 times as
// much memory is needed for a moment.
const maxBytes = 128 << 10

// Duration is a time.Duration that is written with its unit, such as "10s".
type Duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler. The error is of the type
// that the JSON decoder completes with the path of the field.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	if d.Duration, err = time.ParseDuration(string(text)); err != nil {
		return &json.UnmarshalTypeError{Value: "string", Type: reflect.TypeFor[Duration]()}
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// document is a *Config or a [policyFile].
type document interface {
	schema() schema
	// unmarshal stores JSON in the document, as the function of that name does.
	unmarshal(asJSON []byte, known schema, written map[string]any) []error
	numbers() []number
	// checkVersion returns an error if what is written has a version of another schema.
	checkVersion(written map[string]any) error
}

// decode decodes one document of YAML or JSON. Fields that the document does not
// mention keep their values. The error lists everything that is wrong, one problem a
// line.
func decode(text []byte, into document) error {
	asJSON, err := toJSON(text)
	if err != nil {
		return err
	}
	var written map[string]any
	if json.Unmarshal(asJSON, &written) != nil {
		return errors.New(mappingOf(into.schema().fields))
	}
	if err := into.checkVersion(written); err != nil {
		return err
	}
	known := into.schema()
	problems := slices.Concat(emptyValues(known.fields, written), misshapenEntries(known.fields, written))
	if asJSON, err = withoutRemoved(asJSON, written, problems); err != nil {
		return err
	}
	problems = append(problems, into.unmarshal(asJSON, known, written)...)
	for _, n := range into.numbers() {
		if value := valueAt(written, n.path); value != nil && n.value == 0 {
			problems = append(problems, fmt.Errorf("%w; remove it for the default", n.Validate()))
		}
	}
	return joined(problems)
}

// withoutRemoved returns the JSON of what is written, if there are problems for which
// something may have been removed.
func withoutRemoved(asJSON []byte, written map[string]any, problems []error) ([]byte, error) {
	if problems == nil {
		return asJSON, nil // as it was, since written has lost the digits of large numbers
	}
	return json.Marshal(written)
}

// unmarshal stores JSON in a struct and returns an error for every unknown
// field and every value of a wrong type; these it removes from written.
func unmarshal(asJSON []byte, into any, known schema, written map[string]any) (problems []error) {
	for {
		unknown, err := strictjson.UnmarshalStrict(asJSON, into)
		for _, e := range unknown {
			if e, ok := errors.AsType[strictjson.FieldError](e); ok {
				problems = append(problems, unknownField(e.FieldPath(), known, written))
			}
		}
		if err == nil {
			return problems
		}
		wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
		if !ok || known.fields[wrong.Field] == nil {
			return append(problems, err)
		}
		// The decoder reports one wrong type at a time: without this value it
		// reports the next one.
		problems = append(problems, wrongType(wrong.Field, known.fields, written))
		unstructured.RemoveNestedField(written, split(wrong.Field)...)
		if asJSON, err = json.Marshal(written); err != nil {
			return append(problems, err)
		}
	}
}

// toJSON converts the one document of YAML or JSON in text. It refuses what
// would be ignored, a duplicate key or a second document, and aliases, by which
// a few hundred bytes of YAML can stand for gigabytes.
func toJSON(text []byte) ([]byte, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("is larger than %d KiB", maxBytes>>10)
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for first := true; ; first = false {
		var document yaml.Node // not expanded: an alias is a node of its own
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = refuseAliases(&document)
		}
		if err != nil {
			return nil, yamlError(err)
		}
		if !first && document.Content[0].ShortTag() != "!!null" { // more than comments
			return nil, errors.New(`has several documents, but only one is read: remove the line "---" and merge their fields`)
		}
	}
	asJSON, err := kyaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, yamlError(err)
	}
	return asJSON, nil
}

func refuseAliases(node *yaml.Node) error {
	if node.Kind == yaml.AliasNode {
		return fmt.Errorf("line %d: aliases such as *%s are not supported: write the value again", node.Line, node.Value)
	}
	for _, child := range node.Content {
		if err := refuseAliases(child); err != nil {
			return err
		}
	}
	return nil
}

// yamlError returns an error of a YAML parser without the names of its parts.
func yamlError(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
	if strings.HasSuffix(text, "cannot start any token") {
		text += " (a tab? YAML is indented with spaces)"
	}
	return fmt.Errorf("not valid YAML: %s", sanitize.Line(sanitize.Truncate(text, maxProblem)))
}

// fields are the fields that a file may have and their types, by their paths,
// such as "limits" and "limits.fuel".
type fields map[string]reflect.Type

func fieldsOf(t reflect.Type, prefix string) fields {
	all := fields{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		all[prefix+name] = f.Type
		if isMapping(f.Type) {
			maps.Copy(all, fieldsOf(valueType(f.Type), prefix+name+"."))
		}
	}
	return all
}

// schema is what a document may have.
type schema struct {
	fields
	other     fields // of the other document of this package
	otherName string // of that document, for people
}

func (f fields) paths() []string { return slices.Sorted(maps.Keys(f)) }

func split(path string) []string { return strings.Split(path, ".") }

// isMapping reports whether a field of this type has fields below it.
func isMapping(t reflect.Type) bool {
	t = valueType(t)
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[Duration]()
}

// valueType returns the type of what a field has, which may be written or not.
func valueType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// mappingOf describes how a value with these fields is written.
func mappingOf(known fields) string {
	return fmt.Sprintf("must be a mapping of fields, such as {%s: ...}", known.paths()[0])
}

// expected describes how a value of a type is written in a file.
func expected(t reflect.Type) string {
	switch kind := t.Kind(); {
	case isMapping(t):
		return mappingOf(fieldsOf(valueType(t), ""))
	case kind == reflect.Map && entryExample(t.Elem()) != "":
		return "must be a mapping from plugins to lists of entries, " + entryExample(t.Elem())
	case t == reflect.TypeFor[map[string][]string]():
		return "must be a mapping from plugins to lists of service accounts, such as {name: [NAMESPACE/NAME]}"
	case t == reflect.TypeFor[map[string]json.RawMessage]():
		return "must be a mapping from plugins to policies, such as {name: {apiVersion: ...}}"
	case kind == reflect.Map:
		return "must be a mapping from plugins to lists of namespaces, such as {name: [name]}"
	case kind == reflect.Slice:
		return "must be a list of names, such as [name]"
	case kind == reflect.String:
		return "must be text: write it in quotes"
	case kind == reflect.Bool:
		return "must be true or false, without quotes"
	case kind == reflect.Float32:
		return "must be a number below 1e38, without quotes"
	case kind == reflect.Int || kind == reflect.Int64:
		return "must be a whole number below 2^63, without quotes"
	}
	return `must be a duration with its unit (ms, s, m or h), such as "10s"`
}

// valueAt returns the value that is written at a path; nil if there is none.
func valueAt(written map[string]any, path string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(written, split(path)...)
	return value
}

// wrongType returns the error of a field whose value has the wrong type. It
// shows the value unless that is long.
func wrongType(path string, known fields, written map[string]any) error {
	value := valueAt(written, path)
	if list, ok := value.([]any); ok && known[path].Kind() == reflect.Slice {
		for i, element := range list {
			if _, ok := element.(string); !ok {
				return field.TypeInvalid(field.NewPath(path).Index(i), shown(element), expected(known[path].Elem()))
			}
		}
	}
	return field.TypeInvalid(field.NewPath(path), shown(value), expected(known[path]))
}

// shown returns a value as an error shows it: not at all if it is long.
func shown(value any) any {
	if text, err := json.Marshal(value); err != nil || len(text) > 60 {
		return field.OmitValueType{}
	}
	return value
}

const (
	// maxProblems and maxProblem bound what is shown of a file, which may be any file.
	maxProblems = 20
	maxProblem  = 600 // bytes
)

// joined returns one error of all problems, one a line.
func joined(problems []error) error {
	var lines []error
	for _, err := range problems {
		if err == nil {
			continue
		}
		if len(lines) == maxProblems {
			lines = append(lines, errors.New("and more"))
			break
		}
		if text := err.Error(); len(text) > maxProblem {
			err = errors.New(sanitize.Truncate(text, maxProblem))
		}
		lines = append(lines, err)
	}
	return errors.Join(lines...)
}

// emptyValues returns an error for every field, other than a mapping or a list that
// allows nothing when it is empty, and every entry of a list that is written without a
// value: the decoder would leave the default, but whoever began to write a limit or a
// namespace wanted another, and a template may have found no value.
func emptyValues(known fields, written map[string]any) (problems []error) {
	for _, path := range known.paths() {
		value, ok, _ := unstructured.NestedFieldNoCopy(written, split(path)...)
		const advice = "write a value, or remove the line for the default"
		if t := known[path]; ok && value == nil && isMapping(t) && t.Kind() == reflect.Pointer {
			problems = append(problems, field.Required(field.NewPath(path), "write {} for the defaults, or remove the line to allow none"))
		}
		t := known[path]
		mayBeEmpty := isMapping(t) || t.Kind() == reflect.Slice && t != reflect.TypeFor[Namespaces]()
		if empty := value == nil || value == "" && t.Kind() == reflect.String; ok && empty && !mayBeEmpty {
			problems = append(problems, field.Required(field.NewPath(path), advice))
		}
		if list, _ := value.([]any); t.Kind() == reflect.Slice {
			for i, element := range list {
				if element == nil {
					problems = append(problems, field.Required(field.NewPath(path).Index(i), advice))
				}
			}
		}
	}
	return problems
}

// unknownField returns the error of a field that does not exist, with the one
// that was probably meant.
func unknownField(path string, known schema, written map[string]any) error {
	text := "unknown field " + rawjson.Quote(path)
	if end := strings.LastIndex(path, "."); end > 0 && known.fields[path] != nil { // written as one key
		return fmt.Errorf("%s: %s belongs below %s", text, path[end+1:], path[:end])
	}
	parent, name := "", path // the name may have dots
	for _, p := range known.paths() {
		if _, ok := valueAt(written, p).(map[string]any); ok && isMapping(known.fields[p]) && strings.HasPrefix(path, p+".") {
			parent, name = p+".", path[len(p)+1:]
		}
	}
	var siblings []string
	for _, p := range known.paths() {
		if sibling, ok := strings.CutPrefix(p, parent); ok && !strings.Contains(sibling, ".") {
			siblings = append(siblings, sibling)
		}
	}
	near, ok := rawjson.Nearest(name, siblings)
	file := known.otherFile(path)
	switch sameWord := ok && (strings.HasPrefix(near, name) || strings.HasPrefix(name, near)); {
	case sameWord && file != "":
		return fmt.Errorf("%s, did you mean %q? %s belongs in %s", text, parent+near, path, file)
	case file != "":
		return fmt.Errorf("%s: it belongs in %s", text, file)
	case ok && strings.HasPrefix(near, name): // its end is missing
		return fmt.Errorf("%s, did you mean %q?", text, parent+near)
	}
	for _, p := range known.paths() {
		if above, ok := strings.CutSuffix(p, "."+name); ok {
			return fmt.Errorf("%s: %s belongs below %s", text, name, above)
		}
	}
	if ok {
		return fmt.Errorf("%s, did you mean %q?", text, parent+near)
	}
	return fmt.Errorf("%s; known there are %s", text, strings.Join(siblings, ", "))
}

// otherFile returns the document that a field belongs in which this one does not have; "" for any other
// field, and for one that belongs elsewhere in this document.
func (s schema) otherFile(path string) string {
	if s.other[path] == nil || s.fields[path] != nil || slices.ContainsFunc(s.paths(), func(p string) bool { return strings.HasSuffix(p, "."+path) }) {
		return ""
	}
	return s.otherName
}
