package cache

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/thole-dev/thole/host/object"
)

// kindEdges holds the edges of one kind. It is guarded by edges.mu.
type kindEdges struct {
	informer *Informer
	remove   func()               // removes the handler from the informer
	unsynced map[*reader]struct{} // read the kind before it had synced; nil since then

	objects map[object.Key]*readers
	lists   map[listID]*listEdge
	byLabel map[labelID][]*listEdge // the lists by a label that they require
}

// listID identifies a list. The selector is in canonical form.
type listID struct{ namespace, selector string }

// labelID is the value of a label that a selector requires. Without a label it
// stands for all selectors of the namespace that require none.
type labelID struct{ namespace, label, value string }

// listEdge is a list with the owners that depend on it.
type listEdge struct {
	id       listID
	selector labels.Selector
	label    labelID // key in kindEdges.byLabel
	readers  readers
}

func newKindEdges(informer *Informer) *kindEdges {
	return &kindEdges{
		informer: informer,
		unsynced: map[*reader]struct{}{},
		objects:  map[object.Key]*readers{},
		lists:    map[listID]*listEdge{},
		byLabel:  map[labelID][]*listEdge{},
	}
}

func (k *kindEdges) empty() bool { return len(k.objects)+len(k.lists) == 0 }

// listFor returns the list of a namespace and a selector. If the namespace has
// maxSelectors selectors that require no label, it is the list of everything.
func (k *kindEdges) listFor(namespace string, sel labels.Selector) *listEdge {
	id := listID{namespace, sel.String()}
	if l := k.lists[id]; l != nil {
		return l
	}
	id.namespace = strings.Clone(namespace)
	if own, err := labels.Parse(id.selector); err == nil && !sel.Empty() {
		sel = own // does not alias the message of the guest, unlike sel
	}
	l := &listEdge{id: id, selector: sel, label: requiredLabel(id.namespace, sel)}
	if l.label.label == "" && !sel.Empty() && len(k.byLabel[l.label]) >= maxSelectors {
		return k.listFor(namespace, labels.Everything())
	}
	return l
}

// requiredLabel returns a label that the selector requires of every object with
// one value.
func requiredLabel(namespace string, sel labels.Selector) labelID {
	requirements, _ := sel.Requirements()
	for _, r := range requirements {
		if op := r.Operator(); op != selection.Equals && op != selection.DoubleEquals && op != selection.In {
			continue
		}
		if values := r.ValuesUnsorted(); len(values) == 1 {
			return labelID{namespace, r.Key(), values[0]}
		}
	}
	return labelID{namespace: namespace}
}

// size returns how many bytes of names and selectors the edge keeps.
func (at edge) size() int {
	if at.list != nil {
		return len(at.list.id.namespace) + len(at.list.id.selector)
	}
	return len(at.key.Namespace) + len(at.key.Name)
}

// readers returns the owners of the edge, nil if it has none.
func (at edge) readers() *readers {
	if at.list != nil {
		return &at.list.readers
	}
	return at.kind.objects[at.key]
}

// has reports whether the owner is registered.
func (at edge) has(r *reader) bool { return at.readers().has(r) }

// add registers an owner, and the object or list for the first owner. It reports
// whether the owner was not registered before.
func (at edge) add(r *reader) bool {
	k := at.kind
	switch {
	case at.list != nil && k.lists[at.list.id] == nil:
		k.lists[at.list.id] = at.list
		k.byLabel[at.list.label] = append(k.byLabel[at.list.label], at.list)
	case at.list == nil && k.objects[at.key] == nil:
		k.objects[at.key] = &readers{}
	}
	return at.readers().add(r)
}

// remove removes an owner, which is registered, and the object or list with the
// last owner.
func (at edge) remove(r *reader) {
	set := at.readers()
	set.remove(r)
	switch {
	case !set.empty():
	case at.list != nil:
		at.kind.removeList(at.list)
	default:
		delete(at.kind.objects, at.key)
	}
}

func (k *kindEdges) removeList(l *listEdge) {
	delete(k.lists, l.id)
	k.byLabel[l.label] = slices.DeleteFunc(k.byLabel[l.label], func(o *listEdge) bool { return o == l })
	if len(k.byLabel[l.label]) == 0 {
		delete(k.byLabel, l.label)
	}
}

// dependents returns the owners that depend on an object, before or after the
// event.
func (k *kindEdges) dependents(event Event) map[*reader]struct{} {
	found := map[*reader]struct{}{}
	k.objects[event.Object().Key()].collect(found)
	for _, o := range []*object.Object{event.Old, event.New} {
		if o != nil {
			k.collectLists(o, found)
		}
	}
	return found
}

// collectLists adds the owners that depend on a list with the object.
func (k *kindEdges) collectLists(o *object.Object, found map[*reader]struct{}) {
	set := labels.Set(o.Labels)
	collect := func(id labelID) {
		for _, l := range k.byLabel[id] {
			if l.selector.Matches(set) {
				l.readers.collect(found)
			}
		}
	}
	for _, namespace := range slices.Compact([]string{o.Namespace, ""}) {
		collect(labelID{namespace: namespace})
		for label, value := range o.Labels {
			collect(labelID{namespace, label, value})
		}
	}
}

// readers is a set of owners; nil is an empty one. Most sets have one or two, but
// an object may be read by every key.
type readers struct {
	few  []*reader
	many map[*reader]struct{} // replaces few when there are more than fewReaders
}

const fewReaders = 16

func (s *readers) empty() bool { return len(s.few) == 0 && len(s.many) == 0 }

func (s *readers) add(r *reader) bool {
	if s.has(r) {
		return false
	}
	if s.many == nil && len(s.few) == fewReaders {
		s.many = make(map[*reader]struct{}, 2*fewReaders)
		s.collect(s.many)
		s.few = nil
	}
	if s.many != nil {
		s.many[r] = struct{}{}
	} else {
		s.few = append(s.few, r)
	}
	return true
}

func (s *readers) has(r *reader) bool {
	if s == nil {
		return false
	}
	_, ok := s.many[r]
	return ok || slices.Contains(s.few, r)
}

func (s *readers) remove(r *reader) {
	delete(s.many, r)
	s.few = slices.DeleteFunc(s.few, func(other *reader) bool { return other == r })
}

func (s *readers) collect(into map[*reader]struct{}) {
	if s == nil {
		return
	}
	for _, r := range s.few {
		into[r] = struct{}{}
	}
	maps.Copy(into, s.many)
}
