package sdktest

import (
	"maps"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
)

// perform decides the outcome of the run and performs its effects in the order of
// the host: finalizer, patch, release, apply, delete, events (which have no effect here),
// status, the annotation of the handled state. If an effect fails, the outcome is decided again,
// and only the status of that decision is written.
func (r *Run) perform() {
	r.decide()
	if r.decision.Intents {
		if r.effect = r.performIntents(); r.effect != nil || len(r.groups) > 0 {
			r.decide()
		}
	}
	r.failDaemon()
	r.writeStatus()
	r.writeHandled()
	if r.decision.RemoveFinalizer {
		r.world.key(r.primary).cleaned = true
		name := r.world.finalizer()
		r.setFinalizers("release", slices.DeleteFunc(slices.Clone(r.current().meta.Finalizers), func(f string) bool { return f == name }))
	}
}

// conflict is the API server's reason for refusing a write of an object that has
// changed since it was read.
const conflict = "Conflict"

// decide calls the host's own decision function.
func (r *Run) decide() {
	in := outcome.Input{
		Code: r.Code, Result: r.Result, Fault: r.fault, Effect: r.effect, Groups: r.groups, Uncounted: r.unavailable,
		Tries: r.tries, Controller: &r.world.controller, Now: r.world.now,
		Object: outcome.Object{
			Generation: r.primary.meta.Generation, Conditions: outcome.ReadConditions(r.primary.raw), Deleting: r.primary.meta.Deleting() && !r.gone,
			Unheld: r.unheldWhileDeleting(),
		},
	}
	if r.effect != nil {
		in.Conflict = r.isRace()
	}
	if r.unavailable {
		in.Fault = &outcome.Fault{Reason: "Unavailable", Message: "a read was not available yet"}
	}
	d := outcome.Decide(in)
	r.decision, r.Class, r.Reason, r.Message = d, d.Class, d.Reason, d.Message
}

// performIntents performs all effects but the status, and returns the first failure.
func (r *Run) performIntents() *abi.EffectFailure {
	if f := r.addFinalizer(); f != nil {
		return f
	}
	all, f := r.plan()
	if f != nil {
		return f
	}
	if r.Result.Patch != nil {
		if f := r.failedByTest("patch", r.primary.id); f != nil {
			return f
		}
		r.update("patch", r.current(), r.addHandled(r.Result.Patch))
	}
	for _, i := range all {
		if f := r.attempt(&i); f != nil {
			return f
		}
	}
	if len(r.groups) > 0 {
		return nil
	}
	return r.prune(all)
}

// performIntent performs a release, an apply or a delete.
func (r *Run) performIntent(i *intent) *abi.EffectFailure {
	if f := r.failedByTest(i.verb, i.id); f != nil {
		return f
	}
	o := r.world.objects[i.id]
	gone := o == nil || i.uid != "" && i.uid != o.meta.UID
	switch {
	case gone && i.verb != "apply":
		return nil // it does not exist any more
	case gone && i.alone:
		return newFailure(i.verb, i.id, abi.ClassRetry, "NotFound", "the object to adopt does not exist: children.Adopt creates nothing, Apply with sdk.Adopt() does")
	case o == nil && i.owned && r.unheldWhileDeleting():
		return i.denied("OutOfScope", "the primary is being deleted, and nothing new can belong to it")
	case i.create:
		return r.create(i, o)
	case o == nil:
		r.apply(i, nil)
		return nil
	}
	if f := r.checkOwner(i, o); f != nil {
		return f
	}
	switch {
	case i.alone:
		r.adopt(i, o)
		return nil
	case i.verb == "release":
		r.release(i, o)
		return nil
	case i.verb == "delete":
		return r.remove(i, o)
	}
	return r.change(i, o)
}

// current returns the primary in its present state, nil if it does not exist.
func (r *Run) current() *object {
	if o := r.world.objects[r.primary.id]; o != nil && o.meta.UID == r.primary.meta.UID && !r.gone {
		return o
	}
	return nil
}

// addFinalizer adds the finalizer, unless there is no daemon to be stopped and the result has
// nothing that a cleanup may have to undo.
func (r *Run) addFinalizer() *abi.EffectFailure {
	o, name := r.current(), r.world.finalizer()
	changes := r.world.wantsDaemon(r.primary) || len(r.Result.Patch)+len(r.Result.Release)+len(r.Result.Apply)+len(r.Result.Delete)+len(r.Result.Status) > 0
	if !changes || o == nil || !r.world.controller.Finalizer || o.meta.Deleting() || slices.Contains(o.meta.Finalizers, name) {
		return nil
	}
	if f := r.failedByTest("finalizer", o.id); f != nil {
		return f
	}
	r.setFinalizers("finalizer", append(slices.Clone(o.meta.Finalizers), name))
	return nil
}

// setFinalizers replaces the finalizers of the primary.
func (r *Run) setFinalizers(verb string, names []string) {
	names = append([]string(nil), names...) // null if there are none
	r.update(verb, r.current(), r.world.encode(map[string]any{"metadata": map[string]any{"finalizers": names}}))
}

// update merges a patch into an object and records the write if it changes anything.
func (r *Run) update(write string, o *object, patch []byte) {
	if r.world.update(o, r.world.merge(o.raw, patch)) {
		r.Writes = append(r.Writes, write)
	}
}

// intent is a release, an apply or a delete.
type intent struct {
	id
	verb     string
	owned    bool   // the kind is in owns, and the object has the owner's namespace
	writable bool   // the kind is in writes
	object   []byte // of an apply
	adopt    bool
	alone    bool   // the object is only adopted
	create   bool   // the object is only created
	replace  bool   // it is created anew if it cannot be changed
	uid      string // the precondition of a release, an adoption alone and a delete
	version  string // the precondition of a delete
	orphans  bool   // the dependents of a deleted object stay
	group    string
	refused  *abi.EffectFailure // of a group: why it must not be performed; nil if it may be
}

// plan checks every intent against the manifest, the namespace and the other
// intents, before the first one is performed.
func (r *Run) plan() (all []intent, failure *abi.EffectFailure) {
	for _, ref := range r.Result.Release {
		all = append(all, intent{verb: "release", id: idOf(ref), uid: ref.UID})
	}
	for _, a := range r.Result.Apply {
		o, err := parse(a.Object)
		if err != nil {
			return nil, newFailure("apply", id{}, abi.ClassABI, "InvalidIntent", err.Error())
		}
		i := intent{
			verb: "apply", id: o.id, object: a.Object, adopt: a.Adopt, alone: r.world.adoptsAlone(a), create: a.Create, replace: a.Replace, group: a.Group,
		}
		if i.alone {
			i.uid = o.meta.UID
		}
		all = append(all, i)
	}
	for _, d := range r.Result.Delete {
		all = append(all, intent{
			verb: "delete", id: idOf(d.Ref), uid: d.UID, version: d.ResourceVersion, orphans: d.Propagation == abi.PropagationOrphan, group: d.Group,
		})
	}
	seen := map[id]bool{}
	for i := range all {
		if failure := all[i].inGroup(r.checkScope(&all[i])); failure != nil {
			return nil, failure
		}
		if seen[all[i].id] {
			return nil, all[i].invalid("the object is named by two intents of one result: return one intent for each object, and to have it deleted and made anew an Apply with children.Replace()")
		}
		seen[all[i].id] = true
	}
	return all, nil
}

// checkScope sets the namespace of an intent, and whether its kind is in owns and in
// writes.
func (r *Run) checkScope(i *intent) *abi.EffectFailure {
	c, own, cluster := &r.world.controller, r.primary.namespace, r.world.clusterScoped[i.kind]
	i.owned, i.writable = c.IsOwned(i.kind), slices.Contains(c.Writes, i.kind)
	if i.namespace == "" && !cluster {
		i.namespace = own
	}
	switch {
	case !i.owned && !i.writable:
		return i.denied("NotDeclared", "the kind is in neither Owns nor Writes of the controller")
	case i.owned && r.lateCleanup() && i.verb == "apply": // no other run can change that
		return newFailure(i.verb, i.id, abi.ClassStalled, "OutOfScope", "the object is gone and cannot own anything")
	case i.owned && r.gone && i.verb == "apply":
		return i.denied("OutOfScope", "the object is gone and cannot own anything")
	case cluster && i.namespace != "":
		return i.invalid("the kind is cluster-scoped, it has no namespace")
	case !cluster && i.namespace == "":
		return i.invalid("metadata.namespace is required: the kind is namespaced and the primary is not")
	case own == "" || i.namespace == own:
	case !cluster && !r.world.crossNamespace:
		return i.denied("OutOfScope", "another namespace than the object's")
	case !i.writable:
		return i.denied("OutOfScope", "the object cannot be owned from namespace "+own+": name the kind in Writes of the controller")
	default:
		i.owned = false
	}
	i.owned = i.owned && (i.id != r.primary.id || !i.writable)
	switch {
	case !i.owned && (i.alone || i.verb == "release"), i.verb == "release" && i.id == r.primary.id:
		return i.denied("OutOfScope", "the primary cannot be the controller of the object: its kind must be in Owns of the controller, and it must have the primary's namespace")
	case i.replace && !i.owned:
		return i.invalid("replace: only objects that the primary owns are deleted to be created anew: list the kind in Owns of the controller")
	}
	return nil
}

// checkOwner checks that the controller may change an existing object, as the host
// does.
func (r *Run) checkOwner(i *intent, o *object) *abi.EffectFailure {
	isPrimary := o.meta.UID == r.primary.meta.UID
	controlled := slices.ContainsFunc(o.meta.OwnerReferences, func(r sdk.OwnerReference) bool { return r.Controller })
	switch {
	case isPrimary && i.verb == "apply" && i.owned:
		return i.denied("OutOfScope", "the object is the primary: it cannot own itself, name the kind in Writes of the controller")
	case isPrimary && i.writable, o.meta.ControlledBy(r.primary.meta.UID):
		return nil
	case controlled && i.verb == "release":
		return i.denied("ControlledByAnother", "the object has another controller: only what the primary controls can be released")
	case controlled:
		return i.denied("ControlledByAnother", "the object has another controller and is never touched")
	case i.verb == "apply" && i.owned && !i.adopt:
		return i.denied("NotAdopted", "the object exists and has no controller: apply it with sdk.Adopt() to take it over")
	case i.verb == "apply" && i.owned && r.world.managed && !r.world.follows(o):
		return i.denied("NotAdopted", "the plugin does not follow the object: to adopt it, name the kind in Reads of the controller")
	case i.verb == "apply" && i.owned:
		return r.checkAdoption(i, o)
	case i.verb == "delete" && !i.writable:
		return i.denied("NotControlled", "the object is not controlled by "+r.primary.String()+": name the kind in Writes of the controller to delete it")
	}
	return nil
}

func (i *intent) denied(reason, message string) *abi.EffectFailure {
	return newFailure(i.verb, i.id, abi.ClassDenied, reason, message)
}

func (i *intent) invalid(message string) *abi.EffectFailure {
	return newFailure(i.verb, i.id, abi.ClassABI, "InvalidIntent", message)
}

// failedByTest returns the failure that [World.FailWrites] or [World.FailWrite] has
// set for a write, if any.
func (r *Run) failedByTest(verb string, at id) *abi.EffectFailure {
	reason := r.world.failedWrites[verb+" "+at.String()]
	if reason == "" {
		reason = r.world.failedWrites[at.kind.String()]
	}
	if reason == "" {
		return nil
	}
	return newFailure(verb, at, abi.ClassRetry, reason, "refused by the test")
}

func newFailure(verb string, at id, class abi.Class, reason, message string) *abi.EffectFailure {
	return &abi.EffectFailure{Verb: verb, Ref: at.ref(), Class: class, Reason: reason, Message: message}
}

// notApplied removes the fields that the host leaves out of an apply.
var notApplied = []byte(`{"status":null,"metadata":{"uid":null,"resourceVersion":null,"generation":null,"managedFields":null,"finalizers":null,
	"creationTimestamp":null,"deletionTimestamp":null,"deletionGracePeriodSeconds":null,"selfLink":null}}`)

// finalizers returns those with which an object is created.
func (i *intent) finalizers() (names []string) {
	o, err := parse(i.object)
	if err != nil || !i.create {
		return nil
	}
	return slices.DeleteFunc(o.meta.Finalizers, abi.ReservedFinalizer)
}

// wanted returns the object that an apply wants, with what the host adds.
func (r *Run) wanted(i *intent, o *object) []byte {
	metadata := map[string]any{"namespace": i.namespace}
	if i.namespace == "" {
		metadata["namespace"] = nil
	}
	if i.owned {
		maps.Copy(metadata, r.owners(o))
		if label := r.world.appliedBy(i, o); label != "" {
			labels := map[string]string{abi.LabelAppliedBy: label}
			if r.world.managed {
				labels[abi.LabelManagedBy] = r.world.plugin
			}
			metadata["labels"] = labels
		}
	}
	if finalizers := i.finalizers(); len(finalizers) > 0 {
		metadata["finalizers"] = finalizers
	}
	return r.world.withMetadata(r.world.merge(i.object, notApplied), metadata)
}

// patchOf returns the merge patch of an apply. Fields of the last apply that this one does not
// have are removed.
func (r *Run) patchOf(i *intent, o *object) []byte {
	wanted := r.wanted(i, o)
	if last := r.world.applied[i.id]; last != nil {
		return r.world.compose(wanted, removed(last, wanted))
	}
	return wanted
}

// apply creates the object, or merges the fields into o if it exists.
func (r *Run) apply(i *intent, o *object) {
	w, wanted := r.world, r.wanted(i, o)
	if o == nil {
		w.create(i.id, wanted)
		w.created[i.id] = r.primary.id
		r.Writes = append(r.Writes, "apply "+i.String())
	} else {
		r.update("apply "+i.String(), o, r.patchOf(i, o))
	}
	w.applied[i.id] = wanted
}

// removed returns the merge patch that removes those fields of last that are not in
// now. Objects are not removed as a whole, because others may have added fields.
func removed(last, now []byte) []byte {
	isObject := func(value []byte) bool { return rawjson.NewReader(value).Kind() == '{' }
	before, _ := rawjson.Members(last)
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		for _, m := range before {
			value, kept := rawjson.Lookup(now, m.Name)
			if isObject(m.Value) && (!kept || isObject(value)) {
				w.Name(m.Name).Raw(removed(m.Value, value))
			} else if !kept {
				w.Name(m.Name).Raw(nil)
			}
		}
	})
	return w.Bytes()
}

// compose returns the merge patch with the effect of both.
func (w *World) compose(first, second []byte) []byte {
	patch, err := rawjson.ComposePatches(first, second)
	if err != nil {
		w.tb.Fatalf("compose patches: %v", err)
	}
	return patch
}
