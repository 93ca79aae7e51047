package kubernetestypes

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
)

// model has the types of all packages.
type model struct {
	schemas Schemas
	structs map[string]*structure // by the name of the schema
	order   []string              // of structs, in that of their first use
}

// structure is a struct type.
type structure struct {
	schema string // the name of its schema
	name   string // in Kubernetes
	fields []*field
	atomic bool // server-side apply has one owner for all of it

	pkg  string // the package that it is in
	root bool   // it is marked, and gets a codec with all that it consists of
}

// field is a field of a struct.
type field struct {
	name   string // in Go
	json   string
	always bool // it is written even if it is zero
	typ    *typ
	// markers are those of controller-tools for what the type does not say, without the
	// plus sign.
	markers []string
}

// typ is the type of a field, or of its elements.
type typ struct {
	pointer bool
	prefix  string // "[]", "map[string]", or both, before the following
	plain   string // a type of Go, or of package sdk
	schema  string // of a struct, if plain is empty
}

// common are the types that package sdk has.
var common = map[string]string{
	"io.k8s.apimachinery.pkg.apis.meta.v1.Condition":     "sdk.Condition",
	"io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector": "sdk.LabelSelector",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":     "sdk.MicroTime",
	"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":    "sdk.ObjectMeta",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":          "sdk.Time",
	"io.k8s.apimachinery.pkg.api.resource.Quantity":      "sdk.Quantity",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString":    "sdk.IntOrString",
}

// scalars are the types of numbers and other scalars, by type and format.
var scalars = map[string]string{
	"boolean": "bool", "string": "string", "string byte": "[]byte",
	"integer int32": "int32", "integer int64": "int64",
}

// newModel reads the types of all packages and decides in which each is.
func newModel(schemas Schemas) (*model, error) {
	m := &model{schemas: schemas, structs: map[string]*structure{}}
	for _, p := range Packages {
		name, err := schemas.of(p.Kind)
		if err != nil {
			return nil, err
		}
		object, err := scheme.Scheme.New(p.Kind)
		if err != nil {
			return nil, err
		}
		if err := m.add(name, reflect.TypeOf(object).Elem()); err != nil {
			return nil, err
		}
	}
	return m, m.place()
}

// add adds the struct of a schema, and those that it consists of.
func (m *model) add(schema string, t reflect.Type) error {
	if m.structs[schema] != nil {
		return nil
	}
	p := m.schemas.byName[schema]
	if p == nil || p.Type != "object" {
		return fmt.Errorf("%s is no object in the OpenAPI", schema)
	}
	s := &structure{schema: schema, name: path.Ext(schema)[1:], atomic: p.MapType == "atomic"}
	m.structs[schema], m.order = s, append(m.order, schema)
	for _, g := range goFields(t) {
		name, options, _ := strings.Cut(g.Tag.Get("json"), ",")
		described := p.Properties[name]
		if described == nil {
			continue // of a feature that the API server does not have
		}
		typ, err := m.typeOf(described, g.Type)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", schema, name, err)
		}
		f := &field{name: g.Name, json: name, always: !strings.Contains(options, "omitempty"), typ: typ}
		f.markers = described.markers(slices.Contains(p.Required, name), f)
		s.fields = append(s.fields, f)
	}
	if len(s.fields) != len(p.Properties) {
		return fmt.Errorf("%s has %d fields, and %d of them in k8s.io/api: require the version of the API server in go.mod", schema, len(p.Properties), len(s.fields))
	}
	return nil
}

// markers returns the markers of a field with that schema. Those for what is required are
// complete: the tag of a field does not say it.
func (p *property) markers(required bool, f *field) (all []string) {
	if required {
		all = append(all, "required")
	} else {
		all = append(all, "optional")
	}
	// A field that is always written has a default only because its type has a zero value.
	if isScalar := p.reference() == "" && p.Type != "object" && p.Type != "array"; p.Default != nil && isScalar && !f.always {
		all = append(all, "default="+string(p.Default))
	}
	if p.ListType != "" {
		all = append(all, "listType="+p.ListType)
	}
	for _, key := range p.ListKeys {
		all = append(all, "listMapKey="+key)
	}
	if p.MapType != "" {
		all = append(all, "mapType="+p.MapType)
	}
	return all
}

// goFields returns the fields of a struct in JSON, with those of embedded structs.
func goFields(t reflect.Type) (fields []reflect.StructField) {
	for f := range t.Fields() {
		switch {
		case f.Anonymous && strings.HasPrefix(f.Tag.Get("json"), ","):
			fields = append(fields, goFields(f.Type)...)
		case f.Tag.Get("json") == "-":
		case f.Name == "ObjectMeta":
			f.Name = "Metadata" // it is embedded, with a name in JSON
			fields = append(fields, f)
		default:
			fields = append(fields, f)
		}
	}
	return fields
}

// typeOf returns the type of a property, which has the type g in k8s.io/api.
func (m *model) typeOf(p *property, g reflect.Type) (*typ, error) {
	pointer := g.Kind() == reflect.Pointer
	if pointer {
		g = g.Elem()
	}
	schema := p.reference()
	switch plain := common[schema]; {
	case plain != "":
		// The zero values of these are no value in JSON.
		textual := slices.Contains([]string{"sdk.Time", "sdk.MicroTime", "sdk.Quantity"}, plain)
		return &typ{pointer: pointer && !textual, plain: plain}, nil
	case schema != "":
		return &typ{pointer: pointer, schema: schema}, m.add(schema, g)
	case p.Type == "array":
		return m.collection("[]", p.Items, g)
	case p.Type == "object" && p.Values != nil:
		return m.collection("map[string]", p.Values, g)
	}
	plain := scalars[strings.TrimSpace(p.Type+" "+p.Format)]
	if plain == "" {
		return nil, fmt.Errorf("no type for %q with format %q", p.Type, p.Format)
	}
	return &typ{pointer: pointer, plain: plain}, nil
}

// collection returns the type of a list or map with such elements.
func (m *model) collection(prefix string, elements *property, g reflect.Type) (*typ, error) {
	t, err := m.typeOf(elements, g.Elem())
	if err != nil {
		return nil, err
	}
	t.prefix = prefix + t.prefix
	return t, nil
}

// place decides in which package each struct is: in that of the kind or part that
// alone reaches it without another part, and otherwise in package shared.
func (m *model) place() error {
	seeds := map[string]string{} // the package by the name of the schema
	for _, p := range Packages {
		for _, name := range append([]string{p.Kind.Kind}, p.Parts...) {
			schema, err := m.named(name)
			if err != nil {
				return err
			}
			seeds[schema.schema] = p.name()
			schema.root = true
		}
	}
	for schema, pkg := range seeds {
		m.structs[schema].pkg = pkg
		m.reach(m.structs[schema], pkg, seeds)
	}
	return nil
}

// named returns the struct of that name in Kubernetes.
func (m *model) named(name string) (*structure, error) {
	for _, schema := range m.order {
		if m.structs[schema].name == name {
			return m.structs[schema], nil
		}
	}
	return nil, fmt.Errorf("no kind has a %s", name)
}

// reach places what a struct consists of in the package, as far as it is not in
// another one.
func (m *model) reach(s *structure, pkg string, seeds map[string]string) {
	for _, f := range s.fields {
		part := m.structs[f.typ.schema]
		switch {
		case part == nil || seeds[part.schema] != "" || part.pkg == pkg || part.pkg == shared:
			continue
		case part.pkg != "":
			part.pkg, part.root = shared, true
		default:
			part.pkg = pkg
		}
		m.reach(part, part.pkg, seeds)
	}
}
