package effect

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file turns an intent into the body of an apply.

// intent is an object that a guest wants, taken apart.
type intent struct {
	ref         abi.Ref
	annotations []rawjson.Member
	labels      []rawjson.Member
	owners      [][]byte
	finalizers  []byte           // left out unless the object is only created
	metadata    []rawjson.Member // all other members of metadata
	fields      []rawjson.Member // all other members of the object
}

// readIntent takes an intent apart. A guest may return an object as it has
// read it: status, finalizers and what the server sets in metadata are left out. A name
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
	if err == nil && (abi.Kind{APIVersion: in.ref.APIVersion, Kind: in.ref.Kind}) == secretKind {
		err = in.encodeStringData()
	}
	return in, err
}

var secretKind = abi.Kind{APIVersion: "v1", Kind: "Secret"}

// encodeStringData replaces the stringData of a Secret by what the server makes of it: data, in
// which it has precedence. The server would record that stringData was applied, and nobody would
// own the values: they would stay when the intent has them no more.
func (in *intent) encodeStringData() error {
	at := slices.IndexFunc(in.fields, func(m rawjson.Member) bool { return m.Name == "stringData" })
	if at < 0 {
		return nil
	}
	r, w := rawjson.NewReader(in.fields[at].Value), rawjson.NewWriter(nil)
	in.fields = slices.Delete(in.fields, at, at+1)
	if r.Null() {
		return nil
	}
	w.Object(func() {
		r.Object(func(name string) {
			if !r.Null() {
				w.Name(name).String(base64.StdEncoding.EncodeToString([]byte(r.String())))
			}
		})
	})
	if err := r.End(); err != nil {
		wrong := rawjson.ErrorOf(err)
		return rawjson.NewError(strings.TrimSuffix("stringData."+wrong.Path, "."), wrong.Message)
	}
	data := slices.IndexFunc(in.fields, func(m rawjson.Member) bool { return m.Name == "data" })
	if data < 0 {
		data = len(in.fields)
		in.fields = append(in.fields, rawjson.Member{Name: "data", Value: []byte("{}")})
	}
	if kind := rawjson.NewReader(in.fields[data].Value).Kind(); kind != '{' && kind != 'n' {
		return rawjson.NewError("data", "expected an object")
	}
	merged, err := rawjson.MergePatch(in.fields[data].Value, w.Bytes())
	in.fields[data].Value = merged
	return err
}

// readMetadata reads one member of metadata. Encoders write null for members
// that are not set, such as creationTimestamp; the reader takes null for absent.
func (in *intent) readMetadata(r *rawjson.Reader, name string) {
	switch name {
	case "uid":
		in.ref.UID = r.String()
	case "name":
		in.ref.Name = r.String()
	case "namespace":
		in.ref.Namespace = r.String()
	case "annotations":
		r.Object(func(name string) {
			in.annotations = append(in.annotations, rawjson.Member{Name: name, Value: r.Raw()})
		})
	case "labels":
		r.Object(func(name string) {
			in.labels = append(in.labels, rawjson.Member{Name: name, Value: r.Raw()})
		})
	case "ownerReferences":
		r.Array(func(int) { in.owners = append(in.owners, r.Raw()) })
	case "resourceVersion", "generation", "managedFields", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink":
	case "finalizers":
		in.finalizers = r.Raw()
	default:
		in.metadata = append(in.metadata, rawjson.Member{Name: name, Value: r.Raw()})
	}
}

// keepFinalizers makes finalizers part of the intent, but for those of the host. Each is added for
// what it cleans up, when there is something: an object that was created with it could not go.
func (in *intent) keepFinalizers() error {
	if len(in.finalizers) == 0 || string(in.finalizers) == "null" {
		return nil
	}
	all, err := rawjson.Elements(in.finalizers)
	if err != nil {
		return err
	}
	w := rawjson.NewWriter(nil)
	w.Array(func() {
		for _, f := range all {
			if r := rawjson.NewReader(f); r.Kind() != '"' || !abi.ReservedFinalizer(r.String()) {
				w.Raw(f)
			}
		}
	})
	in.metadata = append(in.metadata, rawjson.Member{Name: "finalizers", Value: w.Bytes()})
	return nil
}

// hasFields reports whether the intent has anything to apply.
func (in *intent) hasFields() bool {
	return len(in.annotations)+len(in.labels)+len(in.owners)+len(in.metadata)+len(in.fields) > 0
}

// ownerReferences returns the owner references of an object: the primary as
// its controller if it is owned, and those of the intent that name others.
func (p *plan) ownerReferences(ctx context.Context, at location, wanted [][]byte) (owners [][]byte, err error) {
	primary := p.target.Object
	if at.owned {
		owners = append(owners, controllerReference(primary))
	}
	for _, w := range wanted {
		ref, controller, err := readOwnerReference(w)
		isPrimary := ref.UID == string(primary.UID)
		switch {
		case err != nil:
			return nil, invalid("ownerReferences: %v", err)
		case isPrimary && at.owned: // is the first one already
		case isPrimary && primary.Namespace != "" && primary.Namespace != at.key.Namespace:
			return nil, denied(reasonOutOfScope, "the object cannot be owned by an object in namespace %q: the garbage collector would delete it", primary.Namespace)
		case controller:
			return nil, invalid("ownerReferences: controller must not be set: the host sets it for kinds in Owns of the controller")
		case isPrimary && objectIDOf(abi.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}, object.Key{Name: ref.Name}) != objectIDOf(primary.Kind, object.Key{Name: primary.Name}):
			return nil, invalid("ownerReferences: the uid of the primary beside another kind or name")
		case !isPrimary && p.followedOwner(ref, at.key.Namespace) == nil:
			return nil, denied(reasonOutOfScope, "ownerReferences: %s %s with the uid %q is not an object that the plugin follows, "+
				"and the garbage collector deletes what is owned by nothing: leave it out, or name its kind in Reads of the controller", ref.Kind, ref.Name, ref.UID)
		default:
			if err := p.checkCycle(ctx, at, ref, isPrimary); err != nil {
				return nil, err
			}
			owners = append(owners, w)
		}
	}
	return owners, nil
}

// checkCycle refuses an owner that the object owns, as far as the cache shows.
func (p *plan) checkCycle(ctx context.Context, at location, ref abi.Ref, isPrimary bool) error {
	owner := p.target.Object
	if !isPrimary {
		owner = p.followedOwner(ref, at.key.Namespace)
	}
	have, _ := p.Store.Get(at.Kind, at.key)
	if have == nil {
		return nil
	}
	owns, err := p.owns(have.UID, owner, nil)
	if err == nil && owns {
		err = denied(reasonOutOfScope, "ownerReferences: the object is %s %s, or owns it: two objects that own each other are both deleted when one of them is; leave the reference out", ref.Kind, ref.Name)
	}
	return err
}

// followedOwner returns an object that can own others in a namespace, nil if the plugin does
// not follow it.
func (p *plan) followedOwner(ref abi.Ref, namespace string) *object.Object {
	for _, in := range []string{namespace, ""} {
		o, _ := p.Store.Get(abi.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}, object.Key{Namespace: in, Name: ref.Name})
		if o != nil && string(o.UID) == ref.UID {
			return o
		}
	}
	return nil
}

// readOwnerReference returns what decides whether a reference is allowed. The
// server checks everything else.
func readOwnerReference(reference []byte) (owner abi.Ref, controller bool, err error) {
	r := rawjson.NewReader(reference)
	r.Object(func(name string) {
		switch name {
		case "apiVersion":
			owner.APIVersion = r.String()
		case "kind":
			owner.Kind = r.String()
		case "name":
			owner.Name = r.String()
		case "uid":
			owner.UID = r.String()
		case "controller":
			controller = r.Bool()
		}
	})
	return owner, controller, r.End()
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
// [session.request] adds. Annotations and the label of the host that the guest
// has read are left out.
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
	writeMap(w, "annotations", slices.DeleteFunc(in.annotations, func(m rawjson.Member) bool { return abi.ReservedAnnotation(m.Name) }))
	writeMap(w, "labels", slices.DeleteFunc(in.labels, func(m rawjson.Member) bool { return abi.ReservedLabel(m.Name) }))
	if len(owners) > 0 {
		w.Name("ownerReferences").Array(func() {
			for _, o := range owners {
				w.Raw(o)
			}
		})
	}
	writeMembers(w, in.metadata)
}

func writeMap(w *rawjson.Writer, name string, members []rawjson.Member) {
	if len(members) > 0 {
		w.Name(name).Object(func() { writeMembers(w, members) })
	}
}

func writeMembers(w *rawjson.Writer, members []rawjson.Member) {
	for _, m := range members {
		w.Name(m.Name).Raw(m.Value)
	}
}
