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

	index  []int // of the fields in path, for their order
	tagged bool
}

// last is the field itself, behind the structs that embed it.
func (f *field) last() *types.Var { return f.path[len(f.path)-1] }

// level is an embedded struct whose fields are looked at.
type level struct {
	typ   *types.Struct
	of    types.Type
	path  []*types.Var
	index []int
	at    place
	twice bool // the type is embedded more than once at this depth
}

// fieldsOf returns the members of a struct, by the rules of encoding/json:
// fields of embedded structs are the struct's own, of several with one name the
// least deep one counts, then the one whose name is in a tag, and else none.
func (s *shapes) fieldsOf(t *types.Struct, at place) []*field {
	var all []*field
	seen := []types.Type{}
	for next := []level{{typ: t, of: t, at: at}}; len(next) > 0; {
		current := next
		next = nil
		for _, l := range current {
			if !contains(seen, l.of) {
				seen = append(seen, l.of)
				fields, embedded := s.scan(l)
				all = append(all, fields...)
				next = merge(next, embedded)
			}
		}
	}
	fields := dominant(all)
	for _, f := range fields {
		f.shape = s.of(f.last().Type(), f.at)
		s.reachable(f)
		if f.omitZero {
			if reason := s.zeroable(f.last().Type()); reason != "" {
				s.refuse(f.at, f.last().Type(), reason)
			}
		}
	}
	return fields
}

func contains(list []types.Type, t types.Type) bool {
	return slices.ContainsFunc(list, func(other types.Type) bool { return types.Identical(other, t) })
}

// merge adds levels, one for each type.
func merge(next, embedded []level) []level {
	for _, e := range embedded {
		if i := slices.IndexFunc(next, func(l level) bool { return types.Identical(l.of, e.of) }); i >= 0 {
			next[i].twice = true
			continue
		}
		next = append(next, e)
	}
	return next
}

// scan returns the fields of a struct and the structs that it embeds.
func (s *shapes) scan(l level) (fields []*field, embedded []level) {
	for i := range l.typ.NumFields() {
		v := l.typ.Field(i)
		tag := reflect.StructTag(l.typ.Tag(i)).Get("json")
		inner, isStruct := deref(v.Type()).Underlying().(*types.Struct)
		if tag == "-" || !v.Exported() && (!v.Embedded() || !isStruct) {
			continue
		}
		name, options := parseTag(tag)
		path, index := append(slices.Clone(l.path), v), append(slices.Clone(l.index), i)
		if v.Embedded() && isStruct && name == "" {
			embedded = append(embedded, level{typ: inner, of: deref(v.Type()), path: path, index: index, at: s.field(l.at, v)})
			continue
		}
		f := &field{
			name: cmp.Or(name, v.Name()), tagged: name != "", path: path, index: index, at: s.field(l.at, v),
			omitEmpty: slices.Contains(options, "omitempty"), omitZero: slices.Contains(options, "omitzero"),
		}
		if slices.Contains(options, "string") && scalar(deref(v.Type())) {
			s.refuse(f.at, v.Type(), `the option ",string" is not supported; leave it out, or use a type with methods of its own`)
		}
		fields = append(fields, f)
		if l.twice {
			fields = append(fields, f) // so that it conflicts with itself
		}
	}
	return fields, embedded
}

func scalar(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsBoolean|types.IsNumeric|types.IsString) != 0
}

func parseTag(tag string) (name string, options []string) {
	name, rest, _ := strings.Cut(tag, ",")
	if !validName(name) {
		name = ""
	}
	return name, strings.Split(rest, ",")
}

// validName says whether encoding/json takes the name in a tag.
func validName(name string) bool {
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) {
			return false
		}
	}
	return name != ""
}

// dominant returns the fields that count, in the order of the source.
func dominant(all []*field) []*field {
	byName := map[string][]*field{}
	for _, f := range all {
		byName[f.name] = append(byName[f.name], f)
	}
	var fields []*field
	for _, same := range byName {
		slices.SortStableFunc(same, func(a, b *field) int {
			return cmp.Or(cmp.Compare(len(a.index), len(b.index)), cmp.Compare(rank(a), rank(b)))
		})
		if len(same) == 1 || len(same[0].index) < len(same[1].index) || rank(same[0]) < rank(same[1]) {
			fields = append(fields, same[0])
		}
	}
	slices.SortFunc(fields, func(a, b *field) int { return slices.Compare(a.index, b.index) })
	return fields
}

func rank(f *field) int {
	if f.tagged {
		return 0
	}
	return 1
}

// reachable refuses a field that code of the package cannot get at.
func (s *shapes) reachable(f *field) {
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
