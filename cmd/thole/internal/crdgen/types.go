package crdgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"

	"github.com/thole-dev/thole/sdk/generate"
)

// typeSet has the packages with the types of controllers, and makes their schemas. Mistakes
// are added to the packages, as controller-tools does.
type typeSet struct {
	*crd.Parser
	dir  string // to which places in errors are relative
	fset *token.FileSet

	packages map[string]*loader.Package // by path
	checked  map[crd.TypeIdent]bool     // whether the schema of a type can be made
}

// loadTypes loads the packages that declare the types of the controllers.
func loadTypes(ctx context.Context, at generate.Place, controllers []generate.Controller) (*typeSet, error) {
	paths := map[string]bool{}
	for _, c := range controllers {
		for _, v := range c.Versions {
			paths[v.Spec.Package], paths[v.Status.Package] = true, true
		}
	}
	t := &typeSet{dir: at.Dir, fset: token.NewFileSet(), packages: map[string]*loader.Package{}, checked: map[crd.TypeIdent]bool{}}
	config := &packages.Config{Context: ctx, Dir: at.Dir, Fset: t.fset, Mode: packages.NeedModule}
	if at.Temp != "" {
		config.Env = append(os.Environ(), "GOTMPDIR="+at.Temp)
	}
	roots, err := loader.LoadRootsWithConfig(config, sortedKeys(paths)...)
	if err != nil {
		return nil, err
	}
	registry := &markers.Registry{}
	if err := (crd.Generator{}).RegisterMarkers(registry); err != nil {
		return nil, err
	}
	t.Parser = &crd.Parser{
		Collector:              &markers.Collector{Registry: registry},
		Checker:                &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
		IgnoreUnexportedFields: true, // encoding/json and `thole generate` do so, too
		AllowDangerousTypes:    true, // floats: a plugin may have them
	}
	crd.AddKnownTypes(t.Parser)
	maps.Copy(t.PackageOverrides, knownPackages())
	seen := map[*loader.Package]bool{}
	for _, root := range roots {
		t.packages[root.PkgPath] = root
		t.optional(root, seen)
	}
	for _, root := range roots {
		t.NeedPackage(root)
	}
	return t, nil
}

// optional makes fields with omitzero optional in a package and those that it imports, as
// controller-tools does with omitempty.
func (t *typeSet) optional(pkg *loader.Package, seen map[*loader.Package]bool) {
	if seen[pkg] {
		return
	}
	seen[pkg] = true
	load, known := t.PackageOverrides[pkg.PkgPath]
	if !known {
		load = (*crd.Parser).AddPackage
	}
	t.PackageOverrides[pkg.PkgPath] = func(p *crd.Parser, pkg *loader.Package) {
		load(p, pkg)
		for ident, info := range p.Types {
			if ident.Package == pkg {
				markOmitZero(info)
			}
		}
	}
	for _, imported := range pkg.Imports() {
		t.optional(imported, seen)
	}
}

// markOmitZero adds the marker +optional to fields with omitzero that have no marker which
// says so, or the opposite.
func markOmitZero(info *markers.TypeInfo) {
	for i := range info.Fields {
		field := &info.Fields[i]
		options := strings.Split(field.Tag.Get("json"), ",")
		required := field.Markers.Get("required") != nil || field.Markers.Get("kubebuilder:validation:Required") != nil
		if slices.Contains(options[1:], "omitzero") && !required {
			setMarker(field, "optional", struct{}{})
		}
	}
}

// ident returns a type as controller-tools identifies it.
func (t *typeSet) ident(of generate.Type) crd.TypeIdent {
	return crd.TypeIdent{Package: t.packages[of.Package], Name: of.Name}
}

// schema returns the schema of a type. It is empty if there is a mistake in the type.
func (t *typeSet) schema(ident crd.TypeIdent) *apiextensionsv1.JSONSchemaProps {
	if !t.check(ident, nil) {
		if !t.isDone(ident) || !inMainModule(ident.Package) {
			ident.Package.AddError(fmt.Errorf("type %s has no schema; declare one of your own", ident.Name))
		}
		return &apiextensionsv1.JSONSchemaProps{}
	}
	t.NeedFlattenedSchemaFor(ident)
	flattened := t.FlattenedSchemata[ident]
	return flattened.DeepCopy()
}

// err returns the mistakes in all packages, in the order of their places.
func (t *typeSet) err() error {
	var found []packages.Error
	seen := map[*loader.Package]bool{}
	var visit func(*loader.Package)
	visit = func(pkg *loader.Package) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, err := range pkg.Errors {
			// Of the packages that are imported, not all are loaded, so that types seem to be unknown.
			if err.Kind != packages.TypeError {
				found = append(found, err)
			}
		}
		for _, imported := range pkg.Imports() {
			visit(imported)
		}
	}
	for _, pkg := range t.packages {
		visit(pkg)
	}
	slices.SortFunc(found, func(a, b packages.Error) int {
		return cmp.Or(comparePlaces(a.Pos, b.Pos), strings.Compare(a.Msg, b.Msg))
	})
	// Those without a place follow from others, if there are others.
	if slices.ContainsFunc(found, hasPlace) {
		found = slices.DeleteFunc(found, func(err packages.Error) bool { return !hasPlace(err) })
	}
	var errs []error
	for _, err := range slices.Compact(found) {
		errs = append(errs, t.describe(err))
	}
	return errors.Join(errs...)
}

func hasPlace(err packages.Error) bool { return !strings.HasSuffix(err.Pos, ":-") }

// comparePlaces compares places of the form file:line:column, by number.
func comparePlaces(a, b string) int {
	as, bs := strings.Split(a, ":"), strings.Split(b, ":")
	for i := range min(len(as), len(bs)) {
		if order := cmp.Or(cmp.Compare(len(as[i]), len(bs[i])), strings.Compare(as[i], bs[i])); order != 0 {
			return order
		}
	}
	return cmp.Compare(len(as), len(bs))
}

// describe returns a mistake with its place.
func (t *typeSet) describe(err packages.Error) error {
	place := err.Pos
	if relative, e := filepath.Rel(t.dir, place); e == nil && filepath.IsAbs(place) && !strings.HasPrefix(relative, "..") {
		place = relative
	}
	text, _, _ := strings.Cut(err.Msg, " (at <input>:") // the place in a marker
	return fmt.Errorf("%s: %s", place, text)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
