package crdgen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// This file finds types that controller-tools must not see: it writes a schema that the API
// server refuses for a type that contains itself, and panics at some others.

// check checks a type and those that it consists of. path has the types that lead to it. ok
// is false if a mistake was added that keeps controller-tools from making the schema.
func (t *typeSet) check(ident crd.TypeIdent, path []crd.TypeIdent) (ok bool) {
	if ok, done := t.checked[ident]; done {
		return ok
	}
	t.NeedPackage(ident.Package)
	info := t.Types[ident]
	if _, known := t.Schemata[ident]; known || info == nil {
		return known
	}
	ident.Package.NeedTypesInfo()
	if inMainModule(ident.Package) {
		t.checkMarkers(ident.Package, info)
	}
	c := &typeChecker{typeSet: t, ident: ident, path: append(slices.Clone(path), ident)}
	c.checkDeclaration(info)
	t.checked[ident] = !c.failed
	return !c.failed
}

// typeChecker checks one type.
type typeChecker struct {
	*typeSet
	ident  crd.TypeIdent
	path   []crd.TypeIdent // to the type, which is the last
	failed bool
}

// fail adds a mistake, unless the type is one that the author cannot change: then the field
// that has the type is one.
func (c *typeChecker) fail(node ast.Node, text string) {
	c.failed = true
	if inMainModule(c.ident.Package) {
		c.ident.Package.AddError(loader.ErrFromNode(errors.New(text), node))
	}
}

func (c *typeChecker) checkDeclaration(info *markers.TypeInfo) {
	_, isStruct := info.RawSpec.Type.(*ast.StructType)
	switch {
	case info.Markers.Get("kubebuilder:validation:Type") != nil: // its JSON is not that of its fields
	case c.isForeignBasic(info):
		c.fail(info.RawSpec, "controller-tools cannot follow the alias of a type of another package; use that type itself in the fields")
	case !isStruct:
		c.checkType(info.RawSpec, info.RawSpec.Type)
		c.checkEnum(info.RawSpec, info.RawSpec.Type, info.Markers)
	}
	for i := range info.Fields {
		c.checkField(&info.Fields[i])
	}
}

func (c *typeChecker) checkField(field *markers.FieldInfo) {
	tag, hasTag := field.Tag.Lookup("json")
	switch {
	case field.Name != "" && !ast.IsExported(field.Name), tag == "-":
	case !hasTag && c.isEmbeddedStruct(field): // as in encoding/json
		field.Tag = `json:",inline"`
		c.checkType(field.RawField, field.RawField.Type)
	case !hasTag && field.Name == "":
		c.fail(field.RawField, "the embedded field has no JSON tag; write one such as `json:\"name\"`")
	case !hasTag:
		c.fail(field.RawField, "the field "+field.Name+" has no JSON tag; write one such as `json:\"name\"`")
	case field.Markers.Get("kubebuilder:validation:Schemaless") == nil:
		c.checkType(field.RawField, field.RawField.Type)
		c.checkEnum(field.RawField, field.RawField.Type, field.Markers)
		c.addType(field)
		c.addListType(field)
	}
}

// checkEnum checks that a field or type can have the values of its Enum marker: controller-tools writes any.
func (c *typeChecker) checkEnum(node ast.Node, e ast.Expr, all markers.MarkerValues) {
	values, ok := all.Get("kubebuilder:validation:Enum").(crdmarkers.Enum)
	of := c.ident.Package.TypesInfo.TypeOf(deref(e))
	if !ok || of == nil {
		return
	}
	basic, ok := of.Underlying().(*types.Basic)
	if !ok || all.Get("kubebuilder:validation:Type") != nil {
		return
	}
	for _, value := range values {
		ok := true
		switch v := value.(type) {
		case string:
			ok = basic.Info()&types.IsString != 0
		case bool:
			ok = basic.Info()&types.IsBoolean != 0
		case int, int64:
			ok = basic.Info()&types.IsNumeric != 0
		case float64:
			ok = basic.Info()&types.IsFloat != 0 || basic.Info()&types.IsInteger != 0 && v == float64(int64(v))
		}
		if !ok {
			hint := ""
			if basic.Info()&types.IsString != 0 {
				hint = "; write it in quotes"
			}
			c.fail(node, fmt.Sprintf("the marker kubebuilder:validation:Enum has the value %v, which is no %s%s", value, basic.Name(), hint))
		}
	}
}

// isEmbeddedStruct reports whether the members of a field are those of the struct that it is in.
func (c *typeChecker) isEmbeddedStruct(field *markers.FieldInfo) bool {
	of := c.ident.Package.TypesInfo.TypeOf(deref(field.RawField.Type))
	if field.Name != "" || of == nil {
		return false
	}
	_, isStruct := of.Underlying().(*types.Struct)
	return isStruct
}

// addType adds a marker with the type of a schema to a field that has a type of another
// package. controller-tools needs it for other markers, such as that of a length, and looks
// for it in the same package alone.
func (c *typeChecker) addType(field *markers.FieldInfo) {
	selector, ok := deref(field.RawField.Type).(*ast.SelectorExpr)
	if !ok || c.failed {
		return
	}
	path, _ := c.packageOf(selector)
	of := crd.TypeIdent{Package: c.ident.Package.Imports()[path], Name: selector.Sel.Name}
	c.NeedSchemaFor(of)
	switch schema := c.Schemata[of]; {
	case schema.XIntOrString:
		setMarker(field, "kubebuilder:validation:XIntOrString", crdmarkers.XIntOrString{})
	case schema.Type != "" && schema.Type != "object" && schema.Type != "array":
		setMarker(field, "kubebuilder:validation:Type", crdmarkers.Type(schema.Type))
	}
}

// addListType makes a list of conditions a map by their types, which it is in all kinds of Kubernetes.
func (c *typeChecker) addListType(field *markers.FieldInfo) {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	list, isList := c.ident.Package.TypesInfo.TypeOf(field.RawField.Type).(*types.Slice)
	if name != "conditions" || !isList || field.Markers.Get("listType") != nil {
		return
	}
	of, isNamed := types.Unalias(list.Elem()).(*types.Named)
	if isNamed && of.Obj().Name() == "Condition" && of.Obj().Pkg().Path() == modulePath+"/abi" {
		setMarker(field, "listType", crdmarkers.Map)
		setMarker(field, "listMapKey", crdmarkers.ListMapKey("type"))
	}
}

func deref(e ast.Expr) ast.Expr {
	if star, ok := e.(*ast.StarExpr); ok {
		return star.X
	}
	return e
}

// setMarker adds a marker to a field, unless it has one of that name.
func setMarker(field *markers.FieldInfo, name string, value any) {
	if field.Markers == nil {
		field.Markers = markers.MarkerValues{}
	}
	if field.Markers.Get(name) == nil {
		field.Markers[name] = []any{value}
	}
}

// isForeignBasic reports whether the type is an alias of a string, number or boolean type
// of another package.
func (c *typeChecker) isForeignBasic(info *markers.TypeInfo) bool {
	object := c.ident.Package.TypesInfo.Defs[info.RawSpec.Name]
	if !info.RawSpec.Assign.IsValid() || object == nil {
		return false
	}
	target, isNamed := types.Unalias(object.Type()).(*types.Named)
	if !isNamed || target.Obj().Pkg() == c.ident.Package.Types {
		return false
	}
	_, isBasic := target.Underlying().(*types.Basic)
	return isBasic
}

// checkType checks the type of a field, or what a type is declared as.
func (c *typeChecker) checkType(field ast.Node, e ast.Expr) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		c.checkType(field, e.X)
	case *ast.StarExpr:
		c.checkType(field, e.X)
	case *ast.ArrayType:
		c.checkType(field, e.Elt)
	case *ast.MapType:
		c.checkType(field, e.Value)
	case *ast.Ident:
		switch object := c.ident.Package.TypesInfo.Uses[e]; {
		case object == nil:
			c.fail(field, unknownType)
		case types.IsInterface(object.Type()):
			c.fail(field, noInterface)
		case object.Pkg() != nil:
			c.checkNamed(field, object.Pkg().Path(), e.Name)
		}
	case *ast.SelectorExpr:
		if path, ok := c.packageOf(e); ok {
			c.checkNamed(field, path, e.Sel.Name)
		} else {
			c.fail(field, unknownType)
		}
	case *ast.InterfaceType:
		c.fail(field, noInterface)
	case *ast.StructType:
		c.fail(field, "a struct without a name has no schema; declare a type for it")
	case *ast.IndexExpr, *ast.IndexListExpr:
		c.fail(field, "a type with type parameters has no schema; declare a struct type")
	case *ast.ChanType, *ast.FuncType:
		c.fail(field, "it has no JSON form; leave the field out by `json:\"-\"`")
	}
}

// packageOf returns the path of the package before the name of a type.
func (c *typeChecker) packageOf(e *ast.SelectorExpr) (path string, ok bool) {
	x, _ := e.X.(*ast.Ident)
	name, ok := c.ident.Package.TypesInfo.Uses[x].(*types.PkgName)
	if !ok {
		return "", false
	}
	return name.Imported().Path(), true
}

const (
	unknownType = "the type is not known; run `go build` to see why"
	noInterface = "an interface has no schema; use sdk.Raw, or a struct with the fields that the plugin uses"
)

// checkNamed checks a type that a field refers to.
func (c *typeChecker) checkNamed(field ast.Node, pkg, name string) {
	next := crd.TypeIdent{Package: c.ident.Package, Name: name}
	if pkg != c.ident.Package.PkgPath {
		next.Package = c.ident.Package.Imports()[pkg]
	}
	at := slices.Index(c.path, next)
	switch {
	case next.Package == nil || len(next.Package.CompiledGoFiles) == 0:
		c.fail(field, unknownType)
	case at >= 0:
		c.fail(field, fmt.Sprintf("the type contains itself (%s), and a schema has no references; use sdk.Raw for the field", pathText(append(c.path[at:], next))))
	case c.check(next, c.path):
	case c.isDone(next) && inMainModule(next.Package):
		c.failed = true
	default:
		c.fail(field, fmt.Sprintf("%s.%s has no schema; use sdk.Raw, or a type of your own", next.Package.Name, name))
	}
}

// isDone reports whether a type was found and checked.
func (t *typeSet) isDone(ident crd.TypeIdent) bool {
	_, done := t.checked[ident]
	return done
}

func pathText(path []crd.TypeIdent) string {
	var names []string
	for _, ident := range path {
		names = append(names, ident.Name)
	}
	return strings.Join(names, ", ")
}
