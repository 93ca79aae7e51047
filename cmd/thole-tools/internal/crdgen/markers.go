package crdgen

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"reflect"
	"slices"
	"strings"

	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi/rawjson"
)

// This file finds markers that have no effect. controller-tools ignores them.

// prefix is that of the markers which are checked. Those without it, such as +optional,
// cannot be told from text.
const prefix = "kubebuilder:"

func inMainModule(pkg *loader.Package) bool { return pkg.Module != nil && pkg.Module.Main }

// defaultMarker is the definition of the marker of a default.
var defaultMarker = markers.Must(markers.MakeAnyTypeDefinition(prefix+"default", markers.DescribesField, crdmarkers.Default{}))

// jsonDefault is a default that may also be JSON or YAML that controller-tools cannot parse, such as {observed: -1}.
type jsonDefault struct{ crdmarkers.Default }

// ParseMarker parses what follows the name of the marker.
func (d *jsonDefault) ParseMarker(_, name, text string) error {
	value, err := defaultMarker.Parse("+" + name + "=" + text)
	if err != nil {
		// A list in braces is a map without values in YAML.
		if yaml.Unmarshal([]byte(text), &d.Value) != nil || hasNull(d.Value) {
			return err
		}
		return nil
	}
	d.Default = value.(crdmarkers.Default)
	return nil
}

func hasNull(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasNull)
	case []any:
		return slices.ContainsFunc(v, hasNull)
	}
	return value == nil
}

// acceptJSONDefaults makes a registry parse defaults as [jsonDefault].
func acceptJSONDefaults(registry *markers.Registry) {
	registry.Lookup("+"+prefix+"default", markers.DescribesField).Output = reflect.TypeFor[jsonDefault]()
}

// ofDeepCopy are markers for the generator of DeepCopy methods, which plugins do not need. Types that kubebuilder has
// scaffolded have them.
var ofDeepCopy = []string{"object:root", "object:generate"}

// checkMarkers adds a mistake for each marker of a type that has no effect, and for those of functions.
func (t *typeSet) checkMarkers(pkg *loader.Package, info *markers.TypeInfo) {
	t.checkComments(pkg, markers.DescribesType, "", info.RawDecl.Doc, info.RawSpec.Doc, apart(pkg, info.RawDecl))
	t.checkComments(pkg, markers.DescribesType, "behind the declaration", info.RawSpec.Comment)
	for _, field := range info.Fields {
		t.checkComments(pkg, markers.DescribesField, "", field.RawField.Doc)
		t.checkComments(pkg, markers.DescribesField, "behind the field", field.RawField.Comment)
	}
	if !t.searched[pkg] {
		t.searched[pkg] = true
		t.checkFunctions(pkg)
	}
}

// checkComments checks the markers in comments of a type or field. where is the place of comments whose markers have
// no effect, "" for that of the others.
func (t *typeSet) checkComments(pkg *loader.Package, target markers.TargetType, where string, comments ...*ast.CommentGroup) {
	for _, group := range comments {
		eachMarker(group, func(text string, comment *ast.Comment) {
			name, _, _ := strings.Cut(text, "=")
			where := where
			if strings.HasPrefix(comment.Text, "/*") {
				where = cmp.Or(where, "between /* and */")
			}
			switch {
			case slices.Contains(ofDeepCopy, name) && target == markers.DescribesType:
			case t.Collector.Lookup("+"+prefix+text, target) == nil:
				pkg.AddError(loader.ErrFromNode(t.unknownMarker(text, target), comment))
			case where != "":
				pkg.AddError(loader.ErrFromNode(misplaced(name, where), comment))
			}
		})
	}
}

// checkFunctions adds a mistake for each marker of a schema in the comments of functions. Others, such as those for
// RBAC, stand there in what kubebuilder has scaffolded.
func (t *typeSet) checkFunctions(pkg *loader.Package) {
	for _, file := range pkg.Syntax {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			begin := f.Pos()
			if f.Doc != nil {
				begin = f.Doc.Pos()
			}
			for _, group := range file.Comments {
				if group.Pos() < begin || group.End() > f.End() {
					continue
				}
				eachMarker(group, func(text string, comment *ast.Comment) {
					isOf := func(target markers.TargetType) bool { return t.Collector.Lookup("+"+prefix+text, target) != nil }
					if name, _, _ := strings.Cut(text, "="); isOf(markers.DescribesType) || isOf(markers.DescribesField) {
						pkg.AddError(loader.ErrFromNode(misplaced(name, "of a function"), comment))
					}
				})
			}
		}
	}
}

func misplaced(name, where string) error {
	return fmt.Errorf("the marker %s has no effect in a comment %s: write it above a type or a field, behind //", prefix+name, where)
}

// eachMarker calls f with each marker of a comment group, which may be nil: with what follows the prefix.
func eachMarker(group *ast.CommentGroup, f func(text string, comment *ast.Comment)) {
	if group == nil {
		return
	}
	for _, comment := range group.List {
		content := strings.TrimPrefix(comment.Text, "//")
		if block, ok := strings.CutPrefix(comment.Text, "/*"); ok {
			content = strings.TrimSuffix(block, "*/")
		}
		for line := range strings.Lines(content) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "+"+prefix); ok {
				f(text, comment)
			}
		}
	}
}

// apart returns the comment before that of a declaration, from which a blank line separates it, nil if there is none.
// Its markers describe the declaration, too.
func apart(pkg *loader.Package, decl *ast.GenDecl) (found *ast.CommentGroup) {
	begin := decl.Pos()
	if decl.Doc != nil {
		begin = decl.Doc.Pos()
	}
	for _, file := range pkg.Syntax {
		if begin < file.FileStart || begin > file.FileEnd {
			continue
		}
		after := file.Name.End()
		for _, other := range file.Decls {
			if other.End() < begin {
				after = other.End()
			}
		}
		for _, group := range file.Comments {
			if group.Pos() > after && group.End() < begin {
				found = group
			}
		}
	}
	return found
}

// unknownMarker returns the error for a marker that has no effect where it is. text has
// what follows the prefix.
func (t *typeSet) unknownMarker(text string, target markers.TargetType) error {
	for _, d := range t.Collector.AllDefinitions() {
		if found := t.Collector.Lookup("+"+prefix+text, d.Target); found == d {
			return fmt.Errorf("the marker %s describes a %s, and has no effect here", d.Name, d.Target)
		}
	}
	var known []string
	for _, d := range t.Collector.AllDefinitions() {
		if name, ok := strings.CutPrefix(d.Name, prefix); ok && d.Target == target {
			known = append(known, name)
		}
	}
	name, _, _ := strings.Cut(text, "=")
	near, ok := rawjson.Nearest(name, known)
	if i := strings.LastIndex(name, ":"); !ok && i >= 0 { // what follows may be the name of a value
		near, ok = rawjson.Nearest(name[:i], known)
	}
	if ok {
		return fmt.Errorf("there is no marker %s, did you mean %s?", prefix+name, prefix+near)
	}
	return fmt.Errorf("there is no marker %s", prefix+name)
}
