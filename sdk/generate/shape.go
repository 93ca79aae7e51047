package generate

import (
	"go/token"
	"go/types"
	"slices"
)

// kind is how a type looks in JSON.
type kind int

const (
	unsupported kind = iota
	own              // only its own methods know
	boolean
	text
	signed
	unsigned
	float
	binary  // bytes in base 64
	raw     // JSON as it is
	pointer // the element, or null
	texts   // an array of strings
	textMap // an object of strings
	slice
	array
	mapping
	structure
)

// way is who reads or writes a type.
type way int

const (
	byKind  way = iota // what is generated, by its kind
	byCodec            // its DecodeJSON or AppendJSON
	byJSON             // its UnmarshalJSON or MarshalJSON
	byText             // its UnmarshalText or MarshalText
)

// shape is what the generator knows about a type.
type shape struct {
	typ    types.Type
	kind   kind
	elem   *shape // of a pointer, slice, array or mapping
	fields []*field

	read, write way

	root      bool   // it gets methods
	name      string // of its functions
	recursive bool   // a value of it may hold another
	fallible  bool   // some value of it has no form in JSON

	refused string // why there is no codec for it
}

// functions says whether reading and writing the shape are functions.
func (s *shape) functions() bool { return s.root || s.kind >= slice }

// parts are the shapes that a value of the shape holds, as far as it is
// generated.
func (s *shape) parts() []*shape {
	var parts []*shape
	if s.elem != nil {
		parts = append(parts, s.elem)
	}
	for _, f := range s.fields {
		parts = append(parts, f.shape)
	}
	return parts
}

// place says where in the author's types something is.
type place struct {
	pos  token.Pos
	path string // such as Spec.Containers[].Probe
}

func (p place) element() place { return place{p.pos, p.path + "[]"} }

// refusal is a type without a codec, or what is wrong with a field.
type refusal struct {
	place
	typ    types.Type
	reason string
}

// shapes finds out the shapes of the types that a package's code needs.
type shapes struct {
	pkg  *types.Package
	ours func(*types.Package) bool // the author can change it
	list []*shape                  // in the order in which they were met
	left map[types.Object]bool
	errs []refusal
}

func (s *shapes) refuse(at place, t types.Type, reason string) {
	s.errs = append(s.errs, refusal{at, t, reason})
}

// field is the place of a field, or of what leads to it if the author cannot
// change it.
func (s *shapes) field(at place, f *types.Var) place {
	if s.ours(f.Pkg()) {
		at.pos = f.Pos()
	}
	return place{at.pos, at.path + "." + f.Name()}
}

// of returns the shape of a type. One that has no codec is refused wherever it
// is met, what it is made of where it is met first.
func (s *shapes) of(t types.Type, at place) *shape {
	if i := slices.IndexFunc(s.list, func(known *shape) bool { return types.Identical(known.typ, t) }); i >= 0 {
		if known := s.list[i]; known.refused != "" {
			s.refuse(at, t, known.refused)
		}
		return s.list[i]
	}
	sh := &shape{typ: t}
	s.list = append(s.list, sh)
	if sh.refused = s.find(sh, at); sh.refused != "" {
		s.refuse(at, t, sh.refused)
	}
	return sh
}

// find fills the shape, or says why there is none.
func (s *shapes) find(sh *shape, at place) (reason string) {
	n, isNamed := types.Unalias(sh.typ).(*types.Named)
	if isNamed {
		if reason := s.nameable(n); reason != "" {
			return reason
		}
	}
	sh.read, sh.write = s.ways(sh.typ)
	switch {
	case !isNamed && (sh.read != byKind || sh.write != byKind):
		return "an unnamed struct with the JSON methods of what it embeds; give it a name"
	case isNamed && isRaw(n):
		sh.kind, sh.read, sh.write = raw, byKind, byKind
		return ""
	case sh.read != byKind && sh.write != byKind:
		sh.kind = own
		return ""
	}
	return s.structure(sh, at)
}

// nameable says why generated code cannot name the type.
func (s *shapes) nameable(n *types.Named) string {
	object := n.Obj()
	switch {
	case s.left[object]:
		return "it is marked " + markLeave + ", but a type that is generated holds it"
	case object.Pkg() == nil: // error
		return ""
	case object.Pkg() != s.pkg && !object.Exported():
		return "it is not exported by package " + object.Pkg().Path()
	}
	return ""
}

// structure fills the shape by what its type is made of.
func (s *shapes) structure(sh *shape, at place) (reason string) {
	switch u := sh.typ.Underlying().(type) {
	case *types.Basic:
		sh.kind = basic(u)
		if named(object(sh.typ), "encoding/json", "Number") {
			sh.kind = unsupported
		}
	case *types.Pointer:
		if object(sh.typ) != nil {
			return "a named pointer; give the name to what it points to"
		}
		sh.kind, sh.elem = pointer, s.of(u.Elem(), at)
	case *types.Slice:
		return s.slice(sh, u, at)
	case *types.Array:
		sh.kind, sh.elem = array, s.of(u.Elem(), at.element())
	case *types.Map:
		return s.mapping(sh, u, at)
	case *types.Struct:
		sh.kind = structure
		sh.fields = s.fieldsOf(u, at)
	}
	if sh.kind == unsupported {
		return hint(sh.typ)
	}
	return ""
}

func (s *shapes) slice(sh *shape, u *types.Slice, at place) (reason string) {
	elem := types.Unalias(u.Elem())
	if b, ok := elem.Underlying().(*types.Basic); ok && b.Kind() == types.Uint8 {
		if _, isBasic := elem.(*types.Basic); !isBasic {
			return "a slice of a named byte type; use []byte"
		}
		sh.kind = binary
		return ""
	}
	sh.kind, sh.elem = slice, s.of(u.Elem(), at.element())
	if plainText(sh.elem) {
		sh.kind, sh.elem = texts, nil
	}
	return ""
}

func (s *shapes) mapping(sh *shape, u *types.Map, at place) (reason string) {
	if basic, ok := u.Key().Underlying().(*types.Basic); !ok || basic.Info()&types.IsString == 0 {
		return "a map whose keys are not strings; use a slice of structs, as the Kubernetes API does"
	}
	if key := s.of(u.Key(), at); !plainText(key) {
		return "a map whose keys have methods of their own; use plain strings"
	}
	sh.kind, sh.elem = mapping, s.of(u.Elem(), at.element())
	if plainText(sh.elem) {
		sh.kind, sh.elem = textMap, nil
	}
	return ""
}

func plainText(s *shape) bool { return s.kind == text && s.read == byKind && s.write == byKind }

func basic(b *types.Basic) kind {
	switch {
	case b.Info()&types.IsBoolean != 0:
		return boolean
	case b.Info()&types.IsString != 0:
		return text
	case b.Info()&types.IsUnsigned != 0:
		return unsigned
	case b.Info()&types.IsInteger != 0:
		return signed
	case b.Info()&types.IsFloat != 0:
		return float
	default:
		return unsupported
	}
}

func isRaw(n *types.Named) bool { return named(n.Obj(), "encoding/json", "RawMessage") }

func object(t types.Type) types.Object {
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// hint says why a type has no form, and what to use.
func hint(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Interface:
		return "what an interface holds is not known; use sdk.Raw, or a struct with the fields that matter"
	case *types.Chan, *types.Signature:
		return `it has no form in JSON; leave the field out by json:"-"`
	case *types.Basic:
		if u.Kind() == types.Invalid {
			return "the type is not known; run `go build` to see why"
		}
		if u.Info()&types.IsString != 0 {
			return "use a sized integer, a float, or sdk.Raw"
		}
		return `it has no form in JSON; leave the field out by json:"-"`
	default:
		return "a codec for it cannot be generated"
	}
}
