package edges

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/thole-dev/thole/host/object"
)

// edge is what a reader holds of one thing that it has read.
type edge struct {
	kind      *Kind
	id        uint64 // a hash of what was read
	namespace uint32 // a hash; 0 for all namespaces
	shape     uint8  // number of the shape of a list in Kind.shapes, 0 for none
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
	rest *rest // of a list; nil if the id says all
}

func (t *target) bytes() int64 {
	if t.rest != nil {
		return edgeBytes + t.rest.bytes()
	}
	return edgeBytes
}

// shape is a set of labels that lists require to have one value each, such as
// "app=x,tier=y". The lists of a shape are found by the hash of the values, however
// many there are.
type shape struct {
	labels []string // sorted
	edges  int      // of this shape
	plugin *plugin  // that read the first list of this shape
}

// rest is the part of a selector that no shape expresses, which has to be evaluated
// for each object that the list could have.
type rest struct {
	id       uint64 // of the edges to the list
	parent   uint64 // the id of the list without the rest
	selector labels.Selector
	size     int
	plugin   *plugin // that read the list first
}

func (r *rest) bytes() int64 { return selectorBytes + int64(r.size)*textFactor }

const (
	// What the lists of one plugin may ask of a kind. Lists beyond that are taken
	// for larger ones. This bounds what an event costs: a hash for each shape and
	// namespace, and an evaluation for each selector, before and after the change.
	maxShapes        = 8   // of one plugin
	maxRests         = 64  // of one plugin
	maxSelectorBytes = 512 // of a selector that is evaluated
	maxRequirements  = 8   // of a selector that is evaluated
	maxKindShapes    = 200 // of all plugins
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

func (k *Kind) namespace(name string) uint32 {
	if name == "" {
		return 0
	}
	return uint32(k.hash('N', name)) | 1
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
func (k *Kind) list(p *plugin, namespace string, sel labels.Selector) target {
	t := k.everything(namespace)
	if sel == nil || sel.Empty() {
		return t
	}
	requirements, _ := sel.Requirements()
	values, others := split(requirements)
	if len(values) > 0 {
		number, labels := k.shape(p, values)
		if number == 0 {
			return t
		}
		t.shape = number
		t.id = k.shapeID(number, namespace, func(i int) string { return values[labels[i]] })
	}
	if len(others) > 0 {
		t.rest = k.restOf(p, t.id, others)
	}
	if t.rest != nil {
		t.id = t.rest.id
	}
	return t
}

// split separates the labels that must have one value from other requirements.
func split(requirements labels.Requirements) (values map[string]string, others []labels.Requirement) {
	values = map[string]string{}
	for _, r := range requirements {
		value, one := onlyValue(r)
		if before, twice := values[r.Key()]; one && (!twice || before == value) {
			values[r.Key()] = value
			continue
		}
		others = append(others, r)
	}
	return values, others
}

// onlyValue returns the one value that a requirement allows.
func onlyValue(r labels.Requirement) (value string, one bool) {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		if all := r.ValuesUnsorted(); len(all) == 1 {
			return all[0], true
		}
	default:
	}
	return "", false
}

// shape returns the number of the shape with the labels of values, and these labels
// in order. If the plugin has no shape left, it is one with fewer labels; 0 if there
// is none.
func (k *Kind) shape(p *plugin, values map[string]string) (number uint8, of []string) {
	wanted := make([]string, 0, len(values))
	for name := range values {
		wanted = append(wanted, name)
	}
	slices.Sort(wanted)
	free := 0
	for n := len(k.shapes) - 1; n > 0; n-- {
		switch s := k.shapes[n]; {
		case s == nil:
			free = n
		case slices.Equal(s.labels, wanted):
			return uint8(n), s.labels
		}
	}
	if len(wanted) <= maxRequirements && k.made[p].shapes < maxShapes && (free > 0 || len(k.shapes) < maxKindShapes) {
		if free == 0 {
			free = len(k.shapes)
			k.shapes = append(k.shapes, nil)
		}
		for i, name := range wanted { // aliases the message of the guest
			wanted[i] = strings.Clone(name)
		}
		k.shapes[free] = &shape{labels: wanted, plugin: p}
		k.count(p, 1, 0)
		return uint8(free), wanted
	}
	return k.partOf(values)
}

// partOf returns a shape all of whose labels are in values.
func (k *Kind) partOf(values map[string]string) (number uint8, of []string) {
	for n, s := range k.shapes {
		if s != nil && !slices.ContainsFunc(s.labels, func(name string) bool { _, ok := values[name]; return !ok }) {
			return uint8(n), s.labels
		}
	}
	return 0, nil
}

// shapeID returns the identity of the lists of a shape with these values.
func (k *Kind) shapeID(number uint8, namespace string, value func(i int) string) uint64 {
	var h maphash.Hash
	h.SetSeed(k.index.seed)
	h.WriteByte('l')
	h.WriteByte(number)
	k.hashPart(&h, namespace)
	for i := range k.shapes[number].labels {
		k.hashPart(&h, value(i))
	}
	return h.Sum64()
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
