package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// Controller is a controller in the source of a plugin.
type Controller struct {
	Place string // file:line:column of the literal, as in the errors of [Packages]
	Kind  abi.Kind
	// Versions are those that the plugin converts between. The first is that of Kind.
	Versions []Version
}

// Version has the types of the objects of one version of a kind.
type Version struct {
	Name         string // such as v1beta1
	Spec, Status Type
}

// Type is a type that a package declares.
type Type struct{ Package, Name string }

// Controllers returns the controllers that a package and the packages of its module that
// it imports declare: the literals of sdk.Controller that have a kind, whether or not they
// are registered. The package is that in the directory of the place.
func Controllers(ctx context.Context, at Place) ([]Controller, error) {
	var err error
	if at.Dir, err = filepath.Abs(at.Dir); err != nil {
		return nil, err
	}
	l, matched, err := load(ctx, at, []string{"."})
	if err != nil {
		return nil, err
	}
	f := &controllerFinder{loader: l, values: map[types.Object]ast.Expr{}}
	for _, p := range matched {
		if err := l.importSource(p); err != nil {
			return nil, err
		}
		f.find(p.ImportPath)
		if c := l.checked[p.ImportPath]; len(f.found) == 0 && len(f.errs) == 0 && len(c.errs) > 0 {
			return nil, l.compileError(c.errs[0])
		}
	}
	return f.found, errors.Join(f.errs...)
}

// compileError returns an error of the type checker with its place.
func (l *loader) compileError(err error) error {
	if at, ok := errors.AsType[types.Error](err); ok {
		return fmt.Errorf("%s: %s", l.position(at.Pos), at.Msg)
	}
	return err
}

// controllerFinder finds controllers, and the types and values that they have.
type controllerFinder struct {
	*loader
	values   map[types.Object]ast.Expr // of variables, as far as their declarations have one
	versions []versionCall
	found    []Controller
	errs     []error
}

// versionCall is a call of sdk.Version. Its type arguments are the types of the version,
// and those of the controller.
type versionCall struct {
	name      string
	arguments *types.TypeList
}

// find finds the controllers of the main package and of the packages of its module that it
// imports, in an order that depends on nothing but the sources. Their kinds may be declared in
// other modules.
func (f *controllerFinder) find(main string) {
	var packages []*checked
	for path, c := range f.checked {
		if path == main || slices.Contains(f.list[main].Deps, path) {
			packages = append(packages, c)
		}
	}
	slices.SortFunc(packages, func(a, b *checked) int { return cmp.Compare(a.ImportPath, b.ImportPath) })
	inspect(packages, func(_ *checked, n ast.Node) { f.collect(n) })
	inspect(packages, func(in *checked, n ast.Node) {
		if literal, ok := n.(*ast.CompositeLit); ok && in.inModule() {
			f.addController(literal)
		}
	})
}

// collect collects the values of variables, and the calls of sdk.Version.
func (f *controllerFinder) collect(n ast.Node) {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i := 0; i < len(n.Names) && len(n.Names) == len(n.Values); i++ {
			f.values[f.info.Defs[n.Names[i]]] = n.Values[i]
		}
	case *ast.CallExpr:
		name, arguments := f.instance(n.Fun)
		if named(name, sdkPath, "Version") && arguments.Len() == 4 && len(n.Args) > 0 {
			if version, ok := f.text(n.Args[0]); ok {
				f.versions = append(f.versions, versionCall{version, arguments})
			} else {
				f.fail(n.Args[0].Pos(), "the name of the version is not a constant; write it as a string")
			}
		}
	}
}

// instance returns the generic function that an expression instantiates, and the type
// arguments.
func (f *controllerFinder) instance(fun ast.Expr) (types.Object, *types.TypeList) {
	switch indexed := ast.Unparen(fun).(type) {
	case *ast.IndexExpr:
		fun = indexed.X
	case *ast.IndexListExpr:
		fun = indexed.X
	}
	id := identOf(fun)
	if selector, ok := ast.Unparen(fun).(*ast.SelectorExpr); ok {
		id = selector.Sel
	}
	return f.info.Uses[id], f.info.Instances[id].TypeArgs
}

// addController adds the controller of a literal, if it is one with a kind.
func (f *controllerFinder) addController(literal *ast.CompositeLit) {
	t, ok := types.Unalias(f.info.TypeOf(literal)).(*types.Named)
	if !ok || !named(t.Obj(), sdkPath, "Controller") || t.TypeArgs().Len() != 2 {
		return
	}
	kindOf := member(literal, "For")
	_, generic := types.Unalias(t.TypeArgs().At(0)).(*types.TypeParam)
	if kindOf == nil {
		return
	}
	kind, ok := f.kind(kindOf)
	if generic {
		if !ok || strings.Contains(kind.Group(), ".") { // else it is a kind of Kubernetes
			f.fail(literal.Pos(), "the types of the controller are type parameters, so that its kinds are not known here; write the literal sdk.Controller[Spec, Status] with its types, and give that to the function")
		}
		return
	}
	if !ok {
		f.fail(kindOf.Pos(), "the kind is not known before the plugin runs; write For: sdk.Kind{APIVersion: \"example.com/v1\", Kind: \"Example\"}, or a variable of a package with such a value")
		return
	}
	c := Controller{Place: f.position(literal.Pos()), Kind: kind}
	c.Versions = f.addVersion(nil, literal.Pos(), strings.TrimPrefix(kind.APIVersion, kind.Group()+"/"), t.TypeArgs().At(0), t.TypeArgs().At(1))
	for _, v := range f.versions {
		if types.Identical(v.arguments.At(2), t.TypeArgs().At(0)) && types.Identical(v.arguments.At(3), t.TypeArgs().At(1)) {
			c.Versions = f.addVersion(c.Versions, literal.Pos(), v.name, v.arguments.At(0), v.arguments.At(1))
		}
	}
	f.found = append(f.found, c)
}

func (f *controllerFinder) addVersion(versions []Version, pos token.Pos, name string, spec, status types.Type) []Version {
	return append(versions, Version{Name: name, Spec: f.declared(pos, "spec", spec), Status: f.declared(pos, "status", status)})
}

// declared returns the declaration of the type of a spec or status.
func (f *controllerFinder) declared(pos token.Pos, what string, t types.Type) Type {
	n, ok := types.Unalias(t).(*types.Named)
	switch {
	case ok && n.Obj().Pkg() != nil && n.Obj().Parent() == n.Obj().Pkg().Scope() && n.TypeArgs().Len() == 0:
		return Type{n.Obj().Pkg().Path(), n.Obj().Name()}
	case t.Underlying() == types.Typ[types.Invalid]:
		f.fail(pos, "the type of the "+what+" is not known; run `go build` to see why")
	default:
		f.fail(pos, fmt.Sprintf("the type of the %s is %s; declare a struct type for it in a package, without type parameters", what, t))
	}
	return Type{}
}

// kind returns the value of an expression of the type sdk.Kind.
func (f *controllerFinder) kind(e ast.Expr) (kind abi.Kind, ok bool) {
	for range maxVariables {
		switch value := ast.Unparen(e).(type) {
		case *ast.Ident:
			e = f.values[f.info.Uses[value]]
		case *ast.SelectorExpr:
			e = f.values[f.info.Uses[value.Sel]]
		case *ast.CompositeLit:
			version, known := f.text(element(value, 0, "APIVersion"))
			name, alsoKnown := f.text(element(value, 1, "Kind"))
			return abi.Kind{APIVersion: version, Kind: name}, known && alsoKnown
		default:
			return abi.Kind{}, false
		}
	}
	return abi.Kind{}, false
}

// maxVariables is how many variables are followed to their values. Those of a program that
// does not compile may refer to each other.
const maxVariables = 10

// text returns the value of a constant string.
func (f *controllerFinder) text(e ast.Expr) (string, bool) {
	if e == nil || f.info.Types[e].Value == nil || f.info.Types[e].Value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(f.info.Types[e].Value), true
}

// element returns the value of a field in a literal with names or without, or nil.
func element(literal *ast.CompositeLit, index int, name string) ast.Expr {
	if index < len(literal.Elts) {
		if _, hasName := literal.Elts[index].(*ast.KeyValueExpr); !hasName {
			return literal.Elts[index]
		}
	}
	return member(literal, name)
}

// member returns the value of a field in a literal with names, or nil.
func member(literal *ast.CompositeLit, name string) ast.Expr {
	for _, e := range literal.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key := identOf(pair.Key); key != nil && key.Name == name {
				return pair.Value
			}
		}
	}
	return nil
}

func (f *controllerFinder) fail(pos token.Pos, text string) {
	f.errs = append(f.errs, fmt.Errorf("%s: %s", f.position(pos), text))
}
