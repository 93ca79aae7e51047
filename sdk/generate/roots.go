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
	sdkPath    = modulePath + "/sdk"
	codecPath  = sdkPath + "/codec"
)

// root is a type that gets the methods of a codec, and why.
type root struct {
	typ types.Type
	pos token.Pos
	why string // such as "marked" or "the spec or status of a controller"
}

// roots are the package's own types that go through the codec: type arguments
// of controllers, what is given to methods of a run and functions of the SDK,
// elements of Warm, and marked types. left are those marked to be left alone.
func (c *checked) roots() (roots []root, left map[types.Object]bool) {
	f := &finder{checked: c, left: map[types.Object]bool{}}
	for _, file := range c.files {
		for _, decl := range file.Decls {
			f.marks(decl)
		}
	}
	for _, file := range c.files {
		ast.Inspect(file, func(n ast.Node) bool { f.visit(n); return true })
	}
	f.embedding()
	slices.SortFunc(f.found, func(a, b root) int { return cmp.Compare(f.declared(a), f.declared(b)) })
	return f.found, f.left
}

type finder struct {
	*checked
	found []root
	left  map[types.Object]bool // marked to be left to encoding/json
}

func (f *finder) declared(r root) token.Pos { return types.Unalias(r.typ).(*types.Named).Obj().Pos() }

// add takes a type, or what a pointer points to or a slice holds, if the
// package itself declares it.
func (f *finder) add(t types.Type, pos token.Pos, why string) {
	for {
		switch u := types.Unalias(t).(type) {
		case *types.Pointer:
			t = u.Elem()
			continue
		case *types.Slice:
			t = u.Elem()
			continue
		case *types.Named:
			if f.own(u) && !f.has(u) {
				f.found = append(f.found, root{u, pos, why})
			}
		}
		return
	}
}

// own says whether the package can give the type methods.
func (f *finder) own(t *types.Named) bool {
	_, isInterface := t.Underlying().(*types.Interface)
	_, isPointer := t.Underlying().(*types.Pointer)
	generic := t.TypeParams().Len() > 0
	return t.Obj().Parent() == f.types.Scope() && !generic && !isInterface && !isPointer && !f.left[t.Obj()]
}

func (f *finder) has(t types.Type) bool {
	return slices.ContainsFunc(f.found, func(r root) bool { return types.Identical(r.typ, t) })
}

// Marks in the comment of a type's declaration.
const (
	markGenerate = "//thole:generate"
	markLeave    = "//thole:leave"
)

func (f *finder) marks(decl ast.Decl) {
	types, ok := decl.(*ast.GenDecl)
	if !ok || types.Tok != token.TYPE {
		return
	}
	for _, spec := range types.Specs {
		spec := spec.(*ast.TypeSpec)
		doc := spec.Doc
		if doc == nil && len(types.Specs) == 1 {
			doc = types.Doc
		}
		object := f.info.Defs[spec.Name]
		switch {
		case object == nil:
		case marked(doc, markLeave):
			f.left[object] = true
		case marked(doc, markGenerate):
			f.add(object.Type(), spec.Pos(), "marked "+markGenerate)
		}
	}
}

func marked(doc *ast.CommentGroup, mark string) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.TrimSpace(c.Text) == mark
	})
}

// visit looks for types of controllers, in calls of a run's methods, and in
// Warm.
func (f *finder) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.Ident:
		if named(f.info.Uses[n], sdkPath, "Controller", "Request", "Register", "RegisterGenerated") {
			f.addArguments(n)
		}
	case *ast.CallExpr:
		if name, ok := f.codecCall(n); ok {
			for _, arg := range n.Args {
				f.addExpr(arg, "given to "+name)
			}
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Warm" && f.isField(key) {
			f.addWarm(n.Value)
		}
	}
}

func (f *finder) addArguments(generic *ast.Ident) {
	arguments := f.info.Instances[generic].TypeArgs
	for i := range min(2, arguments.Len()) { // spec and status; what may follow is inferred
		f.add(arguments.At(i), generic.Pos(), "the spec or status of a controller")
	}
}

func (f *finder) addExpr(e ast.Expr, why string) {
	if t := f.info.TypeOf(e); t != nil {
		f.add(t, e.Pos(), why)
	}
}

func (f *finder) addWarm(value ast.Expr) {
	if list, ok := value.(*ast.CompositeLit); ok {
		for _, element := range list.Elts {
			f.addExpr(element, "an element of Warm")
		}
	}
}

// isField says whether the name is that of a field of [sdk.Controller].
func (f *finder) isField(key *ast.Ident) bool {
	field, ok := f.info.Uses[key].(*types.Var)
	return ok && field.IsField() && field.Pkg() != nil && field.Pkg().Path() == sdkPath
}

// codecCall says whether the call is one of the SDK's that encode or decode
// what they are given.
func (f *finder) codecCall(call *ast.CallExpr) (name string, ok bool) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	called, ok := f.info.Uses[selector.Sel].(*types.Func)
	if !ok {
		return "", false
	}
	name = called.Name()
	if receiver := called.Signature().Recv(); receiver != nil {
		return "Run." + name, typeName(receiver.Type()) == "Run" &&
			named(called, sdkPath, "Get", "List", "Apply", "Patch", "Config", "Memo", "SetMemo")
	}
	return "sdk." + name, named(called, sdkPath, "Decode", "Encode")
}

// embedding adds the package's structs that embed a type with methods: they
// would inherit its codec for their own.
func (f *finder) embedding() {
	scope := f.types.Scope()
	for grown := true; grown; {
		before := len(f.found)
		for _, name := range scope.Names() {
			object, ok := scope.Lookup(name).(*types.TypeName)
			if !ok || object.IsAlias() {
				continue
			}
			if embedded := f.embeds(object.Type()); embedded != "" {
				f.add(object.Type(), object.Pos(), "a struct that embeds "+embedded)
			}
		}
		grown = len(f.found) > before
	}
}

// embeds returns the name of a found type that the struct embeds.
func (f *finder) embeds(t types.Type) string {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return ""
	}
	for i := range s.NumFields() {
		if field := s.Field(i); field.Embedded() && f.has(deref(field.Type())) {
			return field.Name()
		}
	}
	return ""
}

func deref(t types.Type) types.Type {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

func typeName(t types.Type) string {
	if n, ok := types.Unalias(deref(t)).(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// named says whether the object is one of those of a package.
func named(object types.Object, path string, names ...string) bool {
	return object != nil && object.Pkg() != nil && object.Pkg().Path() == path && slices.Contains(names, object.Name())
}
