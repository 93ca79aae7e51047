package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

const (
	// maxWrites and maxBytes limit the writes of one run. The host accepts 256 intents,
	// including events, and 1.5 MiB.
	maxWrites = 250
	maxBytes  = 1 << 20
	// maxObject is the size of the largest copy that fits into a result.
	maxObject = 1_500_000
)

// plan is the difference between the desired copies of a source and the existing ones.
type plan struct {
	copier
	*request
	want  *Object
	notes notes

	writes   []write
	fresh    int           // the number of writes in namespaces where none failed before
	more     bool          // there may be more writes than this run has looked for
	upToDate string        // a namespace whose copy needs no write
	foreign  []string      // namespaces where another object has the name
	altered  []string      // namespaces whose copy was replaced and altered again
	again    time.Duration // time until these may be replaced again; 0 waits for a change
}

// write is an apply or a delete in one namespace.
type write struct {
	namespace string
	uid       string // of the copy to delete; "" applies the desired copy
}

// compare sets the writes. A namespace that is being deleted is ignored: nothing can be
// created there, and its objects are deleted with it.
func (p *plan) compare(targets []Namespace, copies []Object) error {
	p.notes.expire(p.Now.Unix())
	have := make(map[string]*Object, len(copies))
	for i := range copies {
		have[copies[i].Metadata.Namespace] = &copies[i]
	}
	for _, target := range targets {
		namespace := target.Metadata.Name
		existing := have[namespace]
		delete(have, namespace)
		switch {
		case target.Metadata.Deleting():
		case existing != nil:
			p.present(existing)
		default:
			if err := p.missing(namespace); err != nil {
				return err
			}
		}
	}
	for i := range copies {
		if extra := have[copies[i].Metadata.Namespace]; extra != nil && !extra.Metadata.Deleting() {
			p.add(write{namespace: extra.Metadata.Namespace, uid: extra.Metadata.UID})
		}
	}
	if len(p.writes) == 0 && p.upToDate != "" && !slices.Contains(p.Finalizers, p.finalizer) {
		p.add(write{namespace: p.upToDate}) // changes nothing, but the host adds the finalizer again
	}
	return nil
}

// missing adds the write for a namespace without a copy, if no other object has the name.
// It does not look at more namespaces than this run can write to.
func (p *plan) missing(namespace string) error {
	if p.fresh >= maxWrites {
		p.more = true
		return nil
	}
	err := p.Get(p.kind.Ref(namespace, p.Name), &none{})
	switch {
	case errors.Is(err, sdk.ErrNotFound):
		p.add(write{namespace: namespace})
	case err != nil:
		return err
	default:
		p.foreign = append(p.foreign, namespace)
	}
	return nil
}

// present adds the write for a namespace that has a copy, if there must be one.
//
// A copy is deleted, and created again by the next run, if applying cannot correct it:
// immutable fields differ, or others have added or changed content, which apply neither
// removes nor overrides.
func (p *plan) present(have *Object) {
	namespace, same := have.Metadata.Namespace, have.sameContent(p.want)
	made := have.Metadata.Annotations[digestAnnotation] == p.want.Metadata.Annotations[digestAnnotation]
	switch {
	case have.Metadata.Deleting(): // its removal runs the source again
	case same && have.sameSource(p.want):
		p.upToDate = namespace
	case !same && made, p.conflicted(namespace):
		p.replaceAltered(have)
	case !same && (have.Immutable || have.Type != p.want.Type):
		p.add(write{namespace: namespace, uid: have.Metadata.UID})
	default:
		p.add(write{namespace: namespace})
	}
}

// replaceAltered deletes a copy that others have changed, unless one was deleted there
// recently: each time that it is changed again, the pause doubles.
func (p *plan) replaceAltered(have *Object) {
	namespace := have.Metadata.Namespace
	wait := p.notes.replace(namespace, p.Now.Unix())
	if wait == 0 {
		p.add(write{namespace: namespace, uid: have.Metadata.UID})
		return
	}
	p.altered = append(p.altered, namespace)
	if p.again == 0 || wait < p.again {
		p.again = wait
	}
}

// conflicted reports whether the last run could not apply the copy because another field
// manager has set some of its fields.
func (p *plan) conflicted(namespace string) bool {
	return p.Previous != nil && len(p.Previous.Failures) > 0 &&
		p.Previous.Failures[0].Ref.Namespace == namespace && p.Previous.Failures[0].Reason == fieldConflict
}

// fieldConflict is the host's reason for an apply that would have changed fields of
// another manager.
const fieldConflict = "FieldConflict"

// add adds a write.
func (p *plan) add(w write) {
	if !slices.Contains(p.notes.Failed, w.namespace) {
		p.fresh++
	}
	p.writes = append(p.writes, w)
}

// perform requests as many writes as fit into a result, and reports whether there are more.
//
// The host applies before it deletes, and skips the rest when one write fails. So a run
// only deletes or only applies, first deletes, and namespaces in which a write failed before
// come last: one that cannot be written does not delay the others.
func (p *plan) perform() (more bool, err error) {
	slices.SortStableFunc(p.writes, func(a, b write) int { return p.rank(a) - p.rank(b) })
	p.notes.forget(p.writes)
	if len(p.writes) == 0 {
		return p.more, nil
	}
	if p.writes[0].uid != "" {
		return p.delete(), nil
	}
	return p.apply()
}

// rank returns the place of a write in the order of perform; lower ones come first.
func (p *plan) rank(w write) int {
	if i := slices.Index(p.notes.Failed, w.namespace); i >= 0 {
		return 2 + i
	}
	if w.uid == "" {
		return 1
	}
	return 0
}

// delete requests the deletions, which come first in the order of writes.
func (p *plan) delete() (more bool) {
	for i, w := range p.writes {
		if i == maxWrites || w.uid == "" {
			return true
		}
		ref := p.kind.Ref(w.namespace, p.Name)
		ref.UID = w.uid
		p.Delete(ref)
	}
	return p.more
}

// apply requests as many copies as fit into a result, and at least one.
func (p *plan) apply() (more bool, err error) {
	text, err := sdk.Encode(p.want)
	if err != nil {
		return false, err
	}
	if len(text) > maxObject {
		return false, sdk.Stalled("TooLarge", errors.New("this object has "+strconv.Itoa(len(text))+" bytes as JSON, the limit for a copy is "+strconv.Itoa(maxObject)))
	}
	for i, w := range p.writes {
		if i > 0 && (i == maxWrites || (i+1)*len(text) > maxBytes) || w.uid != "" {
			return true, nil
		}
		copied := *p.want
		copied.Metadata.Namespace = w.namespace
		p.Apply(&copied)
	}
	return p.more, nil
}

// emitEvents emits an Event for each problem that the user of the source must solve.
func (p *plan) emitEvents() {
	if len(p.foreign) > 0 {
		p.Event(sdk.Warning, "Conflict", "not copied into "+list(p.foreign)+": there is a "+p.kind.Kind+" of this name that is not a copy of this object; delete or rename one of them")
	}
	if len(p.altered) > 0 {
		p.Event(sdk.Warning, "CopyAltered", "the copy in "+list(p.altered)+" was altered again after it was replaced, and is not replaced for a while: find the webhook or controller that alters it")
	}
}

// list returns the names of the first ten namespaces and the number of the others.
func list(namespaces []string) string {
	const limit = 10
	if more := len(namespaces) - limit; more > 0 {
		return strings.Join(namespaces[:limit], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(namespaces, ", ")
}
