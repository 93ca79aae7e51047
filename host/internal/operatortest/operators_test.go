package operatortest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/repository"
)

// TestCRDsAreThoseOfControllerGen generates the CRDs of all kinds in the packages of
// operators twice, and compares them member by member.
func TestCRDsAreThoseOfControllerGen(t *testing.T) {
	paths := apiPackages(t)
	want := byControllerGen(t, paths)
	dir := plugin(t, paths, want)
	t.Run("codecs", func(t *testing.T) { expectCodecs(t, dir) })
	got := byThole(t, dir)
	if kinds := slices.Sorted(maps.Keys(want)); !reflect.DeepEqual(slices.Sorted(maps.Keys(got)), kinds) || len(kinds) < 35 {
		t.Fatalf("there are %d kinds by thole and %d by controller-gen: %q", len(got), len(kinds), kinds)
	}
	t.Logf("%d kinds", len(want))
	seen := map[string]int{}
	for name := range want {
		compare("", got[name], want[name], func(path, text string) {
			for _, d := range stated {
				if d.path.MatchString(path) && (d.text == "" || strings.HasPrefix(text, d.text)) {
					seen[d.why]++
					return
				}
			}
			t.Errorf("%s: %s: %s", name, path, text)
		})
	}
	for _, d := range stated {
		if t.Logf("%5d: %s", seen[d.why], d.why); seen[d.why] == 0 {
			t.Errorf("no kind differs any more: %s", d.why)
		}
	}
}

// expectCodecs generates the codecs of the types, and compares them with encoding/json.
func expectCodecs(t *testing.T, dir string) {
	program, err := tholetest.Program("cmd/thole-tools")
	if err != nil {
		t.Fatal(err)
	}
	var notes bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, "generate")
	cmd.Dir, cmd.Stderr = dir, &notes
	if err := cmd.Run(); err != nil {
		t.Fatal(err, &notes)
	}
	for note := range strings.Lines(notes.String()) {
		if !strings.Contains(note, " sdk.Register (") && !strings.Contains(note, " sdk.Controller (") { // of a type of another module
			t.Error(note)
		}
	}
	compared, err := os.ReadFile("testdata/codecs_test.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "codecs_test.go"), compared)
	t.Logf("%s", run(t, dir, "go", "test", "-mod=mod", "-v", "."))
}

// difference is one that is intended.
type difference struct {
	path *regexp.Regexp
	text string // the beginning of what differs; any if it is empty
	why  string
}

const root = `^spec\.versions\[\]\.schema\.openAPIV3Schema\.`

var stated = []difference{
	{regexp.MustCompile(`^metadata\.annotations(\.controller-gen\.kubebuilder\.io/version)?$`), missing, "the version of controller-gen is not that of thole"},
	{regexp.MustCompile(`^metadata\.annotations\.api-approved\.kubernetes\.io$`), more, "the API server requires it of groups of the Kubernetes community"},
	{regexp.MustCompile(root + `properties\.(apiVersion|kind)\.description$`), missing, "kubectl explains apiVersion and kind without a description, too"},
	{regexp.MustCompile(`^spec\.versions\[\]\.additionalPrinterColumns`), more, "there is a column Ready"},
	{regexp.MustCompile(`^spec\.versions\[\]\.subresources`), more, "the host writes the status of every kind"},
	{regexp.MustCompile(root + `required$`), other + `: ["spec"], want ["metadata","spec"]`, "every object has metadata"},
	{
		regexp.MustCompile(root + `properties\.spec\.properties\.authorization\.description$`), other,
		"a field that hides one of an embedded struct has its own description",
	},
	{regexp.MustCompile(root + `properties\.status\.default(\.observedGeneration)?$`), more, "a new object is in progress"},
	{regexp.MustCompile(root + `properties\.status\.required`), "", "the host writes conditions before there is a status"},
	{regexp.MustCompile(root + `properties\.status\.properties\.(conditions|observedGeneration|lastHandledReconcileAt)$`), more, "the host writes these members of the status"},
	{regexp.MustCompile(root + `properties\.status$`), more, "the host writes the status of a kind without one"},
}

// What a difference begins with.
const (
	missing = "missing"
	more    = "more"
	other   = "other"
)

// compare calls differs for each member of JSON values that is not the same.
func compare(path string, got, want any, differs func(path, text string)) {
	gotMap, isMap := got.(map[string]any)
	wantMap, bothMaps := want.(map[string]any)
	gotList, isList := got.([]any)
	wantList, bothLists := want.([]any)
	switch {
	case isMap && bothMaps:
		keys := maps.Clone(gotMap)
		maps.Copy(keys, wantMap)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			g, inGot := gotMap[key]
			w, inWant := wantMap[key]
			at := strings.TrimPrefix(path+"."+key, ".")
			switch {
			case !inGot:
				differs(at, missing+": "+text(w))
			case !inWant:
				differs(at, more+": "+text(g))
			default:
				compare(at, g, w, differs)
			}
		}
	case isList && bothLists && len(gotList) == len(wantList):
		for i := range gotList {
			compare(path+"[]", gotList[i], wantList[i], differs)
		}
	case isList && bothLists && len(gotList) > len(wantList) && includes(gotList, wantList):
		differs(path, more+": "+text(got))
	case !reflect.DeepEqual(got, want):
		differs(path, other+": "+text(got)+", want "+text(want))
	}
}

// includes reports whether all elements of a list are in another one.
func includes(all, some []any) bool {
	return !slices.ContainsFunc(some, func(want any) bool {
		return !slices.ContainsFunc(all, func(got any) bool { return reflect.DeepEqual(got, want) })
	})
}

func text(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text[:min(len(text), 300)])
}

// apiPackages returns the packages that this one imports, apart from the SDK.
func apiPackages(t *testing.T) (paths []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(path, "github.com/thole-dev/") {
			paths = append(paths, path)
		}
	}
	return paths
}

// definition is a CustomResourceDefinition.
type definition = map[string]any

// byControllerGen returns the definitions of controller-gen by their names.
func byControllerGen(t *testing.T, paths []string) map[string]definition {
	dir := t.TempDir()
	run(t, ".", "go", "tool", "controller-gen", "crd:allowDangerousTypes=true,ignoreUnexportedFields=true", "paths="+strings.Join(paths, ";"), "output:crd:dir="+dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]definition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, definitions(t, text))
	}
	return all
}

// byThole returns the definitions of a plugin by their names.
func byThole(t *testing.T, dir string) map[string]definition {
	program, err := tholetest.Program("cmd/thole-tools")
	if err != nil {
		t.Fatal(err)
	}
	return definitions(t, run(t, dir, program, "generate", "crd", "--output", "-"))
}

func definitions(t *testing.T, text []byte) map[string]definition {
	all := map[string]definition{}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		d := definition{}
		if err := yaml.Unmarshal(document, &d); err != nil {
			t.Fatal(err)
		}
		all[d["metadata"].(map[string]any)["name"].(string)] = d
	}
	return all
}

// kind is a kind in the plugin.
type kind struct {
	Kind, Version string
	Package       int // its index in the paths
	Status        string
	Spec          string
}

var source = template.Must(template.New("main.go").Parse(`// Command operators has a controller for each kind of an operator.
package main

import (
	"github.com/thole-dev/thole/sdk"
{{range $i, $path := .Paths}}	p{{$i}} "{{$path}}"
{{end}})

func controllers() {
{{range $i, $k := .Kinds}}	sdk.Register(sdk.Controller[p{{.Package}}.{{.Spec}}, {{if .Status}}p{{.Package}}.{{.Status}}{{else}}None{{end}}]{
		Name: "k{{$i}}", For: sdk.Kind{APIVersion: "{{.Version}}", Kind: "{{.Kind}}"},
	})
{{end}}}

type None struct{}

// The types get a codec here, where methods can be declared.
type (
{{range $i, $k := .Kinds}}	Spec{{$i}} p{{.Package}}.{{.Spec}}
{{if .Status}}	Status{{$i}} p{{.Package}}.{{.Status}}
{{end}}{{end}})

var coded = []struct {
	coded sdk.Value
	plain any
}{
{{range $i, $k := .Kinds}}	{&Spec{{$i}}{}, nil},
{{if .Status}}	{&Status{{$i}}{}, nil},
{{end}}{{end}}}

func init() {
	for i, plain := range []any{
{{range $i, $k := .Kinds}}		&p{{.Package}}.{{.Spec}}{},
{{if .Status}}		&p{{.Package}}.{{.Status}}{},
{{end}}{{end}}	} {
		coded[i].plain = plain
	}
}

func main() {}
`))

// plugin returns the directory of a plugin with a controller for each kind, in a module with the requirements of this one.
func plugin(t *testing.T, paths []string, all map[string]definition) string {
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedTypes | packages.NeedImports | packages.NeedDeps}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	groups := groupsOf(t, loaded)
	var kinds []kind
	for _, name := range slices.Sorted(maps.Keys(all)) {
		spec := all[name]["spec"].(map[string]any)
		of := kind{Kind: spec["names"].(map[string]any)["kind"].(string)}
		of.Version = spec["group"].(string) + "/" + spec["versions"].([]any)[0].(map[string]any)["name"].(string)
		for _, p := range loaded {
			object := p.Types.Scope().Lookup(of.Kind)
			if object == nil || groups[p.PkgPath] != spec["group"] {
				continue
			}
			of.Package = slices.Index(paths, p.PkgPath)
			of.Spec, of.Status = fieldType(object, "Spec"), fieldType(object, "Status")
		}
		if of.Spec == "" {
			t.Logf("%s has no type for its spec, as a controller has", name)
			delete(all, name)
			continue
		}
		kinds = append(kinds, of)
	}
	dir := t.TempDir()
	var text bytes.Buffer
	if err := source.Execute(&text, map[string]any{"Paths": paths, "Kinds": kinds}); err != nil {
		t.Fatal(err)
	}
	repo, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "main.go"), text.Bytes())
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), content)
	}
	run(t, dir, "go", "mod", "edit", "-replace=github.com/thole-dev/thole="+repo)
	return dir
}

// groupsOf returns the group that the marker of each package names.
func groupsOf(t *testing.T, loaded []*packages.Package) map[string]string {
	groups := map[string]string{}
	for _, p := range loaded {
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range file.Comments {
				for _, comment := range group.List {
					if name, ok := strings.CutPrefix(comment.Text, "// +groupName="); ok {
						groups[p.PkgPath] = name
					}
				}
			}
		}
	}
	return groups
}

// fieldType returns the name of the type of a field, or "".
func fieldType(object types.Object, field string) string {
	found, _, _ := types.LookupFieldOrMethod(object.Type(), false, object.Pkg(), field)
	if found == nil {
		return ""
	}
	of := found.Type()
	if pointer, ok := of.(*types.Pointer); ok {
		of = pointer.Elem()
	}
	if named, ok := of.(*types.Named); ok && named.Obj().Pkg() == object.Pkg() {
		return named.Obj().Name()
	}
	return ""
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w\n%s\n%s", strings.Join(args, " "), err, &stderr, out))
	}
	return out
}
