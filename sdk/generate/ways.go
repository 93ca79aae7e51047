package generate

import (
	"go/types"
	"slices"
)

// ways says who reads and who writes a type: methods of its own before what
// can be generated, as encoding/json has it.
func (s *shapes) ways(t types.Type) (read, write way) {
	if _, isPointer := t.Underlying().(*types.Pointer); isPointer {
		return byKind, byKind
	}
	switch {
	case s.codecMethod(t, "DecodeJSON", "UnmarshalJSON", []string{"*" + modulePath + "/abi/rawjson.Reader"}, nil):
		read = byCodec
	case method(t, "UnmarshalJSON", []string{"[]byte"}, []string{"error"}) != nil:
		read = byJSON
	case method(t, "UnmarshalText", []string{"[]byte"}, []string{"error"}) != nil:
		read = byText
	}
	switch {
	case s.codecMethod(t, "AppendJSON", "MarshalJSON", []string{"[]byte"}, []string{"[]byte", "error"}):
		write = byCodec
	case method(t, "MarshalJSON", nil, []string{"[]byte", "error"}) != nil:
		write = byJSON
	case method(t, "MarshalText", nil, []string{"[]byte", "error"}) != nil:
		write = byText
	}
	return read, write
}

// codecMethod says whether the type has a method of a codec. One that comes
// from an embedded type is that type's alone, unless the embedded type stands
// for the struct in encoding/json too.
func (s *shapes) codecMethod(t types.Type, name, standard string, params, results []string) bool {
	found := method(t, name, params, results)
	return found != nil && (len(found) == 1 || len(lookup(t, standard)) > 1)
}

// method returns the path of fields to a method of that signature, the method
// itself being its last step; nil if there is none.
func method(t types.Type, name string, params, results []string) []int {
	object, path, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, nil, name)
	f, ok := object.(*types.Func)
	if !ok || !slices.Equal(typesOf(f.Signature().Params()), params) || !slices.Equal(typesOf(f.Signature().Results()), results) {
		return nil
	}
	return path
}

func lookup(t types.Type, name string) []int {
	_, path, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, nil, name)
	return path
}

func typesOf(tuple *types.Tuple) (names []string) {
	for i := range tuple.Len() {
		names = append(names, unaliased(tuple.At(i).Type()))
	}
	return names
}

// unaliased is the name of a type, behind aliases.
func unaliased(t types.Type) string {
	switch u := types.Unalias(t).(type) {
	case *types.Pointer:
		return "*" + unaliased(u.Elem())
	case *types.Slice:
		return "[]" + unaliased(u.Elem())
	default:
		return types.TypeString(u, nil)
	}
}
