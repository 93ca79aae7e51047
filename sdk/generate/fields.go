package generate

import (
	"cmp"
	"go/types"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a member of a struct in JSON.
type field struct {
	name      string // in JSON
	path      []*types.Var
	shape     *shape
	at        place
	omitEmpty bool
	omitZero  bool

	index  []int // of each field in path, for their order
	tagged bool
}

// last returns the field itself; the others in path are embedded structs.
func (f *field) last() *types.Var { return f.path[len(f.path)-1] }

// level is a struct whose fields are collected: the type itself, or an embedded one.
type level struct {
	typ   types.Type
	path  []*types.Var
	index []int
	at    place
	twice bool // the type is embedded more than once at this depth
}

// maxFields is how many fields a struct with a codec may have: its methods are functions
// with a branch for each, which TinyGo compiles in minutes from some thousand on, and which
// a host refuses as too large before that.
const maxFields = 500

// maxWords is how many words the value of a struct with a codec may take. TinyGo makes a parameter of each word of
// the receiver of AppendJSON, beside four others, and hosts refuse a function with more than 1,000.
const maxWords = 996

// words returns how many parameters TinyGo makes of a value of a type. A type does not contain itself but by
// pointers, slices and maps.
func words(t types.Type) (n int) {
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			n += words(f.Type())
		}
		return n
	case *types.Array:
		return int(min(u.Len(), maxWords+1)) * words(u.Elem())
	case *types.Slice:
		return 3
	case *types.Interface, *types.Signature:
		return 2
	case *types.Basic:
		if u.Info()&types.IsString != 0 {
			return 2
		}
	}
	return 1
}

// fieldsOf returns the members of a struct by the rules of encoding/json: the fields of
// embedded structs are the struct's own. Of several fields with one name the least
// nested one counts, then the one whose name is in a tag, and otherwise none.
func (s *shapes) fieldsOf(t *types.Struct, at place) []*field {
	var all []*field
	visited := []types.Type{t}
	for next := []level{{typ: t, at: at}}; len(next) > 0; {
		current := next
		next = nil
		for _, l := range current {
			fields, embedded := s.collect(l)
			all, next = append(all, fields...), addLevels(next, embedded, visited)
		}
		for _, l := range next {
			visited = append(visited, l.typ)
		}
	}
	fields := dominantFields(all)
	for _, f := range fields {
		t := f.last().Type()
		f.shape = s.of(t, f.at)
		s.checkReachable(f)
		if reason := s.incomparable(t); f.omitZero && !hasIsZero(t) && reason != "" {
			s.refuse(f.at, t, reason)
		}
	}
	return fields
}

// addLevels adds one level for each type that has not been visited.
func addLevels(levels, embedded []level, visited []types.Type) []level {
	for _, e := range embedded {
		i := slices.IndexFunc(levels, func(l level) bool { return types.Identical(l.typ, e.typ) })
		switch {
		case i >= 0:
			levels[i].twice = true
		case !containsType(visited, e.typ):
			levels = append(levels, e)
		}
	}
	return levels
}

func containsType(list []types.Type, t types.Type) bool {
	return slices.ContainsFunc(list, func(other types.Type) bool { return types.Identical(other, t) })
}

// collect returns the fields of a struct and the structs that it embeds.
func (s *shapes) collect(l level) (fields []*field, embedded []level) {
	t := l.typ.Underlying().(*types.Struct)
	for i := range t.NumFields() {
		v := t.Field(i)
		tag := reflect.StructTag(t.Tag(i)).Get("json")
		_, isStruct := deref(v.Type()).Underlying().(*types.Struct)
		if tag == "-" || !v.Exported() && (!v.Embedded() || !isStruct) {
			continue
		}
		name, options := parseTag(tag)
		path, index := append(slices.Clone(l.path), v), append(slices.Clone(l.index), i)
		if v.Embedded() && isStruct && name == "" {
			embedded = append(embedded, level{typ: deref(v.Type()), path: path, index: index, at: s.field(l.at, v)})
			continue
		}
		f := &field{
			name: cmp.Or(name, v.Name()), tagged: name != "", path: path, index: index, at: s.field(l.at, v),
			omitEmpty: slices.Contains(options, "omitempty"), omitZero: slices.Contains(options, "omitzero"),
		}
		if slices.Contains(options, "string") && isScalar(deref(v.Type())) {
			s.refuse(f.at, v.Type(), `the option ",string" is not supported; leave it out, or use a type with methods of its own`)
		}
		fields = append(fields, f)
		if l.twice {
			fields = append(fields, f) // so that it conflicts with itself
		}
	}
	return fields, embedded
}

// isScalar reports whether the tag option ",string" applies to a type.
func isScalar(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsBoolean|types.IsNumeric|types.IsString) != 0
}

// parseTag returns the name and the options of a tag. The name is "" if encoding/json
// would use that of the field.
func parseTag(tag string) (name string, options []string) {
	name, rest, _ := strings.Cut(tag, ",")
	if !validName(name) {
		name = ""
	}
	return name, strings.Split(rest, ",")
}

// validName reports whether encoding/json accepts the name in a tag.
func validName(name string) bool {
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) {
			return false
		}
	}
	return name != ""
}

// dominantFields returns the fields that count, in the order of the source.
func dominantFields(all []*field) []*field {
	byName := map[string][]*field{}
	for _, f := range all {
		byName[f.name] = append(byName[f.name], f)
	}
	rank := func(f *field) int { // lower ranks count
		if f.tagged {
			return 2 * len(f.index)
		}
		return 2*len(f.index) + 1
	}
	var fields []*field
	for _, same := range byName {
		slices.SortStableFunc(same, func(a, b *field) int { return cmp.Compare(rank(a), rank(b)) })
		if len(same) == 1 || rank(same[0]) < rank(same[1]) {
			fields = append(fields, same[0])
		}
	}
	slices.SortFunc(fields, func(a, b *field) int { return slices.Compare(a.index, b.index) })
	return fields
}

// checkReachable refuses a field that code of the package cannot access.
func (s *shapes) checkReachable(f *field) {
	for _, v := range f.path[:len(f.path)-1] {
		_, isPointer := types.Unalias(v.Type()).(*types.Pointer)
		switch {
		case v.Exported():
		case isPointer:
			s.refuse(f.at, v.Type(), "a pointer to a struct that is not exported is embedded, which encoding/json cannot fill; embed the struct itself")
			return
		case v.Pkg() != s.pkg:
			s.refuse(f.at, v.Type(), "it comes from a struct that package "+v.Pkg().Path()+" embeds and does not export")
			return
		}
	}
}

// incomparable returns the reason why generated code cannot compare a value of the type
// with the zero value, as the option "omitzero" requires, or "". A slice or map can be
// compared with nil.
func (s *shapes) incomparable(t types.Type) (reason string) {
	if types.Comparable(t) {
		return ""
	}
	if _, isArray := t.Underlying().(*types.Array); isArray {
		return `the option "omitzero" is not supported for arrays of slices or maps; use a slice`
	}
	u, isStruct := t.Underlying().(*types.Struct)
	for i := 0; isStruct && i < u.NumFields() && reason == ""; i++ {
		switch f := u.Field(i); {
		case f.Name() == "_":
		case !f.Exported() && f.Pkg() != s.pkg:
			return `the option "omitzero" looks at field ` + f.Name() + ", which package " + f.Pkg().Path() + " does not export; use a pointer"
		default:
			reason = s.incomparable(f.Type())
		}
	}
	return reason
}

func hasIsZero(t types.Type) bool { return method(t, "IsZero", nil, []string{"bool"}) != nil }

// presence returns the conditions under which a field is written, and the expression
// for the field.
func (w *writer) presence(f *field) (conditions []string, target string) {
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
		conditions = append(conditions, "!("+w.isZero(t, target)+")")
	}
	return conditions, target
}

// selector returns the expression for a field of x.
func selector(path []*types.Var) string {
	names := []string{"x"}
	for _, v := range path {
		names = append(names, v.Name())
	}
	return strings.Join(names, ".")
}

// notEmpty returns the condition of omitempty. A struct is never empty.
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

// notZero returns the condition that a basic value is not zero.
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

// isZero returns the condition of omitzero: the type's own IsZero method, or that the
// value is the zero value, for slices and maps nil.
func (w *writer) isZero(t types.Type, value string) string {
	if hasIsZero(t) {
		return value + ".IsZero()"
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok && hasIsZero(p.Elem()) {
		return value + " == nil || " + value + ".IsZero()"
	}
	if hasVisitMethod(t) {
		return "codec.IsZero(&" + value + ", (*" + w.typ(t) + ").VisitJSON)"
	}
	return w.isUnset(t, value)
}

// isUnset returns the condition that a value without IsZero method is the zero value.
func (w *writer) isUnset(t types.Type, value string) string {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return "!(" + notZero(u, value) + ")"
	case *types.Struct:
		if types.Comparable(t) {
			return value + " == (" + w.typ(t) + "{})"
		}
		var conditions []string
		for f := range u.Fields() {
			if f.Name() != "_" {
				conditions = append(conditions, w.isUnset(f.Type(), value+"."+f.Name()))
			}
		}
		return strings.Join(conditions, " && ")
	case *types.Array:
		return value + " == (" + w.typ(t) + "{})"
	default:
		return value + " == nil"
	}
}
