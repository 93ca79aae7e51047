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
	// mostWrites and mostBytes are what one run asks for. The host takes 256
	// intents, events among them, and 1.5 MiB.
	mostWrites = 250
	mostBytes  = 1 << 20
	// mostObject is the largest copy that fits into a result.
	mostObject = 1_500_000
)

// plan is the difference between what a source wants and what is there.
type plan struct {
	copier
	*request
	want  *Object
	notes notes

	writes  []write
	fresh   int           // writes where none failed before
	more    bool          // there are more than the run looked for
	right   string        // a namespace whose copy is right
	foreign []string      // namespaces where another object has the name
	altered []string      // namespaces whose copy was replaced and altered again
	again   time.Duration // when to look at these again; 0: with the next change
}

// write is what to do in one namespace.
type write struct {
	namespace string
	uid       string // of the copy to delete; "" applies
}

// compare finds out what is to do. A namespace that is going is left alone:
// nothing can be created there, and what is in it goes without us.
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
	if len(p.writes) == 0 && p.right != "" && !slices.Contains(p.Finalizers, p.finalizer) {
		p.add(write{namespace: p.right}) // changes nothing, but brings the finalizer back
	}
	return nil
}

// missing looks whether the name is free in a namespace, but only for as many
// as this run can fill.
func (p *plan) missing(namespace string) error {
	if p.fresh >= mostWrites {
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

// present decides what becomes of the copy in a namespace that shall have one.
//
// Some can only be right as another object: what is immutable differs, or
// somebody else has put content into the copy, which applying neither takes
// away nor overrules. These are deleted, and the next run makes another one.
func (p *plan) present(have *Object) {
	namespace, same := have.Metadata.Namespace, have.sameContent(p.want)
	made := have.Metadata.Annotations[digestAnnotation] == p.want.Metadata.Annotations[digestAnnotation]
	switch {
	case have.Metadata.Deleting(): // its end runs the source again
	case same && have.sameSource(p.want):
		p.right = namespace
	case !same && made, p.conflicted(namespace):
		p.replaceAltered(have)
	case !same && (have.Immutable || have.Type != p.want.Type):
		p.add(write{namespace: namespace, uid: have.Metadata.UID})
	default:
		p.add(write{namespace: namespace})
	}
}

// replaceAltered deletes a copy that somebody has changed, unless that was
// done just now: it waits longer each time that it did not help.
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

// conflicted says whether the last run could not apply the copy because
// somebody else holds fields of it.
func (p *plan) conflicted(namespace string) bool {
	return p.Previous != nil && len(p.Previous.Failures) > 0 &&
		p.Previous.Failures[0].Ref.Namespace == namespace && p.Previous.Failures[0].Reason == fieldConflict
}

// fieldConflict is the host's reason for an apply that would have changed what
// another manager has set.
const fieldConflict = "FieldConflict"

func (p *plan) add(w write) {
	if !slices.Contains(p.notes.Failed, w.namespace) {
		p.fresh++
	}
	p.writes = append(p.writes, w)
}

// perform asks for as many writes as fit, and says whether some are left.
//
// The host applies before it deletes and skips the rest when one write fails.
// So a run does only one of both, deletes first, and what failed before comes
// last: one namespace that cannot be written holds up no other.
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

func (p *plan) rank(w write) int {
	if i := slices.Index(p.notes.Failed, w.namespace); i >= 0 {
		return 2 + i
	}
	if w.uid == "" {
		return 1
	}
	return 0
}

func (p *plan) delete() (more bool) {
	for i, w := range p.writes {
		if i == mostWrites || w.uid == "" {
			return true
		}
		ref := p.kind.Ref(w.namespace, p.Name)
		ref.UID = w.uid
		p.Delete(ref)
	}
	return p.more
}

func (p *plan) apply() (more bool, err error) {
	text, err := sdk.Encode(p.want)
	if err != nil {
		return false, err
	}
	if len(text) > mostObject {
		return false, sdk.Stalled("TooLarge", errors.New("this object has "+strconv.Itoa(len(text))+" bytes as JSON, and more than "+strconv.Itoa(mostObject)+" cannot be copied"))
	}
	for i, w := range p.writes {
		if i > 0 && (i == mostWrites || (i+1)*len(text) > mostBytes) || w.uid != "" {
			return true, nil
		}
		copied := *p.want
		copied.Metadata.Namespace = w.namespace
		p.Apply(&copied)
	}
	return p.more, nil
}

// tell emits what the user of the source must know.
func (p *plan) tell() {
	if len(p.foreign) > 0 {
		p.Event(sdk.Warning, "Conflict", "not copied into "+list(p.foreign)+": a "+p.kind.Kind+" of this name is there that configsync did not make for this object; delete it, or rename one of both")
	}
	if len(p.altered) > 0 {
		p.Event(sdk.Warning, "CopyAltered", "the copy in "+list(p.altered)+" was replaced and is altered again, so it is let be for a while: find out who does that, a webhook or another controller")
	}
}

// list names the first of many namespaces.
func list(namespaces []string) string {
	const most = 10
	if more := len(namespaces) - most; more > 0 {
		return strings.Join(namespaces[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(namespaces, ", ")
}
