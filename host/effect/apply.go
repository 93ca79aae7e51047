package effect

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file performs server-side apply: it sends the body that an intent becomes
// (applybody.go) unless it would change nothing (noopapply.go).

// apply makes an object what the intent wants. An object that is not there is
// created by a request that the server refuses if there is one after all: the cache
// may be behind. Only then is it read.
func (s *session) apply(ctx context.Context, a plannedApply) error {
	unlock, err := s.lockAdoptions(ctx, a)
	if err != nil {
		return err
	}
	defer unlock()
	if !a.owned {
		end, err := s.turns.take(ctx, a.id())
		if err != nil {
			return err
		}
		defer end()
	}
	switch {
	case a.alone:
		return s.adopt(ctx, a)
	case a.create:
		return s.create(ctx, a)
	}
	have, shown, err := s.find(ctx, a)
	if err != nil {
		return err
	}
	a.unselected = shown == Unselected
	if refused := s.mayCreate(&a.location); have == nil && refused != nil { // the cache may be behind
		if have, err = s.getLive(ctx, a.location); err == nil && have == nil {
			err = refused
		}
		if err != nil {
			return err
		}
	}
	err = s.applyTo(ctx, a, have, noVersion)
	if have == nil && mayExist(err) {
		creation := noVersion
		if refusesVersion(err) {
			creation = ""
		}
		if have, err = s.getLive(ctx, a.location); err == nil {
			err = s.applyTo(ctx, a, have, creation)
		}
	}
	return s.explainSharers(ctx, a.location, err)
}

// find returns the object of an intent as it is, nil if there is none or the cache
// does not have it. If the cache does not hold the kind, the server is asked:
// whether the object exists and who controls it decides what may be done. It is also
// asked when the primary is about to become one more sharer of the object, as far
// as is recorded: the cache may be behind a release. If the cache holds only some
// objects of the kind, those that the primary owns are usually among them. Another one
// is found when it cannot be created.
func (s *session) find(ctx context.Context, a plannedApply) (have *object.Object, shown Presence, err error) {
	have, shown = s.cached(ctx, a.location)
	switch {
	case a.owned && shown != Unknown, shown == Absent, have != nil && s.shares.has(s.sharer(), a.id()) && s.isSharing(a, have):
		return have, shown, nil
	}
	have, err = s.getLive(ctx, a.location)
	return have, shown, err
}

// onlyVersion returns the only resourceVersion that a write may change which was made for that
// version of an object, "" for any. Where replicas of the host share the plugin, a write that this
// one was about to send when it was suspended may arrive after the next leader has written: it must
// not change what that has made.
func (p *Performer) onlyVersion(version string) string {
	if p.Lease == nil {
		return ""
	}
	return version
}

// noVersion is a resourceVersion that no object has: that of the empty etcd. With
// it an apply creates an object, and never changes one.
const noVersion = "1"

// applyTo makes an object what the intent wants, if it may; have is nil if there is
// none. creation is the resourceVersion of the request if it creates one: [noVersion], or ""
// for a server that takes none.
func (s *session) applyTo(ctx context.Context, a plannedApply, have *object.Object, creation string) error {
	force, err := s.mayApply(a, have)
	adopts := err == nil && a.adopts(have)
	if adopts {
		err = s.mayAdopt(ctx, have)
	}
	if err != nil {
		return err
	}
	have, joins, err := s.join(ctx, a, have)
	if err != nil {
		return err
	}
	version := creation
	switch {
	case joins || adopts:
		version = have.ResourceVersion
	case have != nil:
		version = s.onlyVersion(have.ResourceVersion)
	}
	if !a.owned { // before the request, whose reply may be lost
		s.shares.add(s.sharer(), a.Kind, a.key, true)
	}
	if a.appliedBy, err = s.appliedBy(a, have, version == noVersion, func() (fieldSets, error) { return s.fieldsOf(ctx, a, have) }); err != nil {
		return err
	}
	if have != nil {
		if s.hadNoRoom(a, have) {
			a = a.withoutRoom()
		}
		noop, err := s.isNoop(ctx, a, have)
		if err != nil || noop {
			return err
		}
		if a.replace && have.Deleting() {
			return replacing(have)
		}
	}
	refused := s.sendApply(ctx, a, have, applyOptions{force: force, version: version})
	err = refused
	if refused != nil && have != nil && (adopts || !a.owned) {
		err = s.applyAgain(ctx, a, have, refused)
	}
	// What applyAgain has tried again has been replaced there, if it was to be.
	if refused != nil && have != nil && a.replace && errors.Is(err, refused) {
		return s.replace(ctx, a, refused)
	}
	return err
}

// applyOptions are those of one request.
type applyOptions struct {
	force   bool   // take fields away from other managers
	version string // the only resourceVersion that may be changed, "" for any
}

// sendApply sends the request and records the object that it led to.
func (s *session) sendApply(ctx context.Context, a plannedApply, have *object.Object, o applyOptions) error {
	request, err := s.applyPatch(a, have, o)
	if err != nil {
		return err
	}
	if err := s.mayWrite(s.target); err != nil {
		return err
	}
	reply, err := s.patch(ctx, a.Resource, a.key, request)
	if a.annotation != "" && isFull(err) {
		reply, err = s.patchWithout(ctx, a, have, o, request)
		a = a.withoutRoom()
	}
	if err != nil {
		return err
	}
	state, err := s.sumState(a, like(have, reply))
	if err != nil {
		return err
	}
	s.records.setApplied(applyRecord{id: a.id(), intent: a.intent(), state: state, version: sumStrings(reply.ResourceVersion)})
	if s.add(&s.report, abi.VerbApply, have, reply, a.digest) && a.adopts(have) {
		s.logOwner("adopted", a.ref())
	}
	return nil
}

// applyPatch returns the request of an apply to an object, nil if there is none.
func (p *plan) applyPatch(a plannedApply, have *object.Object, o applyOptions) (patch, error) {
	body, err := p.request(a, have, o.version)
	growth := len(body)
	if have != nil {
		growth -= have.BytesBy(p.managerOf(a.location))
	}
	return patch{
		patchType: types.ApplyPatchType, create: a.create, manager: p.managerOf(a.location), force: o.force, body: body, before: have, growth: growth,
	}, err
}

// isFull reports whether an object was refused because it has no room for another annotation, or
// for those of the intent.
func isFull(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && hasCause(status.Status(), func(cause metav1.StatusCause) bool {
		return cause.Type == "FieldValueTooLong" && cause.Field == "metadata.annotations"
	})
}

// patchWithout sends a request without the annotation of the host. What was applied is remembered
// then until the host ends, and applied once more after that. The same goes for a primary that
// shares an object.
func (s *session) patchWithout(ctx context.Context, a plannedApply, have *object.Object, o applyOptions, request patch) (reply *object.Object, err error) {
	if request.body, err = s.request(a.withoutRoom(), have, o.version); err != nil {
		return nil, err
	}
	if reply, err = s.patch(ctx, a.Resource, a.key, request); err != nil {
		return nil, err
	}
	without := fmt.Sprintf("%s has no room for the annotation %s, so that it is applied once more after each restart of the host", a.ref(), a.annotation)
	if a.owned {
		without += fmt.Sprintf(": make its annotations smaller, or set Applied of the controller to %s", abi.AppliedMemory)
	} else {
		if have == nil {
			s.shares.setCreated(s.sharer(), a.id())
		}
		without += ", and what a result has ceased to name by then is not released: make its annotations smaller"
	}
	s.emit(s.target, abi.Event{Type: abi.EventWarning, Reason: reasonNotAnnotated, Message: sanitize.Truncate(without, abi.MaxEventMessage)})
	return reply, nil
}

// hadNoRoom reports whether the last apply of the same intent was sent without the annotation.
func (s *session) hadNoRoom(a plannedApply, have *object.Object) bool {
	last := s.records.lastApply(a.id())
	_, annotated := have.Annotations[a.annotation]
	return !annotated && last != nil && last.intent == a.withoutRoom().intent()
}

// reasonNotAnnotated is that of an Event.
const reasonNotAnnotated = "AnnotationsFull"

// plannedApply is an apply that was checked.
type plannedApply struct {
	location
	body       []byte // of the request, without what request adds
	digest     digest // of body
	annotation string // the name of the annotation that holds the digest; "" for none ([abi.AppliedMemory])
	former     string // the one that annotation has replaced; "" for an owned object
	primary    string // namespace/name
	primaryUID types.UID
	appliedBy  string // the label of what the controller has created; "" if it has none
	adopt      bool
	create     bool // the object is only created (create.go)
	replace    bool // it is created anew if it cannot be changed (replace.go)
	alone      bool // the object is only adopted
	attempts   int8 // how often an adoption, or a write to a shared object, was refused
	full       bool // the object has no room for the annotation, which is ""
	managed    bool // the object is labelled as the plugin's
	unselected bool // the cache did not have the object, but could not have every one
}

// request returns the body with the annotation, the label and, for an object that
// exists, its uid: the server refuses the request for another object of the name, and
// also if it would have to create one. It also refuses it for an object of another
// resourceVersion than version, unless that is "".
func (p *plan) request(a plannedApply, have *object.Object, version string) ([]byte, error) {
	return a.with(have, func(w *rawjson.Writer) {
		if have != nil {
			w.Name("uid").String(string(have.UID))
		}
		if version != "" {
			w.Name("resourceVersion").String(version)
		}
		p.writeLabels(w, a)
	})
}

// writeLabels writes the labels of the host. They are not part of the digest, so
// that nothing has to be applied again only because the manifest of the plugin has changed.
func (p *plan) writeLabels(w *rawjson.Writer, a plannedApply) {
	if !a.managed && a.appliedBy == "" {
		return
	}
	w.Name("labels").Object(func() {
		if a.managed {
			w.Name(abi.LabelManagedBy).String(p.Plugin)
		}
		if a.appliedBy != "" {
			w.Name(abi.LabelAppliedBy).String(a.appliedBy)
		}
	})
}

// lacksLabel reports whether the label of a managed object has to be set.
func (p *plan) lacksLabel(a plannedApply, have *object.Object) bool {
	return a.managed && have.Labels[abi.LabelManagedBy] != p.Plugin
}

// with returns the body with the annotation and other members of metadata.
func (a plannedApply) with(have *object.Object, metadata func(*rawjson.Writer)) ([]byte, error) {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			metadata(w)
			if a.annotation == "" {
				return
			}
			w.Name("annotations").Object(func() { w.Name(a.annotation).String(a.value(have)) })
		})
	})
	return rawjson.MergePatch(a.body, w.Bytes())
}

// intent returns the digest that the apply is recorded with. It is another one with the annotation
// than without, so that an object loses it or gets it.
func (a plannedApply) intent() digest {
	switch {
	case a.full:
		return sumStrings(reasonNotAnnotated, a.digest.String())
	case a.annotation == "":
		return a.remembered()
	}
	return a.digest
}

// withoutRoom returns the apply to an object that has no room for the annotation.
func (a plannedApply) withoutRoom() plannedApply {
	a.annotation, a.full = "", true
	return a
}

// remembered is [plannedApply.intent] with [abi.AppliedMemory].
func (a plannedApply) remembered() digest {
	return sumStrings(string(abi.AppliedMemory), a.digest.String())
}

// value returns the value of the annotation on an object. One that is handed over
// (handover.go) counts as created by the primary: it may have been.
func (a plannedApply) value(have *object.Object) string {
	if a.annotation == "" {
		return ""
	}
	size := object.NoteBytes(len(a.body))
	if a.owned {
		return a.digest.String() + size
	}
	return note{a.digest.String(), a.primary, have == nil || a.wasCreated(have)}.String() + size
}

func (a plannedApply) wasCreated(have *object.Object) bool {
	_, formerly := have.Annotations[a.former]
	_, owned := have.Annotations[AppliedAnnotation]
	owner := have.Controller() // of an object without the annotation: abi.AppliedMemory
	return formerly || owned || owner != nil && owner.UID == a.primaryUID || readNote(have.Annotations[a.annotation]).created
}

// planApply checks an intent and makes the body of its request. The returned
// ref names the object as far as it is known.
func (p *plan) planApply(ctx context.Context, wanted abi.Apply) (a plannedApply, ref abi.Ref, err error) {
	i, err := readIntent(wanted.Object)
	if err != nil {
		return a, i.ref, invalid("the object of the intent: %v", err)
	}
	a.adopt, a.create, a.replace, a.alone = wanted.Adopt, wanted.Create, wanted.Replace, wanted.Adopt && !i.hasFields()
	if !a.alone {
		i.ref.UID = "" // the guest may have read it
	}
	verb := rights.Patch
	if a.create {
		verb = rights.Create
		err = i.keepFinalizers()
	}
	if err != nil {
		return a, i.ref, invalid("the object of the intent: metadata.finalizers: %v", err)
	}
	if a.location, err = p.locate(ctx, i.ref, verb); err == nil {
		err = p.checkOptions(&a)
	}
	if err != nil {
		return a, i.ref, err
	}
	p.setAnnotation(&a)
	a.managed = p.labels && a.owned
	owners, err := p.ownerReferences(ctx, a.location, i.owners)
	if err != nil {
		return a, i.ref, err
	}
	a.body = i.body(a.location, owners)
	a.digest, err = sum(a.body)
	return a, i.ref, err
}

// checkOptions checks what is wanted of an object that was located.
func (p *plan) checkOptions(a *plannedApply) error {
	switch {
	case a.owned && p.target.Gone:
		return p.impossibleForGone("the primary does not exist any more, and cannot own the object: list the kind in Writes of the controller")
	case a.alone && a.id() == objectIDOf(p.target.Object.Kind, p.target.Object.Key()):
		return denied(reasonOutOfScope, "the object is the primary, which cannot own itself: leave the intent out")
	case a.alone && !a.owned:
		return denied(reasonOutOfScope, "the primary cannot be the controller of the object: adopt only objects of kinds in Owns of the controller, in the primary's own namespace")
	case a.create:
		return p.mayCreate(&a.location)
	case a.replace:
		return p.mayReplace(&a.location)
	}
	return nil
}

// AppliedAnnotation is on every object that a controller applies and owns, unless its manifest
// has "applied": "memory", with a digest of the intent, and the size of a large one: by it a
// restarted host finds out that nothing has to be written.
const AppliedAnnotation = "thole.dev/applied"

// setAnnotation sets the name of the annotation that holds the digest of an
// intent. Only one primary applies an object that it owns. Other objects may be
// applied by several, which need an annotation each, or each would undo the
// others' in every run.
func (p *plan) setAnnotation(a *plannedApply) {
	a.annotation, a.primary, a.primaryUID = AppliedAnnotation, p.target.Object.Key().String(), p.target.Object.UID
	if a.owned {
		if p.target.Controller.Applied == abi.AppliedMemory {
			a.annotation = ""
		}
		return
	}
	a.annotation = p.sharedAnnotation(p.target.Controller, p.target.Object.Key())
	a.former = p.formerAnnotation(p.target.Controller)
}
