package effect

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file performs server-side apply: it turns an intent into the body of the
// request, and sends it unless it would change nothing (noopapply.go).

// apply makes an object what the intent wants.
func (s *session) apply(ctx context.Context, a plannedApply) error {
	have, err := s.find(ctx, a)
	if err != nil {
		return err
	}
	force, err := s.mayApply(a.location, have, a.adopt)
	if err != nil {
		return err
	}
	have, joins, err := s.join(ctx, a, have)
	if err != nil {
		return err
	}
	if !a.owned { // before the request, whose reply may be lost
		s.shares.add(s.sharer(), a.Kind, a.key, true)
	}
	if have != nil {
		noop, err := s.isNoop(ctx, a, have)
		if err != nil || noop {
			return err
		}
	}
	return s.sendApply(ctx, a, have, applyOptions{force: force, exact: joins})
}

// find returns the object of an intent as it is, nil if there is none. If the
// cache does not have the object, the server is asked: whether it exists and
// who controls it decides what may be done, and a name that was taken by
// mistake cannot be given back. It is also asked when the primary is about to
// become one more sharer of the object, as far as is recorded: the cache may be
// behind a release.
func (s *session) find(ctx context.Context, a plannedApply) (*object.Object, error) {
	if have, synced := s.Store.Get(a.Kind, a.key); synced && have != nil {
		if a.owned || s.shares.has(s.sharer(), a.id()) && s.isSharing(a, have) {
			return have, nil
		}
	}
	return s.getLive(ctx, a.location)
}

// applyOptions are those of one request.
type applyOptions struct {
	force bool // take fields away from other managers
	exact bool // only to the version of the object that was found
}

// sendApply sends the request and records the object that it led to. An
// adoption is logged, because from then on the garbage collector deletes the
// object together with the primary.
func (s *session) sendApply(ctx context.Context, a plannedApply, have *object.Object, o applyOptions) error {
	body, err := a.request(have, o.exact)
	if err != nil {
		return err
	}
	if err := s.mayWrite(s.target); err != nil {
		return err
	}
	reply, err := s.client.patch(ctx, a.Resource, a.key, patch{
		patchType: types.ApplyPatchType, manager: s.managerOf(a.location), force: o.force, body: body,
	})
	if err != nil {
		return s.explainSharers(ctx, a.location, err)
	}
	if err := s.recordApply(a, reply); err != nil {
		return err
	}
	if have != nil && have.Controller() == nil && a.owned {
		s.Logger.Info("adopted", "object", a.ref().String(), "controller", s.target.Controller.Name, "primary", s.target.Object.Key().String())
	}
	s.add(&s.report, abi.VerbApply, have, reply, a.digest)
	return nil
}

// recordApply records that an object is as the intent wants it.
func (s *session) recordApply(a plannedApply, have *object.Object) error {
	body, err := sumBody(have.Raw)
	if err != nil {
		return err
	}
	s.records.setApplied(a.id(), applyRecord{intent: a.digest, body: body, resourceVersion: have.ResourceVersion})
	return nil
}

// plannedApply is an apply that was checked.
type plannedApply struct {
	location
	body       []byte // of the request, without the annotation and the object's uid
	digest     digest // of body
	annotation string // the name of the annotation that holds the digest
	former     string // the one that annotation has replaced; "" for an owned object
	primary    string // namespace/name
	adopt      bool
}

// request returns the body with the annotation and, for an object that exists,
// its uid: the server refuses the request for another object of the name, and
// also if it would have to create one. With exact it also refuses it if the
// object has changed since it was read.
func (a plannedApply) request(have *object.Object, exact bool) ([]byte, error) {
	return a.with(have, func(w *rawjson.Writer) {
		if have != nil {
			w.Name("uid").String(string(have.UID))
		}
		if exact {
			w.Name("resourceVersion").String(have.ResourceVersion)
		}
	})
}

// with returns the body with the annotation and other members of metadata.
func (a plannedApply) with(have *object.Object, metadata func(*rawjson.Writer)) ([]byte, error) {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			metadata(w)
			w.Name("annotations").Object(func() { w.Name(a.annotation).String(a.value(have)) })
		})
	})
	return rawjson.MergePatch(a.body, w.Bytes())
}

// value returns the value of the annotation on an object. One that is handed over
// (handover.go) counts as created by the primary: it may have been.
func (a plannedApply) value(have *object.Object) string {
	if a.owned {
		return a.digest.String()
	}
	return note{a.digest.String(), a.primary, have == nil || a.wasCreated(have.Annotations)}.String()
}

func (a plannedApply) wasCreated(annotations map[string]string) bool {
	_, formerly := annotations[a.former]
	_, owned := annotations[AppliedAnnotation]
	return formerly || owned || readNote(annotations[a.annotation]).created
}

// planApply checks an intent and makes the body of its request. The returned
// ref names the object as far as it is known.
func (s *session) planApply(ctx context.Context, wanted abi.Apply) (a plannedApply, ref abi.Ref, err error) {
	i, err := readIntent(wanted.Object)
	if err != nil {
		return a, i.ref, invalid("the object of the intent: %v", err)
	}
	a.adopt = wanted.Adopt
	if a.location, err = s.locate(ctx, i.ref); err != nil {
		return a, i.ref, err
	}
	s.setAnnotation(&a)
	owners, err := s.ownerReferences(a.location, i.owners)
	if err != nil {
		return a, i.ref, err
	}
	a.body = i.body(a.location, owners)
	a.digest, err = sum(a.body)
	return a, i.ref, err
}

// AppliedAnnotation is on every object that a controller applies and owns, with a
// digest of the intent: by it a restarted host finds out that nothing has to be
// written.
const AppliedAnnotation = "thole.dev/applied"

// setAnnotation sets the name of the annotation that holds the digest of an
// intent. Only one primary applies an object that it owns. Other objects may be
// applied by several, which need an annotation each, or each would undo the
// others' in every run.
func (s *session) setAnnotation(a *plannedApply) {
	a.annotation, a.primary = AppliedAnnotation, s.target.Object.Key().String()
	if a.owned {
		return
	}
	a.annotation = s.sharedAnnotation(s.target.Controller, s.target.Object.Key())
	a.former = s.formerAnnotation(s.target.Controller)
}

// intent is an object that a guest wants, taken apart.
type intent struct {
	ref         abi.Ref
	annotations []rawjson.Member
	owners      [][]byte
	metadata    []rawjson.Member // all other members of metadata
	fields      []rawjson.Member // all other members of the object
}

// readIntent takes an intent apart. A guest may return an object as it has
// read it: status and what the server sets in metadata are left out. A name
// that is given twice is refused, because the server and the host would each
// take another one of the two.
func readIntent(text []byte) (in intent, err error) {
	r := rawjson.NewReader(text)
	r.Strict = true
	r.Object(func(name string) {
		switch name {
		case "apiVersion":
			in.ref.APIVersion = r.String()
		case "kind":
			in.ref.Kind = r.String()
		case "metadata":
			r.Object(func(name string) { in.readMetadata(r, name) })
		case "status":
		default:
			in.fields = append(in.fields, rawjson.Member{Name: name, Value: r.Raw()})
		}
	})
	if err = r.End(); err == nil && (in.ref.APIVersion == "" || in.ref.Kind == "") {
		r.Fail("apiVersion and kind are required")
		err = r.Err()
	}
	return in, err
}

// readMetadata reads one member of metadata. Encoders write null for members
// that are not set, such as creationTimestamp; the reader takes null for absent.
func (in *intent) readMetadata(r *rawjson.Reader, name string) {
	switch name {
	case "name":
		in.ref.Name = r.String()
	case "namespace":
		in.ref.Namespace = r.String()
	case "annotations":
		r.Object(func(name string) {
			in.annotations = append(in.annotations, rawjson.Member{Name: name, Value: r.Raw()})
		})
	case "ownerReferences":
		r.Array(func(int) { in.owners = append(in.owners, r.Raw()) })
	case "resourceVersion", "generation", "managedFields", "uid", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink":
	default:
		in.metadata = append(in.metadata, rawjson.Member{Name: name, Value: r.Raw()})
	}
}

// ownerReferences returns the owner references of an object: the primary as
// its controller if it is owned, and those of the intent that name others.
func (s *session) ownerReferences(at location, wanted [][]byte) (owners [][]byte, err error) {
	primary := s.target.Object
	if at.owned {
		owners = append(owners, controllerReference(primary))
	}
	for _, w := range wanted {
		uid, controller, err := readOwnerReference(w)
		switch {
		case err != nil:
			return nil, invalid("ownerReferences: %v", err)
		case uid == string(primary.UID) && at.owned: // is the first one already
		case uid == string(primary.UID) && primary.Namespace != "" && primary.Namespace != at.key.Namespace:
			return nil, denied(reasonOutOfScope, "the object cannot be owned by an object in namespace %q: the garbage collector would delete it", primary.Namespace)
		case controller:
			return nil, invalid("ownerReferences: controller must not be set: the host sets it for kinds in owns of the manifest")
		default:
			owners = append(owners, w)
		}
	}
	return owners, nil
}

// readOwnerReference returns what decides whether a reference is allowed. The
// server checks everything else.
func readOwnerReference(reference []byte) (uid string, controller bool, err error) {
	r := rawjson.NewReader(reference)
	r.Object(func(name string) {
		switch name {
		case "uid":
			uid = r.String()
		case "controller":
			controller = r.Bool()
		}
	})
	return uid, controller, r.End()
}

// controllerReference is metav1.NewControllerRef as JSON.
func controllerReference(o *object.Object) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(o.Kind.APIVersion)
		w.Name("kind").String(o.Kind.Kind)
		w.Name("name").String(o.Name)
		w.Name("uid").String(string(o.UID))
		w.Name("controller").Bool(true)
		w.Name("blockOwnerDeletion").Bool(true)
	})
	return w.Bytes()
}

// body returns the body of the apply request, except for what
// [plannedApply.request] adds. Annotations of the host that the guest has read are
// left out.
func (in *intent) body(at location, owners [][]byte) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(at.Kind.APIVersion)
		w.Name("kind").String(at.Kind.Kind)
		w.Name("metadata").Object(func() { in.writeMetadata(w, at, owners) })
		writeMembers(w, in.fields)
	})
	return w.Bytes()
}

func (in *intent) writeMetadata(w *rawjson.Writer, at location, owners [][]byte) {
	w.Name("name").String(at.key.Name)
	if at.key.Namespace != "" {
		w.Name("namespace").String(at.key.Namespace)
	}
	own := func(m rawjson.Member) bool { return isHostAnnotation(m.Name) }
	if annotations := slices.DeleteFunc(in.annotations, own); len(annotations) > 0 {
		w.Name("annotations").Object(func() { writeMembers(w, annotations) })
	}
	if len(owners) > 0 {
		w.Name("ownerReferences").Array(func() {
			for _, o := range owners {
				w.Raw(o)
			}
		})
	}
	writeMembers(w, in.metadata)
}

func writeMembers(w *rawjson.Writer, members []rawjson.Member) {
	for _, m := range members {
		w.Name(m.Name).Raw(m.Value)
	}
}
