package generate

import (
	"go/types"
	"strings"
)

// present returns the conditions under which a field is written, and how the
// field is reached.
func (w *writer) present(f *field) (conditions []string, target string) {
	for i, v := range f.path[:len(f.path)-1] {
		if _, isPointer := types.Unalias(v.Type()).(*types.Pointer); isPointer {
			conditions = append(conditions, selector(f.path[:i+1])+" != nil")
		}
	}
	t, target := f.last().Type(), selector(f.path)
	if f.omitEmpty {
		conditions = append(conditions, notEmpty(t, target)...)
	}
	if f.omitZero {
		conditions = append(conditions, "!("+w.zero(t, target)+")")
	}
	return conditions, target
}

// selector is how a field of x is reached.
func selector(path []*types.Var) string {
	names := []string{"x"}
	for _, v := range path {
		names = append(names, v.Name())
	}
	return strings.Join(names, ".")
}

// notEmpty is the condition of omitempty; a struct is never empty.
func notEmpty(t types.Type, value string) []string {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return []string{notZero(u, value)}
	case *types.Pointer:
		return []string{value + " != nil"}
	case *types.Slice, *types.Map, *types.Array:
		return []string{"len(" + value + ") != 0"}
	default:
		return nil
	}
}

func notZero(b *types.Basic, value string) string {
	switch {
	case b.Info()&types.IsBoolean != 0:
		return value
	case b.Info()&types.IsString != 0:
		return value + ` != ""`
	default:
		return value + " != 0"
	}
}

// zero is the condition of omitzero: the type's own IsZero, or that nothing is
// set, slices and maps being set if they are not nil.
func (w *writer) zero(t types.Type, value string) string {
	if method(t, "IsZero", nil, []string{"bool"}) != nil {
		return value + ".IsZero()"
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		if method(p.Elem(), "IsZero", nil, []string{"bool"}) != nil {
			return value + " == nil || " + value + ".IsZero()"
		}
	}
	return w.unset(t, value)
}

// unset is the condition that nothing in the value is set.
func (w *writer) unset(t types.Type, value string) string {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return "!(" + notZero(u, value) + ")"
	case *types.Struct:
		if !types.Comparable(t) {
			return w.unsetFields(u, value)
		}
		return value + " == (" + w.typ(t) + "{})"
	case *types.Array:
		return value + " == (" + w.typ(t) + "{})"
	default:
		return value + " == nil"
	}
}

func (w *writer) unsetFields(s *types.Struct, value string) string {
	var conditions []string
	for i := range s.NumFields() {
		if f := s.Field(i); f.Name() != "_" {
			conditions = append(conditions, w.unset(f.Type(), value+"."+f.Name()))
		}
	}
	return strings.Join(conditions, " && ")
}

// zeroable says why it cannot be told whether a value is zero.
func (s *shapes) zeroable(t types.Type) (reason string) {
	if method(t, "IsZero", nil, []string{"bool"}) != nil {
		return ""
	}
	return s.comparable(t)
}

func (s *shapes) comparable(t types.Type) (reason string) {
	if types.Comparable(t) {
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Array:
		return `the option "omitzero" is not supported for arrays of slices or maps; use a slice`
	case *types.Struct:
		return s.comparableFields(u)
	default:
		return ""
	}
}

func (s *shapes) comparableFields(t *types.Struct) (reason string) {
	for i := range t.NumFields() {
		f := t.Field(i)
		if f.Name() == "_" {
			continue
		}
		if !f.Exported() && f.Pkg() != s.pkg {
			return `the option "omitzero" looks at field ` + f.Name() + ", which package " + f.Pkg().Path() + " does not export; use a pointer"
		}
		if reason := s.comparable(f.Type()); reason != "" {
			return reason
		}
	}
	return ""
}
