package edges

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// edge is what a reader holds of one thing that it has read.
type edge struct {
	kind      *Kind
	id        uint64 // a hash of what was read
	namespace uint64 // a hash; 0 for all namespaces
	shape     uint8  // number of the shape of a list in Kind.shapes, 0 for none
	part      uint8  // number of what is read of the objects in Kind.parts, 0 for all
	seen      bool   // read by the open run
	committed bool   // read by the last run that returned a result
}

// identity is what distinguishes the edges of a reader.
type identity struct {
	kind *Kind
	id   uint64
}

func (e *edge) identity() identity { return identity{e.kind, e.id} }

// target is what an edge leads to.
type target struct {
	edge
	rest   *rest // of a list; nil if the id says all
	larger bool  // than the list that was read
}

func (t *target) bytes() int64 {
	if t.rest != nil {
		return edgeBytes + t.rest.bytes()
	}
	return edgeBytes
}

// shape is a set of labels that lists require to have one value each, such as
// "app=x,tier=y", and perhaps a field. The lists of a shape are found by the hash of
// the values, however many there are.
type shape struct {
	labels []string // sorted
	path   string   // of the field, or controllerPath; "" for none
	field  fieldpath.Path
	ids    map[uint64]struct{} // of its edges, if it has a field
	edges  int                 // of this shape
	plugin *plugin             // that read the first list of this shape
}

// part is what is read of objects: a change elsewhere wakes nobody.
type part struct {
	fields fieldpath.Set
	salt   uint64 // what distinguishes its edges from those to whole objects
	edges  int
	plugin *plugin // that read it first
}

// rest is the part of a selector that no shape expresses, which has to be evaluated
// for each object that the list could have.
type rest struct {
	id       uint64 // of the edges to the list, of whole objects
	parent   uint64 // the id of the list without the rest
	selector labels.Selector
	size     int
	edges    int
	plugin   *plugin // that read the list first
}

func (r *rest) bytes() int64 { return selectorBytes + int64(r.size)*textFactor }

const (
	// What the lists of one plugin may ask of a kind. Lists beyond that are taken
	// for larger ones. This bounds what an event costs: a hash for each shape and
	// namespace, and an evaluation for each selector, before and after the change.
	maxShapes        = 8   // of one plugin
	maxParts         = 8   // of one plugin
	maxRests         = 64  // of one plugin
	maxSelectorBytes = 512 // of a selector that is evaluated
	maxRequirements  = 8   // of a selector that is evaluated
	maxNumber        = 200 // of shapes, and of parts, of all plugins
)

// hash returns the identity of what is named by the parts.
func (k *Kind) hash(what byte, parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(k.index.seed)
	h.WriteByte(what)
	for _, part := range parts {
		k.hashPart(&h, part)
	}
	return h.Sum64()
}

func (*Kind) hashPart(h *maphash.Hash, part string) {
	var size [4]byte
	binary.LittleEndian.PutUint32(size[:], uint32(len(part)))
	h.Write(size[:])
	h.WriteString(part)
}

func (k *Kind) namespace(name string) uint64 {
	if name == "" {
		return 0
	}
	return k.hash('N', name) | 1
}

// object returns the target of a read of one object.
func (k *Kind) object(key object.Key) target {
	return target{edge: edge{kind: k, id: k.hash('o', key.Namespace, key.Name), namespace: k.namespace(key.Namespace)}}
}

// everything returns the target of a list without a selector.
func (k *Kind) everything(namespace string) target {
	return target{edge: edge{kind: k, id: k.everythingID(namespace), namespace: k.namespace(namespace)}}
}

func (k *Kind) everythingID(namespace string) uint64 { return k.hash('n', namespace) }

// list returns the target of a list by a plugin. The kind is locked.
func (k *Kind) list(p *plugin, namespace string, sel Selection) target {
	t := k.everything(namespace)
	values, others, all := sel.split()
	t.larger = !all
	if len(values) > 0 {
		t.shape = k.shape(p, values)
		t.larger = t.larger || t.shape == 0 || k.shapes[t.shape].names() < len(values)
	}
	if t.shape != 0 {
		s := k.shapes[t.shape]
		t.id = k.shapeID(t.shape, namespace, values[":"+s.path], func(label string) string { return values[label] })
	}
	if len(others) > 0 {
		if t.rest = k.restOf(p, t.id, others); t.rest != nil {
			t.id = t.rest.id
		} else {
			t.larger = true
		}
	}
	return t
}

// names returns how many labels and fields the shape has.
func (s *shape) names() int {
	if s.path == "" {
		return len(s.labels)
	}
	return len(s.labels) + 1
}

// shape returns the number of the shape with the names of values. If the plugin has no
// shape left, it is one with fewer; 0 if there is none.
func (k *Kind) shape(p *plugin, values map[string]string) uint8 {
	wanted := &shape{plugin: p}
	for name := range values {
		if path, isField := strings.CutPrefix(name, ":"); isField {
			wanted.path = path
		} else {
			wanted.labels = append(wanted.labels, name)
		}
	}
	slices.Sort(wanted.labels)
	for n, s := range k.shapes {
		if s != nil && s.path == wanted.path && slices.Equal(s.labels, wanted.labels) {
			return uint8(n)
		}
	}
	free := freeNumber(k.shapes)
	if free == 0 || len(values) > maxRequirements || k.made[p].shapes >= maxShapes {
		return k.smallerShape(values)
	}
	if err := wanted.own(); err != nil {
		return 0
	}
	k.shapes = put(k.shapes, free, wanted)
	k.count(p, made{shapes: 1}, 1)
	return free
}

// own makes the shape keep no text of a guest.
func (s *shape) own() (err error) {
	for i, name := range s.labels {
		s.labels[i] = strings.Clone(name)
	}
	switch s.path {
	case "":
		return nil
	case controllerPath:
	default:
		s.field, err = fieldpath.ParsePath(strings.Clone(s.path))
		s.path = s.field.String()
	}
	s.ids = map[uint64]struct{}{}
	return err
}

// freeNumber returns a number that nothing has, 0 if there is none.
func freeNumber[T any](all []*T) uint8 {
	for n := 1; n < len(all); n++ {
		if all[n] == nil {
			return uint8(n)
		}
	}
	if len(all) < maxNumber {
		return uint8(max(len(all), 1))
	}
	return 0
}

// put gives something a free number.
func put[T any](all []*T, number uint8, v *T) []*T {
	for len(all) <= int(number) {
		all = append(all, nil)
	}
	all[number] = v
	return all
}

// smallerShape returns a shape all of whose names are in values.
func (k *Kind) smallerShape(values map[string]string) uint8 {
	for n, s := range k.shapes {
		if s != nil && s.within(values) {
			return uint8(n)
		}
	}
	return 0
}

func (s *shape) within(values map[string]string) bool {
	if _, ok := values[":"+s.path]; s.path != "" && !ok {
		return false
	}
	return !slices.ContainsFunc(s.labels, func(name string) bool { _, ok := values[name]; return !ok })
}

// shapeID returns the identity of the lists of a shape with these values.
func (k *Kind) shapeID(number uint8, namespace, field string, label func(name string) string) uint64 {
	var h maphash.Hash
	h.SetSeed(k.index.seed)
	h.WriteByte('l')
	h.WriteByte(number)
	k.hashPart(&h, namespace)
	k.hashPart(&h, field)
	for _, name := range k.shapes[number].labels {
		k.hashPart(&h, label(name))
	}
	return h.Sum64()
}

// withPart returns a target of which only some fields are read. If the plugin has no
// part left, that counts as the whole. The fields are kept. The kind is locked.
func (k *Kind) withPart(p *plugin, t target, fields fieldpath.Set) target {
	if fields.All() || t.larger { // an object may enter the list and stay in the larger one
		return t
	}
	for n, other := range k.parts {
		if other != nil && other.fields.String() == fields.String() {
			return t.ofPart(uint8(n), other)
		}
	}
	free := freeNumber(k.parts)
	if free == 0 || k.made[p].parts >= maxParts {
		return t
	}
	own := &part{fields: fields, salt: k.hash('p', fields.String()), plugin: p}
	k.parts = put(k.parts, free, own)
	k.count(p, made{parts: 1}, 1)
	return t.ofPart(free, own)
}

func (t target) ofPart(number uint8, of *part) target {
	t.part, t.id = number, t.id^of.salt
	return t
}

// restOf returns the rest of a selector, nil if it is too large or the plugin has
// too many: the list then counts as one without it.
func (k *Kind) restOf(p *plugin, parent uint64, others []labels.Requirement) *rest {
	sel := labels.NewSelector().Add(others...)
	text := sel.String()
	id := k.hash('s', text) ^ parent
	if r := k.rests[id]; r != nil {
		return r
	}
	if len(text) > maxSelectorBytes || len(others) > maxRequirements || k.made[p].rests >= maxRests {
		return nil
	}
	own, err := labels.Parse(strings.Clone(text)) // does not alias the message of the guest
	if err != nil {
		return nil
	}
	return &rest{id: id, parent: parent, selector: own, size: len(text), plugin: p}
}
