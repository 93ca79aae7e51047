package openapi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/rawjson"
)

const (
	maxSchemas = 20_000 // of a document. That of the core API has 300
	// What may be read of the schemas for one path, in bytes, and what each of them
	// counts beside its text. It takes less than a second, whatever the references
	// between schemas are.
	maxRead    = 64 << 20
	schemaCost = 4 << 10
)

var errTooComplex = errors.New("its schemas lead to too many others")

// document has the schemas of one document by name, as texts. They alias it.
type document struct {
	schemas map[string][]byte
	left    int // bytes that may still be read for the present path
}

func readDocument(text []byte) (*document, error) {
	d := &document{schemas: map[string][]byte{}}
	r := rawjson.NewReader(text)
	r.Object(func(name string) {
		if name != "components" {
			return
		}
		r.Object(func(name string) {
			if name == "schemas" {
				r.Object(func(name string) { d.add(r, name) })
			}
		})
	})
	return d, r.End()
}

func (d *document) add(r *rawjson.Reader, name string) {
	if len(d.schemas) == maxSchemas {
		r.Fail("more than " + strconv.Itoa(maxSchemas) + " schemas")
		return
	}
	d.schemas[name] = r.Raw()
}

// schemasOf returns the schemas that are of a kind: one, unless the document is wrong.
func (d *document) schemasOf(kind abi.Kind) (all [][]byte, err error) {
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return nil, err
	}
	for _, text := range d.schemas {
		is, err := isOf(text, gv.WithKind(kind.Kind))
		if err != nil {
			return nil, err
		}
		if is {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the document has no schema of the kind")
	}
	return all, nil
}

func isOf(text []byte, kind schema.GroupVersionKind) (is bool, err error) {
	r := rawjson.NewReader(text)
	r.Object(func(name string) {
		if name != "x-kubernetes-group-version-kind" {
			return
		}
		r.Array(func(int) {
			var of schema.GroupVersionKind
			r.Object(func(name string) {
				switch name {
				case "group":
					of.Group = r.String()
				case "version":
					of.Version = r.String()
				case "kind":
					of.Kind = r.String()
				}
			})
			is = is || of == kind
		})
	})
	return is, r.End()
}

// follow follows a path from schemas that all apply to one object. problem is what is
// wrong with it, "" for nothing.
func (d *document) follow(schemas [][]byte, path fieldpath.Path) (problem string, err error) {
	d.left = maxRead
	steps := path.Steps()
	for i, step := range steps {
		s, err := d.shapeOf(schemas)
		if err != nil {
			return "", err
		}
		next, err := d.at(s, step)
		if err != nil {
			return "", err
		}
		if len(next) == 0 {
			if s.leavesOpen(step) || i == 0 && slices.Contains(inEveryObject, step) {
				return "", nil
			}
			return s.problem(steps[:i], step), nil
		}
		schemas = next
	}
	s, err := d.shapeOf(schemas)
	if err != nil || !s.hasNoValue() {
		return "", err
	}
	return s.problem(steps, ""), nil
}

var inEveryObject = []string{"apiVersion", "kind", "metadata"}

// at returns the schemas of a member, or of the elements.
func (d *document) at(s *shape, step string) (next [][]byte, err error) {
	if step == eachElement {
		return s.items, nil
	}
	for _, properties := range s.properties {
		if err := d.charge(properties); err != nil {
			return nil, err
		}
		if member, ok := rawjson.Lookup(properties, step); ok {
			next = append(next, member)
		}
	}
	if len(next) == 0 {
		return s.additional, nil
	}
	return next, nil
}

// charge counts the reading of a text.
func (d *document) charge(text []byte) error {
	if d.left -= len(text) + schemaCost; d.left < 0 {
		return errTooComplex
	}
	return nil
}

// shapeOf returns what the schemas state together.
func (d *document) shapeOf(schemas [][]byte) (*shape, error) {
	s := &shape{}
	for _, text := range schemas {
		if err := d.read(s, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// read adds what a schema states, with those that it refers to.
func (d *document) read(s *shape, text []byte) error {
	if err := d.charge(text); err != nil {
		return err
	}
	others, reference, err := s.add(text)
	if err != nil {
		return err
	}
	if reference != "" {
		name, _ := strings.CutPrefix(reference, "#/components/schemas/")
		if other, ok := d.schemas[name]; ok {
			others = append(others, other)
		} else {
			s.open = true
		}
	}
	for _, other := range others {
		if err := d.read(s, other); err != nil {
			return err
		}
	}
	return nil
}

// textOf returns the text of a path up to a step, as people write it.
func textOf(steps []string) string {
	var b strings.Builder
	for i, step := range steps {
		if i > 0 && step != eachElement {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	if b.Len() == 0 {
		return "the object"
	}
	return fmt.Sprintf("%q", b.String())
}
