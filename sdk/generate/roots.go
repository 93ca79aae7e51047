package generate

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

const (
	modulePath = "github.com/thole-dev/thole"
	abiPath    = modulePath + "/abi"
	sdkPath    = modulePath + "/sdk"
	codecPath  = sdkPath + "/codec"
)

// needs is what the generated file of a package is for.
type needs struct {
	// roots are the types of the package that get methods, by name, and where each is first
	// passed to the SDK.
	roots map[string]place
	// others are the types of the values that the package passes to the SDK and that get no
	// codec: they are left to encoding/json.
	others []refusal
}

// finder finds what the packages of plugins pass to the SDK.
type finder struct {
	*loader
	packages []*checked
	matched  []*listed
	needs    map[string]*needs // by the path of the package
	params   map[*types.TypeParam]param
	// instances are the uses of a generic function or type.
	instances map[types.Object][]instance
}

// param is a type parameter of a generic function or type. Methods have others for those of
// their type.
type param struct {
	of    types.Object
	index int
}

// instance is a use of a generic function or type.
type instance struct {
	in        *checked
	arguments *types.TypeList
	pos       token.Pos
}

// find returns what each package of the author's module needs: the packages that match and
// those on which they depend. What the SDK itself does with its type parameters is not looked
// at: each of them that matters is a sdk.Value.
func (l *loader) find(matched []*listed) (map[string]*needs, error) {
	f := &finder{
		loader: l, matched: matched, needs: map[string]*needs{},
		params: map[*types.TypeParam]param{}, instances: map[types.Object][]instance{},
	}
	for _, p := range l.order {
		if p.fromSource() && p.ImportPath != sdkPath {
			if _, err := l.Import(p.ImportPath); err != nil {
				return nil, err
			}
			f.packages = append(f.packages, l.checked[p.ImportPath])
		}
	}
	inspect(f.packages, f.collect)
	for _, c := range f.packages {
		c.passed(func(p passed) { f.resolve(c, p, map[types.Object]bool{}) })
	}
	return f.needs, nil
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

// collect collects type parameters and type arguments.
func (f *finder) collect(in *checked, n ast.Node) {
	name, ok := n.(*ast.Ident)
	if !ok {
		return
	}
	if arguments := f.info.Instances[name].TypeArgs; arguments.Len() > 0 {
		used := origin(f.info.Uses[name])
		f.instances[used] = append(f.instances[used], instance{in, arguments, name.Pos()})
	}
	defined := f.info.Defs[name]
	for i := range typeParams(defined).Len() {
		f.params[typeParams(defined).At(i)] = param{defined, i}
	}
	if method, ok := defined.(*types.Func); ok {
		params := method.Signature().RecvTypeParams()
		for i := range params.Len() {
			f.params[params.At(i)] = param{origin(object(deref(method.Signature().Recv().Type()))), i}
		}
	}
}

// origin returns the declaration of a generic function or type.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.TypeName:
		if n, ok := o.Type().(*types.Named); ok {
			return n.Origin().Obj()
		}
	}
	return o
}

// resolve adds what is passed to the SDK. If its type has a type parameter, that is what the
// generic function or type is used with. followed are those on the way.
func (f *finder) resolve(in *checked, p passed, followed map[types.Object]bool) {
	var generic types.Object
	substitute(p.typ, func(t *types.TypeParam) types.Type { generic = f.params[t].of; return t })
	if generic == nil {
		f.add(in, p)
		return
	}
	if followed[generic] {
		return
	}
	followed[generic] = true
	for _, use := range f.instances[generic] {
		argument := func(t *types.TypeParam) types.Type {
			if known := f.params[t]; known.of == generic && known.index < use.arguments.Len() {
				return use.arguments.At(known.index)
			}
			return t
		}
		f.resolve(use.in, passed{place{use.pos, p.path}, substitute(p.typ, argument)}, followed)
	}
	delete(followed, generic)
}

// substitute returns a type with others in place of the type parameters that it consists
// of.
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
	case *types.Named:
		var arguments []types.Type
		for of := range u.TypeArgs().Types() {
			arguments = append(arguments, substitute(of, argument))
		}
		if arguments != nil {
			if with, err := types.Instantiate(nil, u.Origin(), arguments, false); err == nil {
				return with
			}
		}
	}
	return t
}

// add adds a type without type parameters. It must agree with sdk/codec.go.
func (f *finder) add(in *checked, p passed) {
	t := types.Unalias(p.typ)
	if b, ok := t.(*types.Basic); ok && (b.Kind() == types.UntypedNil || b.Kind() == types.Invalid) || isValue(t) || isBytes(t) {
		return
	}
	if types.IsInterface(t) {
		f.leave(in, p, "the types that get here are not known; declare the variable or parameter as sdk.Value, or pass sdk.Raw")
		return
	}
	elem := types.Unalias(deref(t))
	if isPlain(elem) {
		return
	}
	if list, ok := elem.(*types.Slice); ok {
		elem = types.Unalias(list.Elem())
	}
	n, isNamed := elem.(*types.Named)
	switch {
	case isNamed && f.canHaveMethods(n):
		roots := f.of(n.Obj().Pkg().Path()).roots
		if _, known := roots[n.Obj().Name()]; !known {
			roots[n.Obj().Name()] = p.place
		}
	case !isNamed || !hasMethod(types.NewPointer(n), "DecodeJSON") || !hasMethod(n, "AppendJSON"):
		f.leave(in, p, f.remedy(elem))
	}
}

// of returns the needs of a package.
func (f *finder) of(path string) *needs {
	if f.needs[path] == nil {
		f.needs[path] = &needs{roots: map[string]place{}}
	}
	return f.needs[path]
}

// leave leaves a type to encoding/json. What a package of another module passes to the SDK
// is up to the packages that depend on it.
func (f *finder) leave(in *checked, p passed, reason string) {
	left := refusal{place: p.place, typ: p.typ, reason: reason}
	for _, m := range f.matched {
		if slices.Contains(m.Deps, in.ImportPath) && !in.inModule() {
			f.of(m.ImportPath).leave(left)
		}
	}
	if in.inModule() {
		f.of(in.ImportPath).leave(left)
	}
}

// leave adds a type that is left to encoding/json, once for each place.
func (n *needs) leave(left refusal) {
	if !slices.ContainsFunc(n.others, func(r refusal) bool { return r.pos == left.pos && types.Identical(r.typ, left.typ) }) {
		n.others = append(n.others, left)
	}
}

// canHaveMethods reports whether methods of the type can be generated.
func (f *finder) canHaveMethods(t *types.Named) bool {
	switch t.Underlying().(type) {
	case *types.Interface, *types.Pointer:
		return false
	}
	p := t.Obj().Pkg()
	return p != nil && p.Path() != sdkPath && f.isInModule(p) && t.Obj().Parent() == p.Scope() && t.TypeParams().Len() == 0
}

// remedy returns which type to use instead of one without codec.
func (f *finder) remedy(t types.Type) string {
	declared := object(t)
	switch {
	case declared == nil || declared.Pkg() == nil || declared.Pkg().Path() == sdkPath || !f.isInModule(declared.Pkg()):
		return "declare a struct type for it, with the fields that the plugin uses"
	case types.Unalias(t).(*types.Named).TypeArgs().Len() > 0:
		return "declare a struct type without type parameters"
	default:
		return "declare the type outside of the function"
	}
}

// The types that the SDK reads and writes without a codec; see sdk.Value.
var plainTypes = []types.Type{
	types.Typ[types.String], types.Typ[types.Bool], types.Typ[types.Int], types.Typ[types.Int64], types.NewStruct(nil, nil),
	types.NewSlice(types.Typ[types.String]), types.NewMap(types.Typ[types.String], types.Typ[types.String]),
}

func isPlain(t types.Type) bool { return isRaw(t) || containsType(plainTypes, t) }

func isBytes(t types.Type) bool {
	return types.Identical(t, types.NewSlice(types.Typ[types.Byte]))
}

// hasMethod reports whether a value of the type has a method, of its own or promoted
// from an embedded type.
func hasMethod(t types.Type, name string) bool {
	found, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
	_, ok := found.(*types.Func)
	return ok
}

// Marks in the comment of a type declaration.
const (
	markGenerate = "//thole:generate"
	markCompact  = "//thole:compact"
)

// marks returns the types of the package with a mark, and which of them.
func (c *checked) marks() map[types.Object]string {
	marks := map[types.Object]string{}
	for _, file := range c.files {
		for _, decl := range file.Decls {
			if group, ok := decl.(*ast.GenDecl); ok && group.Tok == token.TYPE {
				c.findMarks(group, marks)
			}
		}
	}
	return marks
}

// findMarks finds the marks of a declaration. The comment of a type in a group is that of
// its own line, and that of the declaration if the group has only one type.
func (c *checked) findMarks(group *ast.GenDecl, marks map[types.Object]string) {
	for _, spec := range group.Specs {
		spec := spec.(*ast.TypeSpec)
		doc := spec.Doc
		if doc == nil && len(group.Specs) == 1 {
			doc = group.Doc
		}
		for _, mark := range []string{markGenerate, markCompact} {
			if hasMark(doc, mark) {
				marks[c.info.Defs[spec.Name]] = mark
			}
		}
	}
}

func hasMark(doc *ast.CommentGroup, mark string) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.TrimSpace(c.Text) == mark
	})
}

// root is a type that gets the methods of a codec.
type root struct {
	typ  *types.Named
	pos  token.Pos // of what it is passed to the SDK by, or of its declaration
	mark string
	// old: the generated file has methods for it, and nothing is known to need them. Another
	// program of the module may.
	old bool
}

// rootsOf returns the types of a package that get methods: those that are needed, those that
// are marked, those that have methods in the generated file, and structs that embed one of
// these.
func (l *loader) rootsOf(c *checked, needed map[string]place) []root {
	var roots []root
	add := func(name string, pos token.Pos, mark string, old bool) {
		declared, ok := c.types.Scope().Lookup(name).(*types.TypeName)
		if !ok || declared.IsAlias() || slices.ContainsFunc(roots, func(r root) bool { return r.typ.Obj() == declared }) {
			return
		}
		if t := declared.Type().(*types.Named); t.TypeParams().Len() == 0 {
			roots = append(roots, root{t, cmp.Or(pos, declared.Pos()), mark, old})
		}
	}
	for declared, mark := range c.marks() {
		if declared != nil {
			add(declared.Name(), token.NoPos, mark, false)
		}
	}
	for name, at := range needed {
		add(name, at.pos, "", false)
	}
	if c.Name != "main" {
		for _, name := range l.typesWithMethods(c.listed) {
			add(name, token.NoPos, "", true)
		}
	}
	for before := -1; before < len(roots); {
		before = len(roots)
		for _, name := range c.types.Scope().Names() {
			if embedsOneOf(c.types.Scope().Lookup(name), roots) {
				add(name, token.NoPos, "", false)
			}
		}
	}
	slices.SortFunc(roots, func(a, b root) int { return int(a.typ.Obj().Pos() - b.typ.Obj().Pos()) })
	return roots
}

// typesWithMethods returns the types that have methods in the generated file of a package.
func (l *loader) typesWithMethods(p *listed) (names []string) {
	file, err := l.parseGenerated(p)
	if err != nil {
		return nil
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv != nil && len(f.Recv.List) == 1 && (f.Name.Name == "DecodeJSON" || f.Name.Name == "AppendJSON") {
			receiver := f.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if name := identOf(receiver); name != nil {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// embedsOneOf reports whether an object is a struct type that embeds one of the types, and so
// would inherit its codec.
func embedsOneOf(o types.Object, roots []root) bool {
	if _, isType := o.(*types.TypeName); !isType {
		return false
	}
	s, ok := o.Type().Underlying().(*types.Struct)
	for i := 0; ok && i < s.NumFields(); i++ {
		embedded := deref(s.Field(i).Type())
		if s.Field(i).Embedded() && slices.ContainsFunc(roots, func(r root) bool { return types.Identical(r.typ, embedded) }) {
			return true
		}
	}
	return false
}

// deref returns the type that a pointer points to, and other types as they are.
func deref(t types.Type) types.Type {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// named reports whether the object is one of these of a package.
func named(object types.Object, path string, names ...string) bool {
	return object != nil && object.Pkg() != nil && object.Pkg().Path() == path && slices.Contains(names, object.Name())
}
