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
	remove   func() // removes the handler from the informer
	count    int    // of edges

	objects map[object.Key]*readers
	lists   map[listID]*listEdge
	// Each list is in exactly one of these.
	byLabel    map[labelID][]*listEdge // selectors that require a label's value
	other      []*listEdge             // other selectors
	everything map[string]*listEdge    // selectors that match everything, by namespace
}

// listID identifies a list. The selector is in canonical form.
type listID struct{ namespace, selector string }

// labelID is the value of a label that a selector requires.
type labelID struct{ namespace, label, value string }

// listEdge is a list with the owners that depend on it.
type listEdge struct {
	id       listID
	selector labels.Selector
	label    *labelID // key in kindEdges.byLabel; nil if it is not there
	readers  readers
}

func newKindEdges(informer *Informer) *kindEdges {
	return &kindEdges{
		informer:   informer,
		objects:    map[object.Key]*readers{},
		lists:      map[listID]*listEdge{},
		byLabel:    map[labelID][]*listEdge{},
		everything: map[string]*listEdge{},
	}
}

func (k *kindEdges) empty() bool { return k.count == 0 }

// listFor returns the list of a namespace and a selector. If the kind has
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
	l := &listEdge{id: id, selector: sel, label: equality(id.namespace, sel)}
	if l.label == nil && !sel.Empty() && len(k.other) >= maxSelectors {
		return k.listFor(namespace, labels.Everything())
	}
	return l
}

// equality returns the value of a label that the selector requires of every
// object, nil if there is none.
func equality(namespace string, sel labels.Selector) *labelID {
	requirements, selectable := sel.Requirements()
	if !selectable {
		return nil
	}
	for _, r := range requirements {
		if op := r.Operator(); op != selection.Equals && op != selection.DoubleEquals && op != selection.In {
			continue
		}
		if values := r.ValuesUnsorted(); len(values) == 1 {
			return &labelID{namespace, r.Key(), values[0]}
		}
	}
	return nil
}

// size returns how many bytes of names and selectors the edge keeps.
func (at edge) size() int {
	if at.list != nil {
		return len(at.list.id.namespace) + len(at.list.id.selector)
	}
	return len(at.key.Namespace) + len(at.key.Name)
}

// detach returns the edge with copies of its strings, which alias the message
// of a guest that may be much longer.
func (at edge) detach() edge {
	at.key = object.Key{Namespace: strings.Clone(at.key.Namespace), Name: strings.Clone(at.key.Name)}
	return at
}

// has reports whether the owner is registered.
func (at edge) has(r *reader) bool {
	if at.list != nil {
		return at.list.readers.has(r)
	}
	set := at.kind.objects[at.key]
	return set != nil && set.has(r)
}

// add registers an owner, and reports whether it was not registered before.
func (at edge) add(r *reader) bool {
	k := at.kind
	if at.list == nil {
		if k.objects[at.key] == nil {
			k.objects[at.key] = &readers{}
		}
		return k.adjustCount(k.objects[at.key].add(r), 1)
	}
	if k.lists[at.list.id] == nil {
		k.index(at.list)
	}
	return k.adjustCount(at.list.readers.add(r), 1)
}

func (at edge) remove(r *reader) {
	k := at.kind
	if at.list != nil {
		k.adjustCount(at.list.readers.remove(r), -1)
		if at.list.readers.empty() {
			k.unindex(at.list)
		}
		return
	}
	if set := k.objects[at.key]; set != nil {
		k.adjustCount(set.remove(r), -1)
		if set.empty() {
			delete(k.objects, at.key)
		}
	}
}

func (k *kindEdges) adjustCount(changed bool, by int) bool {
	if changed {
		k.count += by
	}
	return changed
}

func (k *kindEdges) index(l *listEdge) {
	k.lists[l.id] = l
	switch {
	case l.label != nil:
		k.byLabel[*l.label] = append(k.byLabel[*l.label], l)
	case l.selector.Empty():
		k.everything[l.id.namespace] = l
	default:
		k.other = append(k.other, l)
	}
}

func (k *kindEdges) unindex(l *listEdge) {
	delete(k.lists, l.id)
	same := func(o *listEdge) bool { return o == l }
	switch {
	case l.label != nil:
		if k.byLabel[*l.label] = slices.DeleteFunc(k.byLabel[*l.label], same); len(k.byLabel[*l.label]) == 0 {
			delete(k.byLabel, *l.label)
		}
	case l.selector.Empty():
		delete(k.everything, l.id.namespace)
	default:
		k.other = slices.DeleteFunc(k.other, same)
	}
}

// dependents returns the owners that depend on an object, before or after the
// event.
func (k *kindEdges) dependents(key object.Key, event Event) []Owner {
	found := map[*reader]struct{}{}
	if set := k.objects[key]; set != nil {
		set.collect(found)
	}
	for _, namespace := range scopes(key.Namespace) {
		if l := k.everything[namespace]; l != nil {
			l.readers.collect(found)
		}
	}
	for _, o := range []*object.Object{event.Old, event.New} {
		if o != nil {
			k.collectLists(o, found)
		}
	}
	owners := make([]Owner, 0, len(found))
	for r := range maps.Keys(found) {
		owners = append(owners, r.owner)
	}
	return owners
}

// collectLists adds the owners that depend on a list with the object.
func (k *kindEdges) collectLists(o *object.Object, found map[*reader]struct{}) {
	set := labels.Set(o.Labels)
	for _, namespace := range scopes(o.Namespace) {
		for label, value := range o.Labels {
			for _, l := range k.byLabel[labelID{namespace, label, value}] {
				if l.selector.Matches(set) {
					l.readers.collect(found)
				}
			}
		}
	}
	for _, l := range k.other {
		if (l.id.namespace == "" || l.id.namespace == o.Namespace) && l.selector.Matches(set) {
			l.readers.collect(found)
		}
	}
}

// scopes returns the namespaces of the lists that an object of a namespace can
// be in.
func scopes(namespace string) []string {
	if namespace == "" {
		return []string{""}
	}
	return []string{namespace, ""}
}

// readers is a set of owners. Most sets have one or two, but an object may be
// read by every key.
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
	_, ok := s.many[r]
	return ok || slices.Contains(s.few, r)
}

func (s *readers) remove(r *reader) bool {
	if !s.has(r) {
		return false
	}
	delete(s.many, r)
	s.few = slices.DeleteFunc(s.few, func(other *reader) bool { return other == r })
	return true
}

func (s *readers) collect(into map[*reader]struct{}) {
	for _, r := range s.few {
		into[r] = struct{}{}
	}
	maps.Copy(into, s.many)
}
