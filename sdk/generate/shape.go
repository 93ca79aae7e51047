package generate

import (
	"fmt"
	"go/types"
	"slices"
)

// kind is the JSON form of a type.
type kind int

const (
	unsupported kind = iota
	own              // read and written by methods of its own
	boolean
	text
	signed
	unsigned
	float
	binary  // bytes in base64
	raw     // JSON that is not decoded
	pointer // the element, or null
	texts   // an array of strings
	textMap // an object whose members are strings
	slice
	array
	mapping
	structure
)

// implementation is what reads or writes a type.
type implementation int

const (
	generated   implementation = iota // generated code, by its kind
	codecMethod                       // its DecodeJSON or AppendJSON
	visitMethod                       // its VisitJSON
	jsonMethod                        // its UnmarshalJSON or MarshalJSON
	textMethod                        // its UnmarshalText or MarshalText
)

// shape describes the codec of a type.
type shape struct {
	typ    types.Type
	kind   kind
	elem   *shape // of a pointer, slice, array or mapping
	fields []*field

	read, write implementation

	root      bool   // it gets methods
	compact   bool   // a struct that is visited
	local     bool   // methods can be generated for it
	unrolled  bool   // it is read and appended by code of its own, field by field
	name      string // of its functions
	recursive bool   // a value may contain another one of the type
	fallible  bool   // some value has no JSON form
	outlined  bool   // its functions stay functions, whatever the compiler would do

	refused string // the reason why there is no codec
}

// hasFunctions reports whether the shape is read and written by functions.
func (s *shape) hasFunctions() bool { return s.root || s.kind >= slice }

// maxInlined is how many values one function reads or appends, apart from its own fields, before
// the functions of its parts are outlined. A compiler makes the functions that are called once
// part of their caller: of a large spec one function, which hosts refuse.
const maxInlined = 64

// outline decides which functions are outlined, and returns how many values those of the shape
// read or append. done has the shapes that have been looked at.
func (s *shape) outline(done map[*shape]int) int {
	if size, ok := done[s]; ok {
		return size
	}
	done[s] = 1 // for a recursive shape, whose functions cannot be inlined into each other
	size := len(s.parts())
	for _, part := range s.parts() {
		for part.kind == pointer {
			part = part.elem
		}
		if part.root || !part.hasFunctions() || part.read != generated && part.write != generated {
			continue
		}
		if inlined := part.outline(done); size+inlined <= maxInlined {
			size += inlined
		} else {
			part.outlined = true
		}
	}
	done[s] = size
	return size
}

// parts returns the shapes of the values that a value of the shape contains, as far as
// generated code reads and writes them.
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

// shapes computes the shapes of the types that the codec of a package needs.
type shapes struct {
	pkg      *types.Package
	inModule func(*types.Package) bool // the author can change the package
	list     []*shape                  // in the order in which they were found
	root     root                      // whose shapes are being added
	refused  []refusal
}

// refuse records a type without a codec.
func (s *shapes) refuse(at place, t types.Type, reason string) {
	s.refused = append(s.refused, refusal{at, t, reason, s.root})
}

// field returns the place of a field, or of what leads to it if the author cannot
// change it.
func (s *shapes) field(at place, f *types.Var) place {
	if s.inModule(f.Pkg()) {
		at.pos = f.Pos()
	}
	return place{at.pos, at.path + "." + f.Name()}
}

// of returns the shape of a type. A type without a codec is refused at each place. A
// part of it is refused only at the first.
func (s *shapes) of(t types.Type, at place) *shape {
	i := slices.IndexFunc(s.list, func(known *shape) bool { return types.Identical(known.typ, t) })
	if i < 0 {
		i = len(s.list)
		s.list = append(s.list, &shape{typ: t})
		s.list[i].refused = s.describe(s.list[i], at)
	}
	if known := s.list[i]; known.refused != "" {
		s.refuse(at, t, known.refused)
	}
	return s.list[i]
}

// describe sets the fields of a shape, or returns the reason why there is no codec.
func (s *shapes) describe(sh *shape, at place) (reason string) {
	n, isNamed := types.Unalias(sh.typ).(*types.Named)
	if isNamed {
		if reason := s.unnameable(n.Obj()); reason != "" {
			return reason
		}
	}
	sh.read, sh.write = implementations(sh.typ)
	switch {
	case !isNamed && (sh.read != generated || sh.write != generated):
		return "an unnamed struct with the JSON methods of what it embeds; give it a name"
	case isRaw(sh.typ):
		sh.kind, sh.read, sh.write = raw, generated, generated
		return ""
	case sh.read != generated && sh.write != generated:
		sh.kind = own
		return ""
	}
	return s.describeStructure(sh, at)
}

// unnameable returns the reason why generated code cannot use the name of a type.
func (s *shapes) unnameable(object types.Object) (reason string) {
	switch {
	case object.Pkg() == nil: // error
		return ""
	case object.Pkg() != s.pkg && !object.Exported():
		return "it is not exported by package " + object.Pkg().Path()
	}
	return ""
}

// describeStructure sets the kind and the parts of a shape that generated code reads or
// writes, or returns the reason why there is no codec.
func (s *shapes) describeStructure(sh *shape, at place) (reason string) {
	switch u := sh.typ.Underlying().(type) {
	case *types.Basic:
		sh.kind = basicKind(u)
		if named(object(sh.typ), "encoding/json", "Number") {
			sh.kind = unsupported
		}
	case *types.Pointer:
		if object(sh.typ) != nil {
			return "a named pointer; give the name to what it points to"
		}
		sh.kind, sh.elem = pointer, s.of(u.Elem(), at)
	case *types.Slice:
		return s.describeSlice(sh, u, at)
	case *types.Array:
		sh.kind, sh.elem = array, s.of(u.Elem(), at.element())
	case *types.Map:
		return s.describeMap(sh, u, at)
	case *types.Struct:
		sh.kind = structure
		sh.fields = s.fieldsOf(u, at)
		if n := len(sh.fields); n > maxFields {
			return fmt.Sprintf("it has %d fields, and a codec can have %d; group them in structs", n, maxFields)
		}
		if n := words(u); n > maxWords {
			return fmt.Sprintf("its value takes %d words, and one with a codec can take %d: TinyGo gives it to a function word by word; make large fields pointers", n, maxWords)
		}
	}
	if sh.kind == unsupported {
		return whyUnsupported(sh.typ)
	}
	return ""
}

// describeSlice distinguishes bytes, strings and other elements.
func (s *shapes) describeSlice(sh *shape, u *types.Slice, at place) (reason string) {
	elem := types.Unalias(u.Elem())
	if b, ok := elem.Underlying().(*types.Basic); ok && b.Kind() == types.Uint8 {
		if _, isBasic := elem.(*types.Basic); !isBasic {
			return "a slice of a named byte type; use []byte"
		}
		sh.kind = binary
		return ""
	}
	sh.kind, sh.elem = slice, s.of(u.Elem(), at.element())
	if isPlainText(sh.elem) {
		sh.kind, sh.elem = texts, nil
	}
	return ""
}

// describeMap refuses keys that are not plain strings.
func (s *shapes) describeMap(sh *shape, u *types.Map, at place) (reason string) {
	if basic, ok := u.Key().Underlying().(*types.Basic); !ok || basic.Info()&types.IsString == 0 {
		return "a map whose keys are not strings; use a slice of structs, as the Kubernetes API does"
	}
	if key := s.of(u.Key(), at); !isPlainText(key) {
		return "a map whose keys have methods of their own; use plain strings"
	}
	sh.kind, sh.elem = mapping, s.of(u.Elem(), at.element())
	if isPlainText(sh.elem) {
		sh.kind, sh.elem = textMap, nil
	}
	return ""
}

// isPlainText reports whether a shape is a string without methods of its own.
func isPlainText(s *shape) bool {
	return s.kind == text && s.read == generated && s.write == generated
}

// basicKind returns the kind of a basic type. Complex numbers have none.
func basicKind(b *types.Basic) kind {
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

func isRaw(t types.Type) bool { return named(object(t), "encoding/json", "RawMessage") }

// object returns the declaration of a named type, or nil.
func object(t types.Type) types.Object {
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

const (
	noJSONForm = `it has no JSON form; leave the field out by json:"-"`
	notKnown   = "the type is not known; run `go build` to see why"
)

// whyUnsupported returns the reason why a type has no JSON form, and what to use instead.
func whyUnsupported(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Interface:
		return "the type of the value in an interface is not known; use sdk.Raw, or a struct with the fields that the plugin uses"
	case *types.Chan, *types.Signature:
		return noJSONForm
	case *types.Basic:
		if u.Kind() == types.Invalid {
			return notKnown
		}
		if u.Info()&types.IsString != 0 {
			return "use a sized integer, a float, or sdk.Raw"
		}
		return noJSONForm
	default:
		return "no codec can be generated for it"
	}
}

// implementations returns what reads and what writes a type. As in encoding/json,
// methods of its own take precedence over generated code.
func implementations(t types.Type) (read, write implementation) {
	if _, isPointer := t.Underlying().(*types.Pointer); isPointer {
		return generated, generated
	}
	if hasVisitMethod(t) {
		return visitMethod, visitMethod
	}
	switch {
	case hasCodecMethod(t, "DecodeJSON", "UnmarshalJSON", []string{"*" + modulePath + "/abi/rawjson.Reader"}, nil):
		read = codecMethod
	case method(t, "UnmarshalJSON", []string{"[]byte"}, []string{"error"}) != nil:
		read = jsonMethod
	case method(t, "UnmarshalText", []string{"[]byte"}, []string{"error"}) != nil:
		read = textMethod
	}
	switch {
	case hasCodecMethod(t, "AppendJSON", "MarshalJSON", []string{"[]byte"}, []string{"[]byte", "error"}):
		write = codecMethod
	case method(t, "MarshalJSON", nil, []string{"[]byte", "error"}) != nil:
		write = jsonMethod
	case method(t, "MarshalText", nil, []string{"[]byte", "error"}) != nil:
		write = textMethod
	}
	return read, write
}

// hasCodecMethod reports whether the type has a method of a codec. A method that is
// promoted from an embedded type counts only if encoding/json too would use a promoted
// method for the whole struct.
func hasCodecMethod(t types.Type, name, standard string, params, results []string) bool {
	path := method(t, name, params, results)
	_, standardPath, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, nil, standard)
	return path != nil && (len(path) == 1 || len(standardPath) > 1)
}

// hasVisitMethod reports whether the type has a compact codec.
func hasVisitMethod(t types.Type) bool {
	return hasCodecMethod(t, "VisitJSON", "MarshalJSON", []string{"*" + codecPath + ".Visitor"}, nil)
}

// inheritsCodec reports whether a struct has the methods of a codec from what it embeds. The
// SDK would use them for the whole struct.
func inheritsCodec(t types.Type) bool {
	for _, name := range []string{"DecodeJSON", "AppendJSON", "VisitJSON"} {
		if _, path, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, nil, name); len(path) > 1 {
			return true
		}
	}
	return false
}

// method returns the path of embedded fields to a method with that signature, whose
// last step is the method itself, or nil if there is none.
func method(t types.Type, name string, params, results []string) []int {
	found, path, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, nil, name)
	f, ok := found.(*types.Func)
	if !ok || !slices.Equal(typesOf(f.Signature().Params()), params) || !slices.Equal(typesOf(f.Signature().Results()), results) {
		return nil
	}
	return path
}

// typesOf returns the names of the types of parameters or results.
func typesOf(tuple *types.Tuple) (names []string) {
	for i := range tuple.Len() {
		names = append(names, unaliased(tuple.At(i).Type()))
	}
	return names
}

// unaliased returns the name of a type without aliases.
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
