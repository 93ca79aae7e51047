package generate

import (
	"cmp"
	"go/types"
	"slices"
)

// This file decides whether a value of a type can be passed to the SDK in a plugin that
// does not contain encoding/json.

// substitute returns a type with type arguments in place of the type parameter that it
// consists of, or nil if it consists of more than pointers and slices.
func substitute(t types.Type, arguments *types.TypeList) types.Type {
	switch u := types.Unalias(t).(type) {
	case *types.TypeParam:
		if u.Index() < arguments.Len() {
			return arguments.At(u.Index())
		}
	case *types.Pointer:
		if elem := substitute(u.Elem(), arguments); elem != nil {
			return types.NewPointer(elem)
		}
	case *types.Slice:
		if elem := substitute(u.Elem(), arguments); elem != nil {
			return types.NewSlice(elem)
		}
	}
	return nil
}

// typeParamIn returns the type parameter that a pointer, slice, array or map consists
// of, or nil. No other type that contains one has a codec.
func typeParamIn(t types.Type) *types.TypeParam {
	switch u := types.Unalias(t).(type) {
	case *types.TypeParam:
		return u
	case *types.Map:
		return cmp.Or(typeParamIn(u.Key()), typeParamIn(u.Elem()))
	case interface{ Elem() types.Type }:
		return typeParamIn(u.Elem())
	}
	return nil
}

// The types that the SDK encodes and decodes without a codec; see [sdk.Encode].
var plainTypes = []types.Type{
	types.Typ[types.String], types.Typ[types.Bool], types.Typ[types.Int], types.Typ[types.Int64],
	types.NewSlice(types.Typ[types.String]), types.NewMap(types.Typ[types.String], types.Typ[types.String]),
}

func isPlain(t types.Type) bool {
	return slices.ContainsFunc(plainTypes, func(plain types.Type) bool { return types.Identical(plain, t) }) ||
		named(object(t), "encoding/json", "RawMessage")
}

// noCodec returns what to do if the SDK cannot pass a value of the type to a sink
// without encoding/json, and "" if it can. It must agree with sdk/codec.go.
func (c *callChecker) noCodec(t types.Type, s sink) string {
	p, isPointer := types.Unalias(t).(*types.Pointer)
	isNil := types.Identical(t, types.Typ[types.UntypedNil])
	if !s.decodes {
		isBytes := types.Identical(t, types.NewSlice(types.Typ[types.Byte]))
		switch {
		case isNil || isBytes || isPlain(t) || hasMethod(t, "AppendJSON"):
			return ""
		case isPointer && isPlain(p.Elem()):
			return "a pointer to a plain value has no codec; pass the value"
		case s.name == warmSink && isSlice(t):
			return "a slice has no codec; use a value of its element type"
		}
		return c.advice(t)
	}
	switch {
	case isNil || hasMethod(t, "DecodeJSON"):
		return ""
	case !isPointer:
		return "nothing can be read into it; pass a pointer"
	case isPlain(p.Elem()):
		return ""
	}
	list, ok := p.Elem().Underlying().(*types.Slice)
	if !ok {
		return c.advice(p.Elem())
	}
	if hasMethod(types.NewPointer(list.Elem()), "DecodeJSON") {
		return ""
	}
	if hasMethod(list.Elem(), "DecodeJSON") {
		return "a slice of pointers has no codec; use a slice of structs"
	}
	return c.advice(list.Elem())
}

// hasMethod reports whether a value of the type has a method, of its own or promoted
// from an embedded type.
func hasMethod(t types.Type, name string) bool {
	found, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
	_, ok := found.(*types.Func)
	return ok
}

func isSlice(t types.Type) bool { _, ok := types.Unalias(t).(*types.Slice); return ok }

const withoutCodec = "it has no codec, which sdk.RegisterGenerated requires; "

// advice returns what to do about a type without a codec.
func (c *callChecker) advice(t types.Type) string {
	declared, _ := object(deref(t)).(*types.TypeName)
	switch {
	case hasMethod(deref(t), "AppendJSON"):
		return "a pointer to a pointer has no codec; pass a pointer to the struct"
	case isSlice(t):
		return withoutCodec + "declare a named type for the slice and mark it " + markGenerate
	case declared == nil || declared.Pkg() == nil || declared.Pkg().Path() == sdkPath || !c.isInModule(declared.Pkg()):
		return withoutCodec + "declare a struct type for it, with the fields that the plugin uses"
	case types.Unalias(deref(t)).(*types.Named).TypeArgs().Len() > 0:
		return withoutCodec + "declare a struct type without type parameters"
	case declared.Parent() != declared.Pkg().Scope():
		return withoutCodec + "declare the type outside of the function"
	case declared.Pkg() != c.pkg.types:
		return withoutCodec + "mark it " + markGenerate + " and run `thole generate` for package " + declared.Pkg().Path() + " too"
	}
	if _, left := c.pkg.roots(); left[declared] {
		return withoutCodec + "remove the mark " + markLeave
	}
	return withoutCodec + "mark it " + markGenerate
}
