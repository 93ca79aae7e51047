package generate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// This file finds calls that pass a value without a codec to the SDK, in plugins that
// do not contain encoding/json. Such a call fails when it runs. It starts from the
// functions of the SDK and follows values backwards, to arguments of functions of the
// author's module and to type arguments of generic functions, until it finds a
// value of a certain type. Where the type is not certain the call is accepted.

// sink is where a value is encoded or decoded.
type sink struct {
	name    string // of the function of the SDK, such as Run.Apply
	decodes bool   // into the value, and otherwise encodes it
}

// warmSink is the name of the field of [sdk.Controller] whose elements are encoded when
// the plugin is loaded.
const warmSink = "Warm"

// paramSink is a parameter that a function passes to a sink, itself or, if each is
// set, its elements.
type paramSink struct {
	sink
	param int
	each  bool
}

// typeSink is a type that a generic function passes to a sink. It contains the
// function's type parameters.
type typeSink struct {
	sink
	typ types.Type
}

// callChecker checks the calls of one plugin.
type callChecker struct {
	*loader
	packages []*checked

	// The sinks that were found so far, by the full name of a function of the author's
	// module: a function has a different *types.Func in each package that is checked.
	params map[string][]paramSink
	types  map[string][]typeSink
	grown  bool // there are new ones in this pass

	// What is being visited. function is nil outside of functions.
	pkg      *checked
	function *ast.FuncDecl
	origins  map[types.Object]*origin // of the variables of function

	refused []refusal
}

// origin is where the value of a variable of a function comes from.
type origin struct {
	param   int      // the index of the parameter that it is
	from    ast.Expr // if it is not a parameter: what it is initialized with
	each    bool     // it is an element of from
	changed bool     // it may have another value too
}

// checkCalls checks the calls of those plugins among the packages that do not contain
// encoding/json.
func (l *loader) checkCalls(packages []*listed) error {
	for _, p := range packages {
		if p.Name != "main" {
			continue // another package of the plugin might register controllers too
		}
		c := &callChecker{loader: l, params: map[string][]paramSink{}, types: map[string][]typeSink{}}
		generatedOnly, err := c.addPlugin(p)
		if err != nil {
			return err
		}
		if !generatedOnly {
			continue
		}
		if c.visitAll(); len(c.refused) > 0 {
			return l.refusedError(l.module[p.ImportPath], c.refused)
		}
	}
	return nil
}

// addPlugin adds the packages of the author's module that a plugin consists of, as far
// as they import the SDK. It reports whether the plugin has generated codecs and
// certainly no encoding/json, which the SDK uses if sdk.Register is called.
func (c *callChecker) addPlugin(main *listed) (generatedOnly bool, err error) {
	for _, path := range append(main.Deps, main.ImportPath) {
		p := c.list[path]
		if p == nil || !slices.Contains(p.Imports, sdkPath) {
			continue
		}
		pkg := c.checked[path]
		if pkg == nil {
			files, err := c.parseWithGenerated(p)
			if err != nil {
				return false, err
			}
			if !p.inModule() { // its types are not known, but it might register controllers
				if slices.ContainsFunc(files, namesRegister) {
					return false, nil
				}
				continue
			}
			pkg = c.check(p, files)
		}
		for _, object := range pkg.info.Uses {
			if named(object, sdkPath, "Register") {
				return false, nil
			}
			generatedOnly = generatedOnly || named(object, sdkPath, "RegisterGenerated")
		}
		c.packages = append(c.packages, pkg)
	}
	return generatedOnly, nil
}

// namesRegister reports whether a file uses the name Register, which may be that of the SDK.
func namesRegister(file *ast.File) bool {
	return contains(file, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && id.Name == "Register"
	})
}

// contains reports whether a node has a descendant for which match returns true.
func contains(root ast.Node, match func(ast.Node) bool) (found bool) {
	ast.Inspect(root, func(n ast.Node) bool {
		found = found || n != nil && match(n)
		return !found
	})
	return found
}

// visitAll visits the packages until no more sinks are found. refused is the result of
// the last pass.
func (c *callChecker) visitAll() {
	for c.grown = true; c.grown; {
		c.grown, c.refused = false, nil
		for _, c.pkg = range c.packages {
			for _, file := range c.pkg.files {
				for _, decl := range file.Decls {
					c.function, _ = decl.(*ast.FuncDecl)
					c.origins = c.pkg.origins(c.function)
					ast.Inspect(decl, func(n ast.Node) bool { c.visit(n); return true })
				}
			}
		}
	}
}

// visit checks the values that a node passes to a sink.
func (c *callChecker) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		for _, a := range c.sinkArguments(n) {
			c.checkValue(a.value, a.sink, a.each)
		}
	case *ast.Ident:
		c.checkInstance(n)
	case *ast.KeyValueExpr:
		for _, value := range c.pkg.warmElements(n) {
			c.checkValue(value, sink{name: warmSink}, false)
		}
	}
}

// argument is a value that is passed to a sink, itself or its elements.
type argument struct {
	sink
	value ast.Expr
	each  bool
}

// sinkArguments returns the arguments of a call that are passed to a sink.
func (c *callChecker) sinkArguments(call *ast.CallExpr) (arguments []argument) {
	f := c.pkg.callee(call)
	if f == nil {
		return nil
	}
	sinks := c.params[f.Origin().FullName()]
	if s, param, ok := sdkCall(f); ok {
		sinks = []paramSink{{sink: s, param: param}}
	}
	for _, s := range sinks {
		values, each := call.Args[min(s.param, len(call.Args)):min(s.param+1, len(call.Args))], s.each
		if each && f.Signature().Variadic() && !call.Ellipsis.IsValid() {
			values, each = call.Args[min(s.param, len(call.Args)):], false
		}
		for _, value := range values {
			arguments = append(arguments, argument{s.sink, ast.Unparen(value), each})
		}
	}
	return arguments
}

// checkValue checks a value that is passed to a sink, or, if each is set, the elements
// of the value. Of an interface the type is certain if the value is a conversion or a
// variable that is assigned once. The type of a parameter is that of the arguments.
func (c *callChecker) checkValue(value ast.Expr, s sink, each bool) {
	value = ast.Unparen(value)
	t := c.pkg.info.TypeOf(value)
	_, isTuple := t.(*types.Tuple) // the results of a call, which are all arguments
	_, isTypeParam := t.(*types.TypeParam)
	switch {
	case t == nil || isTuple:
		return
	case !each && (isTypeParam || !types.IsInterface(t)):
		c.checkType(t, value.Pos(), s)
		return
	}
	switch value := value.(type) {
	case *ast.CompositeLit: // of a slice
		for _, element := range value.Elts {
			if keyed, ok := element.(*ast.KeyValueExpr); ok {
				element = keyed.Value
			}
			c.checkValue(element, s, false)
		}
	case *ast.CallExpr:
		if c.pkg.info.Types[value.Fun].IsType() && len(value.Args) == 1 {
			c.checkValue(value.Args[0], s, each)
		}
	case *ast.Ident:
		v := c.pkg.info.Uses[value]
		o := c.origins[v]
		switch {
		case o == nil || o.changed || each && o.each:
		case o.from != nil:
			c.checkValue(o.from, s, each || o.each)
		default:
			c.addParam(v, paramSink{s, o.param, each})
		}
	}
}

// origins returns the origins of the variables of a function.
func (c *checked) origins(f *ast.FuncDecl) map[types.Object]*origin {
	all := map[types.Object]*origin{}
	if f == nil || f.Body == nil {
		return all
	}
	define := func(name ast.Expr, o origin) {
		if v := c.info.Defs[identOf(name)]; v != nil {
			all[v] = &o
		}
	}
	change := func(target ast.Expr) {
		for index, ok := target.(*ast.IndexExpr); ok; index, ok = target.(*ast.IndexExpr) {
			target = index.X
		}
		if o := all[c.info.Uses[identOf(target)]]; o != nil {
			o.changed = true
		}
	}
	param := 0
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			define(name, origin{param: param})
			param++
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i := 0; i < len(n.Names) && len(n.Names) == len(n.Values); i++ {
				define(n.Names[i], origin{from: n.Values[i]})
			}
		case *ast.AssignStmt:
			for i, target := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					define(target, origin{from: n.Rhs[i]})
				}
				change(target)
			}
		case *ast.RangeStmt:
			define(n.Value, origin{from: n.X, each: true})
			change(n.Value)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				change(n.X)
			}
		}
		return true
	})
	return all
}

// addParam adds a parameter of the visited function to the sinks. It does not if the
// function uses the parameter in any other way: it might look at the type of the value
// and pass it on only if that has a codec.
func (c *callChecker) addParam(v types.Object, s paramSink) {
	name := c.functionName()
	if !slices.Contains(c.params[name], s) && c.onlyPassed(v) {
		c.params[name] = append(c.params[name], s)
		c.grown = true
	}
}

// functionName returns the full name of the visited function.
func (c *callChecker) functionName() string {
	if f, ok := c.pkg.info.Defs[c.function.Name].(*types.Func); ok {
		return f.FullName()
	}
	return ""
}

// onlyPassed reports whether the visited function uses a variable only as an argument
// for a sink, or to loop over elements for which that is true.
func (c *callChecker) onlyPassed(v types.Object) bool {
	isV := func(e ast.Expr) bool { return c.pkg.info.Uses[identOf(e)] == v }
	uses, passed := 0, 0
	ast.Inspect(c.function.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			for _, a := range c.sinkArguments(n) {
				if isV(a.value) {
					passed++
				}
			}
		case *ast.RangeStmt:
			element := c.pkg.info.Defs[identOf(n.Value)]
			if isV(n.X) && element != nil && c.onlyPassed(element) {
				passed++
			}
		case *ast.Ident:
			if isV(n) {
				uses++
			}
		}
		return true
	})
	return uses == passed
}

// identOf returns e as an identifier, or nil.
func identOf(e ast.Expr) *ast.Ident {
	id, _ := ast.Unparen(e).(*ast.Ident)
	return id
}

// checkType checks the type of a value that is passed to a sink. If it is a type
// parameter of the visited function, or consists of one, the type arguments are checked
// instead.
func (c *callChecker) checkType(t types.Type, pos token.Pos, s sink) {
	switch {
	case typeParamIn(t) == nil:
		if reason := c.noCodec(t, s); reason != "" {
			c.refused = append(c.refused, refusal{place{pos, s.name}, t, reason})
		}
	case c.function != nil && !contains(c.function, isTypeAssertion):
		name := c.functionName()
		known := func(other typeSink) bool { return other.sink == s && types.Identical(other.typ, t) }
		if !slices.ContainsFunc(c.types[name], known) {
			c.types[name] = append(c.types[name], typeSink{s, t})
			c.grown = true
		}
	}
}

// isTypeAssertion reports whether a node is a type assertion or a type switch. A
// function with one might pass only values that have a codec.
func isTypeAssertion(n ast.Node) bool { _, ok := n.(*ast.TypeAssertExpr); return ok }

// checkInstance checks the type arguments of a generic function, or of the generic type
// that a method belongs to, where its name is used.
func (c *callChecker) checkInstance(name *ast.Ident) {
	f, ok := c.pkg.info.Uses[name].(*types.Func)
	if !ok {
		return
	}
	arguments := c.pkg.info.Instances[name].TypeArgs
	if receiver := f.Signature().Recv(); receiver != nil {
		if n, ok := types.Unalias(deref(receiver.Type())).(*types.Named); ok {
			arguments = n.TypeArgs()
		}
	}
	for _, s := range c.types[f.Origin().FullName()] {
		t := substitute(s.typ, arguments)
		if t == nil || !s.decodes && typeParamIn(t) == nil && types.IsInterface(t) {
			continue // the values may have any type
		}
		c.checkType(t, name.Pos(), s.sink)
	}
}
