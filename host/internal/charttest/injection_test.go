package charttest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"sigs.k8s.io/yaml"
)

// benign are texts of which every value that is a text takes one.
var benign = []string{"abc", "10s", "10%", "64Mi", "sha256:" + strings.Repeat("0", 64)}

// odd are texts that YAML reads as something else, unless they are quoted.
var odd = []string{
	"123", "1e3", "true", "null", "a: b", "a #b", "*a", "{a: b}", `"`,
	"a\n    b: c", "a\n---\nkind: Secret", "a\n", "{{ fail \"x\" }}",
}

// texts returns the values that are texts, by their paths in the schema.
func texts(path []string, schema map[string]any) (all [][]string) {
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		all = append(all, texts(append(slices.Clone(path), name), properties[name].(map[string]any))...)
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok {
		all = append(all, texts(append(slices.Clone(path), "*"), more)...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		all = append(all, texts(append(slices.Clone(path), "[]"), items)...)
	}
	if schema["enum"] == nil && (schema["type"] == "string" || slices.Contains(asList(schema["type"]), "string")) {
		all = append(all, path)
	}
	return all
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// with returns the values with another one at a path, in which "[]" is the first item of a list, and "*" the
// first key.
func with(v any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == "[]" {
		list := append(slices.Clone(asList(v)), nil)
		return []any{with(list[0], path[1:], value)}
	}
	m, _ := v.(map[string]any)
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	key := path[0]
	if keys := slices.Sorted(maps.Keys(m)); key == "*" && len(keys) > 0 {
		key = keys[0]
	}
	m[key] = with(m[key], path[1:], value)
	return m
}

// shape returns the paths of what is rendered, with the types of the values.
func shape(t *testing.T, rendered map[string]string) (paths []string) {
	t.Helper()
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, below := range v {
				walk(path+"/"+key, below)
			}
		case []any:
			for i, below := range v {
				walk(fmt.Sprint(path, "/", i), below)
			}
		case string:
			var below map[string]any
			if strings.HasSuffix(path, ".yaml") && yaml.Unmarshal([]byte(v), &below) == nil {
				walk(path, below) // a file in a ConfigMap
				return
			}
			paths = append(paths, path+" string")
		default:
			paths = append(paths, fmt.Sprintf("%s %T", path, v))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(rendered)) {
		for i, document := range strings.Split(rendered[file], "\n---\n") {
			var object map[string]any
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				return []string{fmt.Sprintf("%s: %v", file, err)}
			}
			walk(fmt.Sprint(file, i), object)
		}
	}
	slices.Sort(paths)
	return paths
}

func difference(a, b []string) (all []string) {
	for _, path := range a {
		if !slices.Contains(b, path) {
			all = append(all, path)
		}
	}
	return all
}

// everything has values by which every template is rendered.
func everything(t *testing.T) map[string]any {
	t.Helper()
	values := readYAML(t, filepath.Join(deploy, "chart", "testdata", "full.values.yaml"))
	plugins := readYAML(t, filepath.Join(deploy, "chart", "testdata", "plugins.values.yaml"))
	values["plugins"] = plugins["plugins"]
	return values
}

// A text in the values is either refused or one in the objects, whatever YAML would read it as: nobody who
// may choose a name chooses what else is installed.
func TestNoTextBecomesSomethingElse(t *testing.T) {
	schema := readYAML(t, filepath.Join(deploy, "chart", "values.schema.json"))
	all := texts(nil, schema)
	if len(all) < 30 {
		t.Fatalf("the schema has %q", all)
	}
	for _, path := range all {
		values := everything(t)
		if at := strings.Join(path, "."); strings.HasPrefix(at, "plugins.existingClaim") || strings.HasPrefix(at, "plugins.image.") {
			values = with(values, []string{"plugins", "configMaps"}, []any{}).(map[string]any)
		}
		var want []string
		for _, text := range benign {
			if rendered, err := render(t, with(values, path, text).(map[string]any)); err == nil {
				want = shape(t, rendered)
				break
			}
		}
		if want == nil {
			t.Errorf("%s takes none of %q", path, benign)
		}
		for _, text := range odd {
			rendered, err := render(t, with(values, path, text).(map[string]any))
			if err != nil {
				continue
			}
			got := shape(t, rendered)
			if more, less := difference(got, want), difference(want, got); len(more)+len(less) > 0 {
				t.Errorf("%s: %q leads to %q in the place of %q", path, text, more, less)
			}
		}
	}
}

func TestAReleaseAndANamespaceMayHaveANumberForAName(t *testing.T) {
	values := everything(t)
	want, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"123", "1e3", "true", "null"} {
		got, err := renderAs(t, common.ReleaseOptions{Name: name, Namespace: name, Revision: 1, IsInstall: true}, values)
		if err != nil {
			t.Fatal(err)
		}
		if more, less := difference(shape(t, got), shape(t, want)), difference(shape(t, want), shape(t, got)); len(more)+len(less) > 0 {
			t.Errorf("%s: %q in the place of %q", name, more, less)
		}
	}
}
