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

// root is a type that gets the methods of a codec, and the place because of which it
// does.
type root struct {
	typ     *types.Named
	pos     token.Pos
	compact bool
}

// roots returns the types of the package that are passed to the codec: the type
// arguments of controllers, of their objects and of the versions of these, the states of daemons, the arguments of methods of a run and of functions of the
// SDK, the elements of Warm, and marked types. left are the types that are marked to
// be left to encoding/json.
func (c *checked) roots() (roots []root, left map[types.Object]bool) {
	f := &rootFinder{checked: c, left: map[types.Object]bool{}, compact: map[types.Object]bool{}}
	for _, file := range c.files {
		for _, decl := range file.Decls {
			f.findMarks(decl)
		}
	}
	inspect([]*checked{c}, func(_ *checked, n ast.Node) { f.visit(n) })
	f.findEmbedding()
	slices.SortFunc(f.found, func(a, b root) int { return cmp.Compare(a.typ.Obj().Pos(), b.typ.Obj().Pos()) })
	return f.found, f.left
}

type rootFinder struct {
	*checked
	found   []root
	left    map[types.Object]bool
	compact map[types.Object]bool // marked to get a compact codec
}

// add adds a type, or the element type of pointers and slices, if it is declared by
// the package.
func (f *rootFinder) add(t types.Type, pos token.Pos) {
	switch u := types.Unalias(t).(type) {
	case *types.Pointer:
		f.add(u.Elem(), pos)
	case *types.Slice:
		f.add(u.Elem(), pos)
	case *types.Named:
		if f.canHaveMethods(u) && !f.has(u) {
			f.found = append(f.found, root{u, pos, f.compact[u.Obj()]})
		}
	}
}

// canHaveMethods reports whether methods of the type can be generated.
func (f *rootFinder) canHaveMethods(t *types.Named) bool {
	switch t.Underlying().(type) {
	case *types.Interface, *types.Pointer:
		return false
	}
	return t.Obj().Parent() == f.types.Scope() && t.TypeParams().Len() == 0 && !f.left[t.Obj()]
}

func (f *rootFinder) has(t types.Type) bool {
	return slices.ContainsFunc(f.found, func(r root) bool { return types.Identical(r.typ, t) })
}

// Marks in the comment of a type declaration.
const (
	markGenerate = "//thole:generate"
	markCompact  = "//thole:compact"
	markLeave    = "//thole:leave"
)

// findMarks adds the marked types of a declaration. The comment of a type in a group is that of
// its own line, and that of the declaration if the group has only one type.
func (f *rootFinder) findMarks(decl ast.Decl) {
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
		case hasMark(doc, markLeave):
			f.left[object] = true
		case hasMark(doc, markCompact):
			f.compact[object] = true
			f.add(object.Type(), spec.Pos())
		case hasMark(doc, markGenerate):
			f.add(object.Type(), spec.Pos())
		}
	}
}

func hasMark(doc *ast.CommentGroup, mark string) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.TrimSpace(c.Text) == mark
	})
}

// visit adds the types of controllers, and those of values that are passed to the SDK.
func (f *rootFinder) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.Ident:
		if named(f.info.Uses[n], sdkPath, "Controller", "Request", "Register", "RegisterGenerated", "Daemon", "DaemonStep", "Object", "Version", "Primaries") {
			arguments := f.info.Instances[n].TypeArgs
			count := 2 // spec and status; the others are inferred, or those of the hub
			if n.Name == "Daemon" {
				count = 1 // the state
			}
			for i := range min(count, arguments.Len()) {
				f.add(arguments.At(i), n.Pos())
			}
		}
	default:
		values, _ := f.passed(n)
		for _, v := range values {
			if t := f.info.TypeOf(v); t != nil {
				f.add(t, v.Pos())
			}
		}
	}
}

// findEmbedding adds the structs of the package that embed a type with methods:
// otherwise they would inherit its codec.
func (f *rootFinder) findEmbedding() {
	scope := f.types.Scope()
	for grown := true; grown; {
		before := len(f.found)
		for _, name := range scope.Names() {
			object, ok := scope.Lookup(name).(*types.TypeName)
			if ok && !object.IsAlias() && f.embedsRoot(object.Type()) {
				f.add(object.Type(), object.Pos())
			}
		}
		grown = len(f.found) > before
	}
}

// embedsRoot reports whether a struct embeds a type that gets methods.
func (f *rootFinder) embedsRoot(t types.Type) bool {
	s, ok := t.Underlying().(*types.Struct)
	for i := 0; ok && i < s.NumFields(); i++ {
		if field := s.Field(i); field.Embedded() && f.has(deref(field.Type())) {
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
