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

	packages map[string]*loader.Package // by path, those that are imported, too
	checked  map[crd.TypeIdent]bool     // whether the schema of a type can be made
	searched map[*loader.Package]bool   // for markers of functions
	refused  []packages.Error           // what the API server would refuse
}

// loadTypes loads the packages that declare the types of the controllers.
func loadTypes(ctx context.Context, at generate.Place, controllers []generate.Controller) (*typeSet, error) {
	paths := map[string]bool{}
	for _, c := range controllers {
		for _, v := range c.Versions {
			paths[v.Spec.Package], paths[v.Status.Package] = true, true
		}
	}
	t := &typeSet{dir: at.Dir, fset: token.NewFileSet(), packages: map[string]*loader.Package{}, checked: map[crd.TypeIdent]bool{}, searched: map[*loader.Package]bool{}}
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
	acceptJSONDefaults(registry)
	t.Parser = &crd.Parser{
		Collector:              &markers.Collector{Registry: registry},
		Checker:                &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
		IgnoreUnexportedFields: true, // encoding/json and `thole generate` do so, too
		AllowDangerousTypes:    true, // floats: a plugin may have them
	}
	crd.AddKnownTypes(t.Parser)
	maps.Copy(t.PackageOverrides, knownPackages())
	for _, root := range roots {
		t.prepare(root)
	}
	for _, root := range roots {
		t.NeedPackage(root)
	}
	return t, nil
}

// prepare changes what controller-tools reads of a package and of those that it imports: fields with omitzero are
// optional, as those with omitempty, and the comments of the SDK are not for users of a kind.
func (t *typeSet) prepare(pkg *loader.Package) {
	if t.packages[pkg.PkgPath] != nil {
		return
	}
	t.packages[pkg.PkgPath] = pkg
	load, known := t.PackageOverrides[pkg.PkgPath]
	if !known {
		load = (*crd.Parser).AddPackage
	}
	t.PackageOverrides[pkg.PkgPath] = func(p *crd.Parser, pkg *loader.Package) {
		load(p, pkg)
		for ident, info := range p.Types {
			if ident.Package == pkg {
				markOmitZero(info)
				if ofSDK(pkg.PkgPath) {
					removeDoc(info)
				}
			}
		}
	}
	for _, imported := range pkg.Imports() {
		t.prepare(imported)
	}
}

// ofSDK reports whether a package is one of those that plugins import.
func ofSDK(path string) bool {
	return path == modulePath+"/abi" || path == modulePath+"/sdk" || strings.HasPrefix(path, modulePath+"/sdk/")
}

func removeDoc(info *markers.TypeInfo) {
	info.Doc = ""
	for i := range info.Fields {
		info.Fields[i].Doc = ""
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
	schema := flattened.DeepCopy()
	crd.EditSchema(schema, completed{})
	return schema
}

// completed adds to a schema what the API server requires beside a marker.
type completed struct{}

func (c completed) Visit(schema *apiextensionsv1.JSONSchemaProps) crd.SchemaVisitor {
	switch {
	case schema == nil:
	case schema.XEmbeddedResource && schema.Type == "": // the JSON of sdk.Raw may be anything
		schema.Type = "object"
	case schema.Items != nil && schema.Items.Schema != nil:
		for _, key := range schema.XListMapKeys {
			addKeyDefault(schema.Items.Schema, key)
		}
	}
	return c
}

// addKeyDefault makes "" the default of a string by which elements of a list are merged, unless it is required or has a
// default: as in Kubernetes, an element without it has that key.
func addKeyDefault(element *apiextensionsv1.JSONSchemaProps, key string) {
	member := element.Properties[key]
	if member.Type == "string" && member.Default == nil && !slices.Contains(element.Required, key) {
		member.Default = &apiextensionsv1.JSON{Raw: []byte(`""`)}
		element.Properties[key] = member
	}
}

// err returns the mistakes in all packages, in the order of their places.
func (t *typeSet) err() error {
	found := t.refused
	for _, pkg := range t.packages {
		for _, err := range pkg.Errors {
			// Of the packages that are imported, not all are loaded, so that types seem to be unknown.
			if err.Kind != packages.TypeError {
				found = append(found, err)
			}
		}
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
