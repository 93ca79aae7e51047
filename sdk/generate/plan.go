package generate

import (
	"go/types"
	"strconv"
	"strings"
)

// plan decides what is decided for all shapes together: which hold themselves,
// which cannot fail to be written, and how their functions are called.
func (s *shapes) plan() {
	for _, sh := range s.list {
		sh.recursive = holds(sh, sh, map[*shape]bool{})
	}
	for grown := true; grown; {
		grown = false
		for _, sh := range s.list {
			if !sh.fallible && fails(sh) {
				sh.fallible, grown = true, true
			}
		}
	}
	taken := map[string]bool{}
	for _, name := range s.pkg.Scope().Names() {
		taken[name] = true
	}
	for _, sh := range s.list {
		if sh.functions() {
			sh.name = free(taken, nameOf(sh.typ))
		}
	}
}

// holds says whether a value of from may hold one of what.
func holds(from, what *shape, seen map[*shape]bool) bool {
	for _, part := range from.parts() {
		if part == what {
			return true
		}
		if !seen[part] {
			seen[part] = true
			if holds(part, what, seen) {
				return true
			}
		}
	}
	return false
}

// fails says whether writing can fail, as far as is known of the parts.
func fails(sh *shape) bool {
	if sh.write != byKind || sh.recursive || sh.kind == float || sh.kind == raw {
		return true
	}
	for _, part := range sh.parts() {
		if part.fallible {
			return true
		}
	}
	return false
}

const (
	readPrefix   = "readJSON"
	appendPrefix = "appendJSON"
)

// free returns the name, with a number if the package has it already.
func free(taken map[string]bool, name string) string {
	for i := 1; ; i++ {
		candidate := name
		if i > 1 {
			candidate += strconv.Itoa(i)
		}
		if !taken[readPrefix+candidate] && !taken[appendPrefix+candidate] {
			taken[readPrefix+candidate], taken[appendPrefix+candidate] = true, true
			return candidate
		}
	}
}

// nameOf makes a name of a type: ListOfContainer, MapOfPort, Struct.
func nameOf(t types.Type) string {
	switch u := types.Unalias(t).(type) {
	case *types.Named:
		words := []string{upper(u.Obj().Name())}
		for i := range u.TypeArgs().Len() {
			words = append(words, nameOf(u.TypeArgs().At(i)))
		}
		return strings.Join(words, "")
	case *types.Basic:
		return upper(u.Name())
	case *types.Pointer:
		return "PointerTo" + nameOf(u.Elem())
	case *types.Slice:
		return "ListOf" + nameOf(u.Elem())
	case *types.Array:
		return "ArrayOf" + strconv.FormatInt(u.Len(), 10) + nameOf(u.Elem())
	case *types.Map:
		return "MapOf" + nameOf(u.Elem())
	default:
		return "Struct"
	}
}

func upper(name string) string { return strings.ToUpper(name[:1]) + name[1:] }
