package effect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file holds what lets several primaries apply fields of one object that
// none of them owns: a field manager and an annotation for each primary, and
// which objects a primary shares. release.go gives fields up again.

// maxSharers is how many primaries, of all plugins together, may apply fields of
// one object: each adds an entry to its managedFields and an annotation.
const maxSharers = 32

// sharer is a primary of a controller, by namespace and name and not by UID: a
// primary that was deleted and created again goes on with its fields.
type sharer struct {
	controller string
	hash       digest // of namespace and name
}

func sharerOf(c *abi.Controller, primary object.Key) sharer {
	return sharer{c.Name, sharerHash(primary)}
}

func sharerHash(primary object.Key) digest { return sumStrings(primary.Namespace, primary.Name) }

func (p *plan) sharer() sharer { return sharerOf(p.target.Controller, p.target.Object.Key()) }

// managerOf returns the field manager that applies objects at a location.
func (p *plan) managerOf(at location) string {
	if at.owned {
		return p.manager(p.target.Controller)
	}
	return p.sharedManager(p.target.Controller, p.target.Object.Key())
}

// sharedManager returns the field manager of one primary for objects that the
// controller does not own. The hash is never cut.
func (p *Planner) sharedManager(c *abi.Controller, primary object.Key) string {
	hash := "/" + sharerOf(c, primary).hash.String()
	return limit(object.ManagerPrefix+p.Plugin+"/"+c.Name, maxManager-len(hash)) + hash
}

// sharedAnnotation returns the name of the annotation of one primary on an
// object that the controller does not own.
func (p *Planner) sharedAnnotation(c *abi.Controller, primary object.Key) string {
	return p.sharedPrefix(c) + sharerOf(c, primary).hash.String()
}

func (p *Planner) sharedPrefix(c *abi.Controller) string { return p.formerAnnotation(c) + "-" }

// sharers returns how many primaries apply fields of an object, by its annotations.
func sharers(annotations map[string]string) (n int) {
	for name := range annotations {
		if _, ok := sharedHash(name); ok {
			n++
		}
	}
	return n
}

// sharedHash returns the hash in the name of a primary's annotation.
func sharedHash(name string) (hash string, ok bool) {
	_, hash, ok = strings.Cut(name, "."+AppliedAnnotation+"-")
	return hash, ok && len(hash) == len(digest{}.String())
}

// note is the value of a primary's annotation.
type note struct {
	digest  string // of the intent
	primary string // namespace/name
	// created is set if the object did not exist before this primary applied it.
	// The plugin that makes an object deletes it: as long as no other primary
	// shares it, nothing is taken out of it.
	created bool
}

func (n note) String() string {
	text := n.digest + " " + n.primary
	if n.created {
		text += " created"
	}
	return text
}

func readNote(value string) note {
	fields := append(strings.Split(value, " "), "", "", "")
	return note{digest: fields[0], primary: fields[1], created: fields[2] == "created"}
}

// key returns the primary that the note names.
func (n note) key() object.Key {
	namespace, name, ok := strings.Cut(n.primary, "/")
	if !ok {
		namespace, name = "", n.primary
	}
	return object.Key{Namespace: strings.Clone(namespace), Name: strings.Clone(name)}
}

// join prepares the first apply of a primary to an object that it does not own.
// joins is set if the primary becomes one more sharer of it.
func (s *session) join(ctx context.Context, a plannedApply, have *object.Object) (now *object.Object, joins bool, err error) {
	if have == nil {
		return nil, false, nil
	}
	if have, err = s.takeOver(ctx, a.location, have); err != nil || a.owned {
		return have, false, err
	}
	if s.isSharing(a, have) {
		return have, false, nil
	}
	return have, true, mayJoin(have)
}

// mayJoin checks whether one more primary may apply fields of an object.
func mayJoin(have *object.Object) error {
	if n := sharers(have.Annotations); n >= maxSharers {
		return denied(reasonTooManySharers,
			"%d primaries apply fields of the object, and no more than %d may: let fewer primaries name it, or give each an object of its own", n, maxSharers)
	}
	return nil
}

// isSharing reports whether the primary has applied fields of an object that it
// does not own. The cache may be behind the apply.
func (s *session) isSharing(a plannedApply, have *object.Object) bool {
	_, annotated := have.Annotations[a.annotation]
	return annotated || s.records.lastApply(a.id()) != nil && s.shares.has(s.sharer(), a.id())
}

// explainSharers names the primaries that a field conflict is with: their
// managers' names have only a hash of them. Other errors, and nil, are returned as
// they are.
func (s *session) explainSharers(ctx context.Context, at location, err error) error {
	if err == nil {
		return nil
	}
	f := classify(err)
	if f.Reason != reasonFieldConflict {
		return err
	}
	have, readErr := s.getLive(ctx, at)
	if readErr != nil || have == nil {
		return err
	}
	explained := map[string]bool{}
	for name, value := range have.Annotations {
		hash, ok := sharedHash(name)
		primary := readNote(value).key()
		if ok && !explained[hash] && sharerHash(primary).String() == hash {
			f.Message = strings.ReplaceAll(f.Message, hash+`"`, hash+`" (the primary `+primary.String()+`)`)
			explained[hash] = true
		}
	}
	return f
}

// shares holds which objects each primary applies fields of without owning them.
// It is bounded by what a primary has named since its last successful run, and the
// objects that it has created.
type shares struct {
	mu sync.Mutex
	of map[sharer]map[objectID]*share
}

// share is one object of one primary.
type share struct {
	kind  abi.Kind // the manifest's own copy
	key   object.Key
	named bool // by the primary's last run
	// created is set if the primary has created the object, which has no annotation that shows it.
	created bool
}

// add records an object. Its key is cloned, because it may be part of a result.
func (m *shares) add(who sharer, kind abi.Kind, key object.Key, named bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := objectIDOf(kind, key)
	if m.of[who][id] != nil {
		m.of[who][id].named = m.of[who][id].named || named
		return
	}
	if m.of == nil {
		m.of = map[sharer]map[objectID]*share{}
	}
	if m.of[who] == nil {
		m.of[sharer{strings.Clone(who.controller), who.hash}] = map[objectID]*share{}
	}
	m.of[who][id] = &share{
		kind:  kind,
		key:   object.Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)},
		named: named,
	}
}

// setCreated records that the primary has created an object that was added.
func (m *shares) setCreated(who sharer, id objectID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.of[who][id]; s != nil {
		s.created = true
	}
}

func (m *shares) has(who sharer, id objectID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[who][id] != nil
}

// name records which objects the present run names.
func (m *shares) name(who sharer, named map[objectID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.of[who] {
		s.named = named[id]
	}
}

// list returns the objects of a primary that its last run did not name, or all.
func (m *shares) list(who sharer, all bool) (list []share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.of[who] {
		if all || !s.named {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b share) int {
		return cmp.Or(a.key.Compare(b.key), strings.Compare(a.kind.Kind, b.kind.Kind))
	})
	return list
}

func (m *shares) drop(who sharer, kind abi.Kind, key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of[who], objectIDOf(kind, key))
	if len(m.of[who]) == 0 {
		delete(m.of, who)
	}
}

// FindShared records which objects the primaries of a controller shared before
// the host was started, and returns these primaries. The objects' annotations
// show it, for the objects that the cache holds. A primary that does not exist any
// more gets a run like the others, which releases its fields.
func (p *Performer) FindShared(c *abi.Controller) []object.Key {
	primaries := map[object.Key]bool{}
	for _, kind := range c.Writes {
		for o := range p.Store.All(kind) {
			for _, primary := range p.FindSharedIn(c, kind, o) {
				primaries[primary] = true
			}
		}
	}
	return slices.Collect(maps.Keys(primaries))
}

// FindSharedIn is [Performer.FindShared] of one object.
func (p *Performer) FindSharedIn(c *abi.Controller, kind abi.Kind, o *object.Object) (primaries []object.Key) {
	if !slices.Contains(c.Writes, kind) {
		return nil
	}
	for name, value := range o.Annotations {
		primary := readNote(value).key()
		if !strings.HasPrefix(name, p.sharedPrefix(c)) || name != p.sharedAnnotation(c, primary) || primary.Validate() != nil {
			continue
		}
		p.shares.add(sharerOf(c, primary), kind, o.Key(), false)
		primaries = append(primaries, primary)
	}
	return primaries
}
