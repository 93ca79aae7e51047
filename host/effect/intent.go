package effect

import (
	"context"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// application is an apply that was found right.
type application struct {
	place
	body   []byte // what is sent, without its digest and the child's uid
	digest digest // of body
	mark   string // the annotation that carries the digest
	adopt  bool
}

func (a application) ref() abi.Ref { return refOf(a.place) }

func refOf(at place) abi.Ref {
	return abi.Ref{APIVersion: at.Kind.APIVersion, Kind: at.Kind.Kind, Namespace: at.key.Namespace, Name: at.key.Name}
}

// planApply reads an intent and makes the body of its request. The returned
// ref names the object as far as it is known.
func (s *session) planApply(ctx context.Context, in abi.Apply) (application, abi.Ref, error) {
	i, err := readIntent(in.Object)
	if err != nil {
		return application{}, i.ref, invalid("the object of the intent: %v", err)
	}
	at, err := s.place(ctx, verbApply, i.ref)
	if err != nil {
		return application{}, i.ref, err
	}
	a := application{place: at, adopt: in.Adopt, mark: s.mark(at)}
	owners, err := s.owners(at, i.owners)
	if err != nil {
		return a, i.ref, err
	}
	a.body = i.body(at, owners, a.mark)
	a.digest, err = sum(a.body)
	return a, i.ref, err
}

// mark returns the annotation that carries the digest of an intent. Of an
// owned object there is one intent; one that is shared with others carries
// one digest per controller, else each would undo the other's.
func (s *session) mark(at place) string {
	if at.owned {
		return "thole.dev/applied"
	}
	return s.target.Controller.Name + "." + s.Plugin + ".thole.dev/applied"
}

// intent is an object that a guest wants, taken apart.
type intent struct {
	ref         abi.Ref
	annotations []rawjson.Member
	owners      [][]byte
	metadata    []rawjson.Member // the rest of it
	fields      []rawjson.Member // the rest of the object
}

// readIntent takes an intent apart and leaves out what a guest that returns
// an object as it has read it cannot mean: status and what the server keeps.
// A name that is given twice is refused, as the server would take the other.
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

func (in *intent) readMetadata(r *rawjson.Reader, name string) {
	switch name {
	case "name":
		in.ref.Name = r.String()
	case "namespace":
		if !r.Null() {
			in.ref.Namespace = r.String()
		}
	case "annotations":
		if !r.Null() {
			r.Object(func(name string) {
				in.annotations = append(in.annotations, rawjson.Member{Name: name, Value: r.Raw()})
			})
		}
	case "ownerReferences":
		if !r.Null() {
			r.Array(func(int) { in.owners = append(in.owners, r.Raw()) })
		}
	case "resourceVersion", "generation", "managedFields", "uid", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink":
	default:
		in.metadata = append(in.metadata, rawjson.Member{Name: name, Value: r.Raw()})
	}
}

// owners returns the owner references of an object: the primary as controller
// if it owns the object, and those of the intent that are somebody else's.
func (s *session) owners(at place, wanted [][]byte) (owners [][]byte, err error) {
	primary := s.target.Object
	if at.owned {
		owners = append(owners, ownerReference(s.target))
	}
	for _, w := range wanted {
		uid, controller, err := readOwner(w)
		switch {
		case err != nil:
			return nil, invalid("ownerReferences: %v", err)
		case uid == string(primary.UID) && at.owned: // stands already
		case uid == string(primary.UID) && primary.Namespace != "" && primary.Namespace != at.key.Namespace:
			return nil, denied(reasonScope, "%s cannot be owned by an object in namespace %q: the garbage collector would delete it", at, primary.Namespace)
		case controller:
			return nil, invalid("ownerReferences: an intent cannot name a controller; the host does, for kinds in owns of the manifest")
		default:
			owners = append(owners, w)
		}
	}
	return owners, nil
}

func readOwner(reference []byte) (uid string, controller bool, err error) {
	r := rawjson.NewReader(reference)
	r.Object(func(name string) {
		switch name {
		case "uid":
			uid = r.String()
		case "controller":
			controller = !r.Null() && r.Bool()
		}
	})
	return uid, controller, r.End()
}

func ownerReference(t Target) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(t.Object.Kind.APIVersion)
		w.Name("kind").String(t.Object.Kind.Kind)
		w.Name("name").String(t.Object.Name)
		w.Name("uid").String(string(t.Object.UID))
		w.Name("controller").Bool(true)
		w.Name("blockOwnerDeletion").Bool(true)
	})
	return w.Bytes()
}

// body writes what the intent asks for, with everything the host adds but
// the digest.
func (in *intent) body(at place, owners [][]byte, mark string) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(at.Kind.APIVersion)
		w.Name("kind").String(at.Kind.Kind)
		w.Name("metadata").Object(func() { in.writeMetadata(w, at, owners, mark) })
		writeMembers(w, in.fields)
	})
	return w.Bytes()
}

func (in *intent) writeMetadata(w *rawjson.Writer, at place, owners [][]byte, mark string) {
	w.Name("name").String(at.key.Name)
	if at.key.Namespace != "" {
		w.Name("namespace").String(at.key.Namespace)
	}
	own := func(m rawjson.Member) bool { return m.Name == mark }
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
