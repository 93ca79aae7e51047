package kubernetestypes

import (
	"bytes"
	"fmt"
	"go/format"
	"maps"
	"slices"
	"strings"
)

// FileName is the name of the generated file in the folder of a package.
const FileName = "types.go"

// Files returns the content of the generated files, by the names of their packages.
func Files(schemas Schemas) (map[string][]byte, error) {
	m, err := newModel(schemas)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, p := range Packages {
		w := &writer{model: m, pkg: p.name(), imports: map[string]bool{sdkPath: true}}
		w.header(p)
		w.structs()
		if files[p.name()], err = w.file("has the kind " + kindText(p)); err != nil {
			return nil, err
		}
	}
	w := &writer{model: m, pkg: shared, imports: map[string]bool{}}
	w.structs()
	files[shared], err = w.file("has the types that several kinds have, and that belong to none")
	return files, err
}

const sdkPath = "github.com/thole-dev/thole/sdk"

// writer writes the file of one package.
type writer struct {
	*model
	pkg     string
	body    bytes.Buffer
	imports map[string]bool
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.body, format+"\n", args...) }

// header writes the kind of the package, and the function that returns an object of it.
func (w *writer) header(p Package) {
	name := p.Kind.Kind
	w.line("\n// Kind is %s.", kindText(p))
	w.line("var Kind = sdk.Kind{APIVersion: %q, Kind: %q}", p.Kind.GroupVersion().String(), name)
	w.line("\n// New returns an object of that name with its kind, for [sdk.Run.Apply].")
	w.line("func New(name string) %s {", name)
	w.line("return %s{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}\n}", name)
}

// kindText returns the kind of a package as sdk.Kind writes it.
func kindText(p Package) string { return p.Kind.GroupVersion().String() + " " + p.Kind.Kind }

// structs writes the types that are in the package.
func (w *writer) structs() {
	for _, schema := range w.order {
		if s := w.model.structs[schema]; s.pkg == w.pkg {
			w.structure(s)
		}
	}
}

// notes are comments about fields of which a host makes something else.
var notes = map[string]string{ //nolint:gosec // the name of a field, and no credential
	"Secret.stringData": "What an intent has here is applied as data, so that a key which it has no more goes from the Secret.",
}

// structure writes one type.
func (w *writer) structure(s *structure) {
	of := s.name + " of"
	if w.nameOf(s) == s.name {
		of = "that of"
	}
	w.line("\n// %s is %s the Kubernetes API.", w.nameOf(s), of)
	if s.atomic {
		w.line("// +structType=atomic")
	}
	if s.root {
		w.line("//\n//thole:compact")
	}
	w.line("type %s struct {", w.nameOf(s))
	isKind := len(w.schemas.byName[s.schema].Kinds) > 0
	if isKind {
		w.line("sdk.TypeMeta `json:\",inline\"`")
	}
	for _, f := range s.fields {
		if !isKind || f.json != "apiVersion" && f.json != "kind" {
			if note, ok := notes[s.name+"."+f.json]; ok {
				w.line("// %s", note)
			}
			w.markers(f, isKind)
			w.line("%s %s `json:%q`", f.name, w.typ(f.typ), f.json+option(f, isKind))
		}
	}
	w.line("}")
}

// markers writes the markers of a field, without those that say what its tag says.
func (w *writer) markers(f *field, ofKind bool) {
	implied := "optional"
	if option(f, ofKind) == "" {
		implied = "required"
	}
	for _, marker := range f.markers {
		if marker != implied {
			w.line("// +%s", marker)
		}
	}
}

// option returns the option of the tag of a field. As in k8s.io/api, some scalars and
// structs are written always. All else is left out without a value: null is never written.
func option(f *field, ofKind bool) string {
	isStruct := f.typ.plain == "" || slices.Contains([]string{"sdk.ObjectMeta", "sdk.LabelSelector", "sdk.Condition", "sdk.IntOrString"}, f.typ.plain)
	switch isValue := !f.typ.pointer && f.typ.prefix == ""; {
	case isValue && (f.always || ofKind && f.json == "metadata"):
		return ""
	case isValue && isStruct:
		return ",omitzero"
	default:
		return ",omitempty"
	}
}

// typ returns a type as it is written in the package.
func (w *writer) typ(t *typ) string {
	name := t.plain
	if strings.HasPrefix(name, "sdk.") {
		w.imports[sdkPath] = true
	}
	if s := w.model.structs[t.schema]; s != nil {
		if name = w.nameOf(s); s.pkg != w.pkg {
			w.imports[importPath+"/"+s.pkg] = true
			name = s.pkg + "." + name
		}
	}
	if t.pointer {
		name = "*" + name
	}
	return t.prefix + name
}

// nameOf returns the name of a type in its package.
func (w *writer) nameOf(s *structure) string {
	for _, p := range Packages {
		if p.name() == s.pkg {
			return p.short(s.name)
		}
	}
	return s.name
}

// file returns the source of the package. content is the end of the first sentence of its
// documentation.
func (w *writer) file(content string) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.\n\n// Package %s %s.\n//\n", w.pkg, content)
	fmt.Fprintf(&out, "// It is generated from the OpenAPI of kube-apiserver %s. The fields are those of\n", w.schemas.version)
	fmt.Fprintf(&out, "// the Kubernetes API reference; see package kubernetes, the folder.\npackage %s\n\n", w.pkg)
	if len(w.imports) > 0 {
		fmt.Fprintf(&out, "import (\n\"%s\"\n)\n", strings.Join(slices.Sorted(maps.Keys(w.imports)), "\"\n\""))
	}
	out.Write(w.body.Bytes())
	return format.Source(out.Bytes())
}
