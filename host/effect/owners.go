package effect

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file changes the owner references of an object, and nothing else but what shows whose
// it is: see adopt.go and disown.go. It does so by a merge patch of metadata: server-side apply
// would take away what an earlier run of the primary has applied, and could not remove a
// reference that somebody else has set.

// ownersWrite is a write that changes the owner references of an object.
type ownersWrite struct {
	verb    string
	content digest // see [Write.Content]
	frees   bool   // see [patch]
}

// patchOwners sends the patch that next returns for an object, and again for what the object is
// then if somebody else has changed it meanwhile. It reports whether that changed anything. next
// is given nil if the object does not exist, and returns nil if there is nothing to change; what it
// returns must be of [metadataPatch], since merge patches replace the list as a whole. It is a
// parameter of its own, so that the session need not be allocated.
func (s *session) patchOwners(ctx context.Context, at location, have *object.Object, o ownersWrite, next func(*object.Object) ([]byte, error)) (changed bool, err error) {
	for sent := 0; ; sent++ {
		body, err := next(have)
		switch {
		case err != nil || body == nil:
			return false, err
		case sent == maxUpdates:
			return false, superseded("the object changed %d times during the write", sent)
		}
		if err := s.mayWrite(s.target); err != nil {
			return false, err
		}
		growth := len(body)
		if o.frees {
			growth = 0
		}
		reply, refused := s.patch(ctx, at.Resource, at.key, patch{
			patchType: types.MergePatchType, manager: s.manager(s.target.Controller), body: body, before: have, growth: growth, frees: o.frees,
		})
		if refused == nil {
			return s.add(&s.report, o.verb, have, reply, o.content), nil
		}
		fresh, err := s.reread(ctx, at.Resource, have, refused)
		switch {
		case err != nil:
			return false, err
		case fresh != nil && fresh.ResourceVersion == have.ResourceVersion:
			return false, refused // for another reason than a change
		}
		have = fresh
	}
}

// metadataPatch returns a merge patch of the metadata of that object at that version.
func metadataPatch(o *object.Object, members func(*rawjson.Writer)) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			w.Name("uid").String(string(o.UID))
			w.Name("resourceVersion").String(o.ResourceVersion)
			members(w)
		})
	})
	return w.Bytes()
}

// referencesOf returns the owner references of an object as JSON, in the order of its
// OwnerReferences.
func referencesOf(o *object.Object) ([][]byte, error) {
	if len(o.OwnerReferences) == 0 {
		return nil, nil
	}
	list, _ := rawjson.Lookup(o.Raw, "metadata", "ownerReferences")
	return rawjson.Elements(list)
}

// writeOwners writes the list of owner references; none is null, which removes it.
func writeOwners(w *rawjson.Writer, owners [][]byte) {
	w.Name("ownerReferences")
	if len(owners) == 0 {
		w.Raw(nil)
		return
	}
	w.Array(func() {
		for _, o := range owners {
			w.Raw(o)
		}
	})
}

// logOwner logs a change of whose an object is: with its controller the garbage collector
// deletes it.
func (s *session) logOwner(message string, ref abi.Ref) {
	s.Logger.Info(message, "object", ref.String(), "controller", s.target.Controller.Name, "primary", s.target.Object.Key().String())
}
