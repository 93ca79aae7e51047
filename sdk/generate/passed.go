package generate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// This file finds what is passed to the SDK: the values that become a sdk.Value, and the
// type arguments of which the SDK makes one.

// passed is a type of which a value is passed to the SDK, and where.
type passed struct {
	place // its path is the function that gets the value, such as Run.Apply
	typ   types.Type
}

const value = "sdk.Value"

// isValue reports whether a type is sdk.Value.
func isValue(t types.Type) bool { return named(object(t), sdkPath, "Value") }

// passed calls found for all that a package passes to the SDK.
func (c *checked) passed(found func(passed)) {
	p := passes{c, found}
	for _, file := range c.files {
		ast.PreorderStack(file, nil, func(n ast.Node, around []ast.Node) bool {
			p.visit(n, around)
			return true
		})
	}
}

type passes struct {
	*checked
	found func(passed)
}

// visit looks at all places where the language converts a value to the type of a variable,
// parameter, result, field or element.
func (p passes) visit(n ast.Node, around []ast.Node) {
	switch n := n.(type) {
	case *ast.Ident:
		p.typeArguments(n)
	case *ast.CallExpr:
		p.call(n)
	case *ast.ValueSpec:
		if n.Type != nil {
			p.each(n.Values, value, func(int) types.Type { return p.info.TypeOf(n.Type) })
		}
	case *ast.AssignStmt:
		p.each(n.Rhs, value, func(i int) types.Type { return p.info.TypeOf(n.Lhs[min(i, len(n.Lhs)-1)]) })
	case *ast.ReturnStmt:
		if results := p.resultsOf(around); results != nil {
			p.each(n.Results, value, func(i int) types.Type { return results.At(min(i, results.Len()-1)).Type() })
		}
	case *ast.SendStmt:
		if channel, ok := typeOf[*types.Chan](p.info, n.Chan); ok {
			p.convert(channel.Elem(), n.Value, value)
		}
	case *ast.RangeStmt:
		p.rangeOver(n)
	case *ast.CompositeLit:
		p.literal(n)
	case *ast.TypeAssertExpr:
		if n.Type != nil {
			p.convert(p.info.TypeOf(n.Type), n.X, value)
		}
	case *ast.CaseClause: // of a type switch
		for _, t := range n.List {
			if p.info.Types[t].IsType() && isValue(p.info.TypeOf(t)) {
				p.add(types.Universe.Lookup("any").Type(), t.Pos(), value)
			}
		}
	}
}

func (p passes) add(t types.Type, pos token.Pos, to string) {
	if t != nil {
		p.found(passed{place{pos, to}, t})
	}
}

// convert looks at an expression that gets a type.
func (p passes) convert(target types.Type, e ast.Expr, to string) {
	if target != nil && isValue(target) {
		p.add(p.info.TypeOf(e), e.Pos(), to)
	}
}

// each looks at expressions that get a type each. One alone may be a call with several results.
func (p passes) each(list []ast.Expr, to string, target func(i int) types.Type) {
	if len(list) == 1 {
		if results, ok := p.info.TypeOf(list[0]).(*types.Tuple); ok {
			for i := range results.Len() {
				if t := target(i); t != nil && isValue(t) {
					p.add(results.At(i).Type(), list[0].Pos(), to)
				}
			}
			return
		}
	}
	for i, e := range list {
		p.convert(target(i), e, to)
	}
}

// call looks at the arguments of a call, or at a conversion.
func (p passes) call(n *ast.CallExpr) {
	if p.info.Types[n.Fun].IsType() {
		p.each(n.Args, value, func(int) types.Type { return p.info.TypeOf(n.Fun) })
		return
	}
	signature, ok := typeOf[*types.Signature](p.info, n.Fun)
	if !ok || signature.Params().Len() == 0 {
		return
	}
	last := signature.Params().Len() - 1
	p.each(n.Args, p.nameOf(n.Fun), func(i int) types.Type {
		t := signature.Params().At(min(i, last)).Type()
		if list, ok := t.Underlying().(*types.Slice); ok && i >= last && signature.Variadic() && !n.Ellipsis.IsValid() {
			return list.Elem()
		}
		return t
	})
}

// nameOf returns the name of a function: Run.Apply for a method, and sdk.Encode for another one.
func (p passes) nameOf(fun ast.Expr) string {
	switch f := ast.Unparen(fun).(type) {
	case *ast.IndexExpr:
		return p.nameOf(f.X)
	case *ast.IndexListExpr:
		return p.nameOf(f.X)
	case *ast.SelectorExpr:
		return p.nameOf(f.Sel)
	case *ast.Ident:
		if called, ok := p.info.Uses[f].(*types.Func); ok {
			return functionName(called)
		}
	}
	return value
}

func functionName(f *types.Func) string {
	if receiver := f.Signature().Recv(); receiver != nil {
		if declared := object(deref(receiver.Type())); declared != nil {
			return declared.Name() + "." + f.Name()
		}
	}
	if f.Pkg() == nil {
		return f.Name()
	}
	return f.Pkg().Name() + "." + f.Name()
}

// resultsOf returns the results of the innermost function.
func (p passes) resultsOf(around []ast.Node) *types.Tuple {
	for _, n := range slices.Backward(around) {
		var t types.Type
		switch f := n.(type) {
		case *ast.FuncLit:
			t = p.info.TypeOf(f)
		case *ast.FuncDecl:
			if declared := p.info.Defs[f.Name]; declared != nil {
				t = declared.Type()
			}
		default:
			continue
		}
		if signature, ok := t.(*types.Signature); ok && signature.Results().Len() > 0 {
			return signature.Results()
		}
		return nil
	}
	return nil
}

// rangeOver looks at a loop that assigns elements to variables declared before.
func (p passes) rangeOver(n *ast.RangeStmt) {
	if n.Tok != token.ASSIGN || n.Value == nil || !isValue(p.info.TypeOf(n.Value)) {
		return
	}
	if list, ok := p.info.TypeOf(n.X).Underlying().(interface{ Elem() types.Type }); ok {
		p.add(list.Elem(), n.X.Pos(), value)
	} else {
		p.add(types.Universe.Lookup("any").Type(), n.X.Pos(), value)
	}
}

// literal looks at the fields or elements of a composite literal.
func (p passes) literal(n *ast.CompositeLit) {
	t := p.info.TypeOf(n)
	if t == nil {
		return
	}
	for i, e := range n.Elts {
		key, element := ast.Expr(nil), e
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			key, element = pair.Key, pair.Value
		}
		switch t := deref(t).Underlying().(type) {
		case *types.Struct:
			if name := identOf(key); name != nil && p.info.Uses[name] != nil {
				p.convert(p.info.Uses[name].Type(), element, name.Name)
			} else if key == nil && i < t.NumFields() {
				p.convert(t.Field(i).Type(), element, t.Field(i).Name())
			}
		case *types.Map:
			p.convert(t.Key(), key, value)
			p.convert(t.Elem(), element, value)
		case interface{ Elem() types.Type }:
			p.convert(t.Elem(), element, value)
		}
	}
}

// typeArguments looks at the use of a generic function or type, such as sdk.Register.
func (p passes) typeArguments(name *ast.Ident) {
	used, arguments := p.info.Uses[name], p.info.Instances[name].TypeArgs
	params := typeParams(used)
	for i := range min(params.Len(), arguments.Len()) {
		if isValue(params.At(i).Constraint()) {
			p.add(arguments.At(i), name.Pos(), used.Pkg().Name()+"."+used.Name())
		}
	}
}

// typeParams returns the type parameters of a generic function or type.
func typeParams(o types.Object) *types.TypeParamList {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin().Signature().TypeParams()
	case *types.TypeName:
		if t, ok := o.Type().(interface{ TypeParams() *types.TypeParamList }); ok {
			return t.TypeParams()
		}
	}
	return nil
}

// typeOf returns the underlying type of an expression.
func typeOf[T types.Type](info *types.Info, e ast.Expr) (t T, ok bool) {
	if of := info.TypeOf(e); of != nil {
		t, ok = of.Underlying().(T)
	}
	return t, ok
}

// identOf returns e as an identifier, or nil.
func identOf(e ast.Expr) *ast.Ident {
	id, _ := ast.Unparen(e).(*ast.Ident)
	return id
}
