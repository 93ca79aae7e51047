package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
)

var widget = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}

// documentOf is a document in which a Widget is {root}, beside other schemas.
func documentOf(root, others string) []byte {
	if others != "" {
		others = "," + others
	}
	return fmt.Appendf(nil, `{"openapi":"3.0.0","paths":{},"components":{"schemas":{
		"dev.example.v1.WidgetList":{"x-kubernetes-group-version-kind":[{"group":"example.dev","version":"v1","kind":"WidgetList"}]},
		"dev.example.v1.Widget":{%s,"x-kubernetes-group-version-kind":[{"group":"other.dev","version":"v1","kind":"Widget"},{"group":"example.dev","version":"v1","kind":"Widget"}]}%s}}}`, root, others)
}

func pathOf(t rapid.TB, text string) fieldpath.Path {
	t.Helper()
	path, err := fieldpath.ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A schema with all that Kubernetes publishes.
const widgetSchema = `"type":"object","properties":{
	"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"default":{},"allOf":[{"$ref":"#/components/schemas/meta"}]},
	"spec":{"type":"object","oneOf":[{"required":["size"]},{"required":["node"]}],"properties":{
		"nodeName":{"type":"string"},"size":{"type":"integer","format":"int64"},"on":{"type":"boolean"},
		"port":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
		"limits":{"type":"object","additionalProperties":{"oneOf":[{"type":"string"},{"type":"number"}]}},
		"volumes":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"secret":{"$ref":"#/components/schemas/secret"}}}},
		"matrix":{"type":"array","items":{"type":"array","items":{"type":"string"}}},
		"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"object","properties":{"a":{"type":"string"}}}}},
		"template":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object","properties":{"x":{"type":"string"}}}}},
		"raw":{"type":"object"},"any":{},"map":{"type":"object","additionalProperties":true},
		"tree":{"$ref":"#/components/schemas/tree"},"lost":{"$ref":"#/components/schemas/none"},"half":{"type":"object","properties":{"a":{}},"allOf":[{"$ref":"#/components/schemas/none"}]},"far":{"$ref":"https://example.dev/x"}}}}`

const otherSchemas = `"meta":{"type":"object","properties":{"name":{"type":"string"},"labels":{"type":"object","additionalProperties":{"type":"string"}},"creationTimestamp":{"$ref":"#/components/schemas/time"}}},
	"time":{"type":"string","format":"date-time"},"secret":{"type":"object","properties":{"secretName":{"type":"string"}}},
	"tree":{"type":"object","properties":{"value":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/components/schemas/tree"}}}}`

func TestPathsThatTheSchemaHasAreAccepted(t *testing.T) {
	for _, text := range []string{
		"kind", "apiVersion", "metadata.name", "metadata.creationTimestamp", "metadata.labels.app", "metadata.labels.x-y_z",
		"spec.nodeName", "spec.size", "spec.on", "spec.port", "spec.limits.cpu", "spec.volumes[*].name", "spec.volumes[*].secret.secretName",
		"spec.matrix[*][*]", "spec.free.whatever[*].x", "spec.free.known.a", "spec.template.kind", "spec.template.metadata.name", "spec.template.spec.x",
		"spec.raw.x.y", "spec.raw.x[*]", "spec.any", "spec.any.x", "spec.any[*].x", "spec.map.x[*].y",
		"spec.tree.value", "spec.tree.children[*].children[*].children[*].value", "spec.lost.x[*]", "spec.half.x", "spec.far.x",
	} {
		if err := check(documentOf(widgetSchema, otherSchemas), widget, []fieldpath.Path{pathOf(t, text)}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPathsThatTheSchemaDoesNotHaveAreRefused(t *testing.T) {
	for text, problem := range map[string]string{
		"spek.nodeName":                        `the object has no field "spek", did you mean "spec"?`,
		"status.phase":                         `the object has no field "status"`,
		"metadata.nam":                         `"metadata" has no field "nam", did you mean "name"?`,
		"spec.nodename":                        `"spec" has no field "nodename", did you mean "nodeName"?`,
		"spec.nodeName.x":                      `"spec.nodeName" has no fields`,
		"spec.nodeName[*]":                     `"spec.nodeName" is no array`,
		"spec.port.x":                          `"spec.port" has no fields`,
		"spec.limits.cpu.x":                    `"spec.limits.cpu" has no fields`,
		"spec.limits":                          `"spec.limits" is an object: name one of its fields`,
		"spec[*].nodeName":                     `"spec" is no array`,
		"spec.volumes.name":                    `"spec.volumes" is an array: its elements are "spec.volumes[*]"`,
		"spec.volumes":                         `"spec.volumes" is an array: its elements are "spec.volumes[*]"`,
		"spec.volumes[*].secret.secret":        `"spec.volumes[*].secret" has no field "secret", did you mean "secretName"?`,
		"spec.volumes[*]":                      `"spec.volumes[*]" is an object: name one of its fields`,
		"spec.matrix[*].x":                     `"spec.matrix[*]" is an array: its elements are "spec.matrix[*][*]"`,
		"spec.free.known.b":                    `"spec.free.known" has no field "b", did you mean "a"?`,
		"spec.template.spec.y":                 `"spec.template.spec" has no field "y", did you mean "x"?`,
		"spec.tree.children[*].children.value": `"spec.tree.children[*].children" is an array: its elements are "spec.tree.children[*].children[*]"`,
	} {
		err := check(documentOf(widgetSchema, otherSchemas), widget, []fieldpath.Path{pathOf(t, "kind"), pathOf(t, text), pathOf(t, "spec.on")})
		unknown, ok := errors.AsType[*UnknownFieldError](err)
		if !ok || unknown.Problem != problem || unknown.Path.String() != text || unknown.Kind != widget {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// Nothing is known about the fields of a kind from such documents.
func TestDocumentsThatAreNotASchemaOfTheKindRefuseNothing(t *testing.T) {
	cycle := `"a":{"allOf":[{"$ref":"#/components/schemas/a"},{"$ref":"#/components/schemas/b"}]},"b":{"oneOf":[{"$ref":"#/components/schemas/a"},{"$ref":"#/components/schemas/a"}]}`
	var fan strings.Builder
	for i := range 30 {
		fmt.Fprintf(&fan, `"f%d":{"allOf":[{"$ref":"#/components/schemas/f%d"},{"$ref":"#/components/schemas/f%d"}]},`, i, i+1, i+1)
	}
	for name, text := range map[string][]byte{
		"nothing":                  nil,
		"an HTML page":             []byte("<html>"),
		"a half":                   documentOf(widgetSchema, otherSchemas)[:700],
		"a list":                   []byte("[]"),
		"no schemas":               []byte(`{"openapi":"3.0.0"}`),
		"another kind":             []byte(strings.ReplaceAll(string(documentOf(widgetSchema, otherSchemas)), `"Widget"`, `"Wodget"`)),
		"a kind that is a number":  []byte(strings.ReplaceAll(string(documentOf(widgetSchema, otherSchemas)), `"kind":"Widget"`, `"kind":1`)),
		"a schema that is a text":  documentOf(`"properties":{"spec":"x"}`, ""),
		"types that are a list":    documentOf(`"properties":{"spec":{"type":["object"]}}`, ""),
		"itself":                   documentOf(`"$ref":"#/components/schemas/dev.example.v1.Widget"`, ""),
		"a cycle":                  documentOf(`"$ref":"#/components/schemas/a"`, cycle),
		"a cycle below":            documentOf(`"properties":{"spec":{"$ref":"#/components/schemas/a"}}`, cycle),
		"2^30 schemas":             documentOf(`"$ref":"#/components/schemas/f0"`, fan.String()+`"f30":{}`),
		"too many schemas":         documentOf(`"x":0`, manySchemas(maxSchemas)),
		"deeper than JSON may be":  documentOf(`"properties":`+strings.Repeat(`{"spec":`, 20_000)+`{}`+strings.Repeat(`}`, 20_000), ""),
		"a schema of very many":    documentOf(`"allOf":[`+strings.Repeat(`{},`, maxOthers)+`{}]`, ""),
		"references that are none": documentOf(`"$ref":{}`, ""),
	} {
		t.Run(name, func(t *testing.T) {
			err := check(text, widget, []fieldpath.Path{pathOf(t, "spec.x")})
			if _, refused := errors.AsType[*UnknownFieldError](err); refused || err == nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func manySchemas(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"s%d":{},`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// The names in a document are those of whoever serves it.
func TestNamesOfTheDocumentAreQuotedAndBounded(t *testing.T) {
	properties := `"no\nde":{},"` + strings.Repeat("n", 1<<20) + `":{}` + strings.Repeat(`,"x":{}`, 100_000)
	err := check(documentOf(`"type":"object","properties":{`+properties+`}`, ""), widget, []fieldpath.Path{pathOf(t, "node")})
	if err == nil || !strings.HasSuffix(err.Error(), `the object has no field "node", did you mean "no\nde"?`) {
		t.Errorf("got %.200v", err)
	}
	names := (&shape{properties: [][]byte{[]byte("{" + properties + "}")}}).names()
	if n := len(slices.MaxFunc(names, func(a, b string) int { return len(a) - len(b) })); len(names) > maxNames || n > maxNameLength {
		t.Errorf("compared with %d names, of %d bytes", len(names), n)
	}
}

// value is a random value of a random schema, with the paths to its scalars.
type value struct {
	schema map[string]any
	paths  []string // below the value, such as ".x" and "[*].y"
}

var generated = rapid.Custom(func(t *rapid.T) value { return draw(t, 4) })

func draw(t *rapid.T, depth int) (v value) {
	kinds := []string{"scalar", "object", "map", "array", "open", "anything"}
	if depth == 0 {
		kinds = kinds[:1]
	}
	v.schema = map[string]any{"description": rapid.String().Draw(t, "description")}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "scalar":
		v.schema["type"] = rapid.SampledFrom([]string{"string", "integer", "number", "boolean"}).Draw(t, "type")
		v.paths = []string{""}
	case "object":
		properties := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}`), 1, 3, rapid.ID).Draw(t, "names") {
			member := draw(t, depth-1)
			properties[name] = member.schema
			for _, p := range member.paths {
				v.paths = append(v.paths, "."+name+p)
			}
		}
		v.schema["type"], v.schema["properties"] = "object", properties
	case "map":
		element := draw(t, depth-1)
		v.schema["type"], v.schema["additionalProperties"] = "object", element.schema
		for _, p := range element.paths {
			v.paths = append(v.paths, "."+rapid.StringMatching(`[a-zA-Z0-9_-]{1,8}`).Draw(t, "key")+p)
		}
	case "array":
		element := draw(t, depth-1)
		v.schema["type"], v.schema["items"] = "array", element.schema
		for _, p := range element.paths {
			v.paths = append(v.paths, "[*]"+p)
		}
	case "open":
		v.schema["type"], v.schema["x-kubernetes-preserve-unknown-fields"] = "object", true
		v.paths = []string{".what.ever", ".what[*].ever"}
	case "anything":
		v.paths = []string{"", ".x", "[*]"}
	}
	return v
}

// Wherever an object that the schema allows has a value, the path is accepted, however
// the schema is split; and a path that goes on below a scalar is refused.
func TestEveryPathOfARandomSchemaIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := generated.Draw(t, "spec")
		schemas := map[string]any{}
		root := map[string]any{
			"type": "object", "properties": map[string]any{"spec": split(t, spec.schema, schemas)},
			"x-kubernetes-group-version-kind": []any{map[string]any{"group": "example.dev", "version": "v1", "kind": "Widget"}},
		}
		schemas["root"] = root
		text, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": schemas}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range spec.paths {
			if err := check(text, widget, []fieldpath.Path{pathOf(t, "spec"+p)}); err != nil {
				t.Fatalf("spec%s: %v in %s", p, err, text)
			}
			if err := check(text, widget, []fieldpath.Path{pathOf(t, "spec"+p), pathOf(t, "spex"+p)}); err == nil {
				t.Fatalf("spex%s was accepted", p)
			}
		}
	})
}

// split puts parts of a schema into others, as the API server does.
func split(t *rapid.T, schema map[string]any, schemas map[string]any) any {
	for _, name := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[name].(map[string]any); ok {
			schema[name] = split(t, inner, schemas)
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, inner := range properties {
			properties[name] = split(t, inner.(map[string]any), schemas)
		}
	}
	name := fmt.Sprint("s", len(schemas))
	switch rapid.IntRange(0, 3).Draw(t, "split") {
	case 0:
		schemas[name] = schema
		return map[string]any{"$ref": "#/components/schemas/" + name}
	case 1:
		schemas[name] = schema
		return map[string]any{"default": map[string]any{}, "allOf": []any{map[string]any{"$ref": "#/components/schemas/" + name}}}
	case 2:
		return map[string]any{"anyOf": []any{schema, schema}}
	}
	return schema
}

func FuzzCheck(f *testing.F) {
	f.Add(documentOf(widgetSchema, otherSchemas), "spec.volumes[*].name")
	f.Add(documentOf(widgetSchema, otherSchemas), "spec.tree.children[*].x")
	f.Add([]byte(`{"components":{"schemas":{"a":{"x-kubernetes-group-version-kind":[{"group":"example.dev","version":"v1","kind":"Widget"}],"$ref":"#/components/schemas/a"}}}}`), "spec")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		p, err := fieldpath.ParsePath(path)
		if err != nil {
			return
		}
		err = check(text, widget, []fieldpath.Path{p})
		if _, refused := errors.AsType[*UnknownFieldError](err); refused && !json.Valid(text) {
			t.Errorf("%v in a document that is no JSON", err)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
