package generate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// This file finds calls that pass a value without a codec to the SDK, in plugins that
// do not contain encoding/json. Such a call fails when it runs.
//
// The type of a value is that of its expression. If that is an interface, the value is
// followed backwards to expressions of other types, and if it has a type parameter, to the
// type arguments. Only where nothing can come between is it followed: through variables
// and parameters that are used once, besides being passed to sinks, and through generic
// functions without type assertion.

// sink is where a value is encoded or decoded: a function of the SDK, or Warm.
type sink struct {
	name    string // such as Run.Apply
	param   int    // the index of the parameter that the value is passed as
	decodes bool   // JSON is read into the value; otherwise the value is encoded
}

// sinks are the functions of the SDK, by full name.
var sinks = map[string]sink{
	methodOfRun + "Get":     {"Run.Get", 1, true},
	methodOfRun + "List":    {"Run.List", 1, true},
	methodOfRun + "Config":  {"Run.Config", 0, true},
	methodOfRun + "Memo":    {"Run.Memo", 0, true},
	methodOfRun + "Apply":   {"Run.Apply", 0, false},
	methodOfRun + "Patch":   {"Run.Patch", 0, false},
	methodOfRun + "SetMemo": {"Run.SetMemo", 0, false},

	methodOfRun + "Progress":    {"Run.Progress", 0, true},
	methodOfRun + "SetProgress": {"Run.SetProgress", 0, false},
	methodOfIndexing + "Object": {"Indexing.Object", 0, true},
	methodOfIndexing + "Config": {"Indexing.Config", 0, true},
	methodOfIndexing + "Add":    {"Indexing.Add", 1, false},

	methodOfStep + "Get":    {"Step.Get", 1, true},
	methodOfStep + "List":   {"Step.List", 1, true},
	methodOfStep + "Config": {"Step.Config", 0, true},
	methodOfStep + "Signal": {"Step.Signal", 0, false},

	methodOfScanning + "Get":    {"Scanning.Get", 1, true},
	methodOfScanning + "List":   {"Scanning.List", 1, true},
	methodOfScanning + "Config": {"Scanning.Config", 0, true},
	methodOfScanning + "Signal": {"Scanning.Signal", 2, false},

	methodOfReview + "Get":    {"Review.Get", 1, true},
	methodOfReview + "List":   {"Review.List", 1, true},
	methodOfReview + "Config": {"Review.Config", 0, true},

	sdkPath + ".Decode": {"sdk.Decode", 1, true},
	sdkPath + ".Encode": {"sdk.Encode", 0, false},
}

const (
	methodOfRun      = "(*" + sdkPath + ".Run)."
	methodOfStep     = "(*" + sdkPath + ".Step)."
	methodOfReview   = "(*" + sdkPath + ".Review)."
	methodOfScanning = "(*" + sdkPath + ".Scanning)."
	methodOfIndexing = "(*" + sdkPath + ".Indexing)."
)

// warmSink is the field Warm of [sdk.Controller], whose elements are encoded when the
// plugin is loaded.
var warmSink = sink{name: "Warm"}

// stateSink is the state of [sdk.Daemon], which is decoded before each step and encoded after it. It
// is a type argument, and no value.
var stateSink = sink{name: "sdk.Daemon", decodes: true}

// versionSink is the spec and the status of [sdk.Version], which are type arguments, too.
var versionSink = sink{name: "sdk.Version", decodes: true}

// passed returns the values that a node passes to a sink: the argument of a call, or the
// elements of a list for Warm.
func (c *checked) passed(n ast.Node) ([]ast.Expr, sink) {
	switch n := n.(type) {
	case *ast.CallExpr:
		f := c.callee(n)
		if f == nil {
			break
		}
		if s, ok := sinks[f.FullName()]; ok && s.param < len(n.Args) {
			return n.Args[s.param : s.param+1], s
		}
	case *ast.KeyValueExpr:
		key, _ := n.Key.(*ast.Ident)
		field, _ := c.info.Uses[key].(*types.Var)
		list, isList := n.Value.(*ast.CompositeLit)
		if isList && field != nil && field.IsField() && named(field, sdkPath, "Warm") {
			return list.Elts, warmSink
		}
	}
	return nil, sink{}
}

// callee returns the function or method that a call calls, or nil if that is not a
// declared one.
func (c *checked) callee(call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	switch f := fun.(type) { // of a generic function
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	if selector, ok := fun.(*ast.SelectorExpr); ok {
		if s := c.info.Selections[selector]; s != nil && s.Kind() == types.MethodExpr {
			return nil // the receiver is an argument
		}
		fun = selector.Sel
	}
	called, _ := c.info.Uses[identOf(fun)].(*types.Func)
	return called
}

// identOf returns e as an identifier, or nil.
func identOf(e ast.Expr) *ast.Ident {
	id, _ := ast.Unparen(e).(*ast.Ident)
	return id
}

// callChecker checks the calls of one plugin.
type callChecker struct {
	*loader
	main *types.Package

	generated    bool // a controller is registered by sdk.RegisterGenerated
	encodingJSON bool // one may be registered by sdk.Register, which uses encoding/json

	// from has the values that a variable or parameter gets, as far as they are known.
	from map[types.Object][]source
	// otherUses is the number of uses of a variable or parameter that do not pass it to a
	// sink.
	otherUses map[types.Object]int
	// instances has the uses of the generic function or type to which a type parameter
	// belongs.
	instances map[*types.TypeParam][]instance
	// unfollowed are the type parameters whose type arguments are not looked at: those of
	// functions with a type assertion, and those that are being followed.
	unfollowed map[*types.TypeParam]bool

	refused []refusal
}

// source is a value that a variable gets.
type source struct {
	value ast.Expr
	depth int // 1 if the variable is an element of the value, -1 if the value is one of the variable
}

// instance is a use of a generic function, or of a method of a generic type.
type instance struct {
	arguments *types.TypeList
	pos       token.Pos
}

// checkCalls checks the calls of those plugins among the packages that do not contain
// encoding/json.
func (l *loader) checkCalls(packages []*listed) error {
	for _, p := range packages {
		if p.Name != "main" {
			continue // another package of the plugin might register controllers too
		}
		c := &callChecker{
			loader: l, main: l.checked[p.ImportPath].types,
			from: map[types.Object][]source{}, otherUses: map[types.Object]int{},
			instances: map[*types.TypeParam][]instance{}, unfollowed: map[*types.TypeParam]bool{},
		}
		plugin, err := c.packages(p)
		if err != nil {
			return err
		}
		inspect(plugin, c.collect)
		if !c.generated || c.encodingJSON {
			continue
		}
		inspect(plugin, c.visit)
		if len(c.refused) > 0 {
			return l.refusedError(c.main, c.refused)
		}
	}
	return nil
}

// packages returns the packages that a plugin consists of: those of the author's module,
// and the sources of those of other modules that use the SDK. The SDK is not one of them: its
// methods that pass a value on to others of it are sinks themselves.
func (c *callChecker) packages(main *listed) (plugin []*checked, err error) {
	for _, path := range append(main.Deps, main.ImportPath) {
		pkg, p := c.checked[path], c.list[path]
		if pkg == nil && p != nil && !p.inModule() && slices.Contains(p.Imports, sdkPath) {
			files, err := c.parse(p)
			if err != nil {
				return nil, err
			}
			pkg = &checked{listed: p, files: files, info: c.info}
		}
		if pkg != nil && path != sdkPath {
			plugin = append(plugin, pkg)
		}
	}
	return plugin, nil
}

// inspect calls visit for all nodes of packages.
func inspect(packages []*checked, visit func(*checked, ast.Node)) {
	for _, pkg := range packages {
		for _, file := range pkg.files {
			for n := range ast.Preorder(file) {
				visit(pkg, n)
			}
		}
	}
}

// collect collects what a node says about variables and type parameters, and how
// controllers are registered.
func (c *callChecker) collect(pkg *checked, n ast.Node) {
	values, _ := pkg.passed(n)
	for _, value := range values {
		if v := c.info.Uses[identOf(value)]; v != nil {
			c.otherUses[v]--
		}
	}
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i := 0; i < len(n.Names) && len(n.Names) == len(n.Values); i++ {
			c.define(c.info.Defs[n.Names[i]], n.Values[i], 0)
		}
	case *ast.AssignStmt:
		for i := 0; i < len(n.Lhs) && len(n.Lhs) == len(n.Rhs); i++ {
			c.define(c.info.Defs[identOf(n.Lhs[i])], n.Rhs[i], 0)
		}
	case *ast.RangeStmt:
		c.define(c.info.Defs[identOf(n.Value)], n.X, 1)
	case *ast.CallExpr:
		c.collectArguments(pkg.callee(n), n)
	case *ast.FuncDecl:
		if f, ok := c.info.Defs[n.Name].(*types.Func); ok && hasTypeAssertion(n) {
			for p := range typeParams(f).TypeParams() {
				c.unfollowed[p] = true
			}
		}
	case *ast.Ident:
		c.collectUse(pkg, n)
	}
}

// define records a value of a variable. v is nil if the variable is declared elsewhere.
func (c *callChecker) define(v types.Object, value ast.Expr, depth int) {
	if v != nil {
		c.from[v] = append(c.from[v], source{value, depth})
	}
}

// collectArguments records the values of the parameters of a function. f is nil if it is
// not known. The call may not compile.
func (c *callChecker) collectArguments(f *types.Func, call *ast.CallExpr) {
	if f == nil || f.Origin().Signature().Params().Len() == 0 {
		return
	}
	signature := f.Origin().Signature()
	last := signature.Params().Len() - 1
	for i, value := range call.Args {
		depth := 0
		if i >= last && signature.Variadic() && !call.Ellipsis.IsValid() {
			depth = -1
		}
		c.define(signature.Params().At(min(i, last)), value, depth)
	}
}

// hasTypeAssertion reports whether a function has a type assertion or a type switch. It
// might pass only values that have a codec.
func hasTypeAssertion(f *ast.FuncDecl) bool {
	for n := range ast.Preorder(f) {
		if _, ok := n.(*ast.TypeAssertExpr); ok {
			return true
		}
	}
	return false
}

// collectUse records the use of a variable, of a generic function or of the SDK. In a
// package of another module the name Register may be that of the SDK.
func (c *callChecker) collectUse(pkg *checked, name *ast.Ident) {
	object := c.info.Uses[name]
	c.otherUses[object]++
	c.generated = c.generated || named(object, sdkPath, "RegisterGenerated")
	c.encodingJSON = c.encodingJSON || named(object, sdkPath, "Register") || !pkg.inModule() && name.Name == "Register"
	f, ok := object.(*types.Func)
	if !ok {
		return
	}
	arguments := c.info.Instances[name].TypeArgs
	if receiver := f.Signature().Recv(); receiver != nil {
		if n, ok := types.Unalias(deref(receiver.Type())).(*types.Named); ok {
			arguments = n.TypeArgs()
		}
	}
	params := typeParams(f)
	for i := range min(params.Len(), arguments.Len()) {
		c.instances[params.At(i)] = append(c.instances[params.At(i)], instance{arguments, name.Pos()})
	}
}

// typeParams returns the type parameters of a generic function, or those that a method of
// a generic type has for its receiver.
func typeParams(f *types.Func) *types.TypeParamList {
	s := f.Origin().Signature()
	if s.Recv() != nil {
		return s.RecvTypeParams()
	}
	return s.TypeParams()
}

// visit checks the values that a node passes to a sink.
func (c *callChecker) visit(pkg *checked, n ast.Node) {
	if name, ok := n.(*ast.Ident); ok && named(c.info.Uses[name], sdkPath, "Daemon") {
		if arguments := c.info.Instances[name].TypeArgs; arguments.Len() > 0 {
			c.checkType(arguments.At(0), name.Pos(), stateSink)
		}
	}
	if name, ok := n.(*ast.Ident); ok && named(c.info.Uses[name], sdkPath, "Version") {
		if arguments := c.info.Instances[name].TypeArgs; arguments.Len() > 1 {
			c.checkType(arguments.At(0), name.Pos(), versionSink)
			c.checkType(arguments.At(1), name.Pos(), versionSink)
		}
	}
	values, s := pkg.passed(n)
	for _, value := range values {
		for _, e := range c.origins(value, 0, 0) {
			c.checkType(c.info.TypeOf(e), e.Pos(), s)
		}
	}
}

// origins returns the expressions of certain types whose values e may have, or, if depth
// is 1, the elements of e, and so on. otherUses is how often a variable in the place of e is
// used without passing it to a sink: never if e is passed itself, and once if e is a value
// on the way.
func (c *callChecker) origins(e ast.Expr, depth, otherUses int) (all []ast.Expr) {
	if depth == 0 && !isInterface(c.info.TypeOf(e)) {
		return []ast.Expr{e}
	}
	var from []source
	switch e := ast.Unparen(e).(type) {
	case *ast.CompositeLit:
		for _, element := range e.Elts {
			if keyed, ok := element.(*ast.KeyValueExpr); ok {
				element = keyed.Value
			}
			from = append(from, source{element, -1})
		}
	case *ast.CallExpr:
		if c.info.Types[e.Fun].IsType() && len(e.Args) == 1 { // a conversion
			from = []source{{e.Args[0], 0}}
		}
	case *ast.Ident:
		if v := c.info.Uses[e]; c.otherUses[v] == otherUses {
			from = c.from[v]
			delete(c.from, v) // a recursive function passes a parameter to itself
		}
	}
	for _, s := range from {
		all = append(all, c.origins(s.value, depth+s.depth, 1)...)
	}
	return all
}

// isInterface reports whether a value of the type may have any other type.
func isInterface(t types.Type) bool {
	_, isTypeParam := t.(*types.TypeParam)
	return t != nil && !isTypeParam && types.IsInterface(t)
}

// checkType checks the type of a value that is passed to a sink. If it has a type
// parameter, the type arguments are checked instead.
func (c *callChecker) checkType(t types.Type, pos token.Pos, s sink) {
	var param *types.TypeParam
	substitute(t, func(p *types.TypeParam) types.Type { param = p; return p })
	switch {
	case param == nil:
		if reason := c.noCodec(t, s); reason != "" {
			c.refused = append(c.refused, refusal{place{pos, s.name}, t, reason})
		}
	case !c.unfollowed[param]:
		c.unfollowed[param] = true
		for _, i := range c.instances[param] {
			argument := func(p *types.TypeParam) types.Type { return i.arguments.At(p.Index()) }
			c.checkType(substitute(t, argument), i.pos, s)
		}
		c.unfollowed[param] = false
	}
}

// substitute returns a type with others in place of the type parameters that it consists
// of. Only pointers, slices and maps are looked into: no other type that consists of one
// has a codec.
func substitute(t types.Type, argument func(*types.TypeParam) types.Type) types.Type {
	switch u := types.Unalias(t).(type) {
	case *types.TypeParam:
		return argument(u)
	case *types.Pointer:
		return types.NewPointer(substitute(u.Elem(), argument))
	case *types.Slice:
		return types.NewSlice(substitute(u.Elem(), argument))
	case *types.Map:
		return types.NewMap(substitute(u.Key(), argument), substitute(u.Elem(), argument))
	}
	return t
}
