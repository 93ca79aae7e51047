package generate

import "go/types"

// This file finds out which values the SDK cannot encode or decode without encoding/json,
// and states what to do about them.

// The types that the SDK encodes and decodes without a codec; see [sdk.Encode].
var plainTypes = []types.Type{
	types.Typ[types.String], types.Typ[types.Bool], types.Typ[types.Int], types.Typ[types.Int64],
	types.NewSlice(types.Typ[types.String]), types.NewMap(types.Typ[types.String], types.Typ[types.String]),
}

func isPlain(t types.Type) bool {
	return isRaw(t) || containsType(plainTypes, t)
}

// noCodec returns what to do if the SDK cannot pass a value of the type to a sink
// without encoding/json, and "" if it can, or if the type is not certain. It must agree
// with sdk/codec.go.
func (c *callChecker) noCodec(t types.Type, s sink) string {
	_, isTuple := t.(*types.Tuple) // the results of a call, which are all arguments
	p, isPointer := types.Unalias(t).(*types.Pointer)
	switch {
	case s == stateSink:
		return c.noStateCodec(t)
	case s == versionSink && hasMethod(types.NewPointer(t), "DecodeJSON") && hasMethod(t, "AppendJSON"):
		return ""
	case s == versionSink:
		return c.advice(t)
	case t == nil, isInterface(t), isTuple, types.Identical(t, types.Typ[types.UntypedNil]):
		return ""
	case s.decodes && !isPointer && !hasMethod(t, "DecodeJSON"):
		return "nothing can be read into it; pass a pointer"
	case s.decodes:
		return c.notDecoded(t)
	case isPlain(t), hasMethod(t, "AppendJSON"), types.Identical(t, types.NewSlice(types.Typ[types.Byte])):
		return ""
	case isPointer && isPlain(p.Elem()):
		return "a pointer to a plain value has no codec; pass the value"
	case s == warmSink && isSlice(t):
		return "a slice has no codec; use a value of its element type"
	}
	return c.advice(t)
}

// noStateCodec is [callChecker.noCodec] for the state of a daemon, which is read and encoded by a
// pointer to it, unless it needs no codec.
func (c *callChecker) noStateCodec(t types.Type) string {
	p := types.NewPointer(t)
	switch {
	case isPlain(t), types.Identical(t, types.NewStruct(nil, nil)), hasMethod(p, "DecodeJSON") && hasMethod(p, "AppendJSON"):
		return ""
	case hasMethod(t, "AppendJSON"):
		return "a pointer as state has no codec; use the struct"
	}
	return c.advice(t)
}

// notDecoded is [callChecker.noCodec] for a pointer that JSON is read into.
func (c *callChecker) notDecoded(p types.Type) string {
	elem := deref(p)
	list, isList := elem.Underlying().(*types.Slice)
	switch {
	case hasMethod(p, "DecodeJSON"), isPlain(elem):
		return ""
	case !isList:
		return c.advice(elem)
	case hasMethod(types.NewPointer(list.Elem()), "DecodeJSON"):
		return ""
	case hasMethod(list.Elem(), "DecodeJSON"):
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

// advice returns what to do about a type without a codec.
func (c *callChecker) advice(t types.Type) string {
	if hasMethod(deref(t), "AppendJSON") {
		return "a pointer to a pointer has no codec; pass a pointer to the struct"
	}
	return "it has no codec, which sdk.RegisterGenerated requires; " + c.remedy(t)
}

// remedy returns how a type gets a codec, or which type to use instead.
func (c *callChecker) remedy(t types.Type) string {
	declared := object(deref(t))
	switch {
	case isSlice(t):
		return "declare a named type for the slice and mark it " + markGenerate
	case declared == nil || declared.Pkg() == nil || declared.Pkg().Path() == sdkPath || c.checked[declared.Pkg().Path()] == nil:
		return "declare a struct type for it, with the fields that the plugin uses"
	case types.Unalias(deref(t)).(*types.Named).TypeArgs().Len() > 0:
		return "declare a struct type without type parameters"
	case declared.Parent() != declared.Pkg().Scope():
		return "declare the type outside of the function"
	case declared.Pkg() != c.main:
		return "mark it " + markGenerate + " and run `thole generate` for package " + declared.Pkg().Path() + " too"
	}
	if _, left := c.checked[declared.Pkg().Path()].roots(); left[declared] {
		return "remove the mark " + markLeave
	}
	return "mark it " + markGenerate
}
