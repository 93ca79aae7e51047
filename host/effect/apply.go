package effect

import (
	"context"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// apply makes an object as the intent wants it, by server-side apply.
func (s *session) apply(ctx context.Context, a application) error {
	have, err := s.find(ctx, a.place)
	if err != nil {
		return err
	}
	force, err := s.mayApply(a.place, have, a.adopt)
	if err != nil {
		return err
	}
	if have != nil {
		same, err := s.unchanged(ctx, a, have)
		if err != nil || same {
			return err
		}
	}
	return s.sendApply(ctx, a, have, force)
}

// find returns the object of an intent as it is, nil if there is none. What
// the store does not have is looked for past it: whether an object exists and
// whose it is decides what may be done to it, and once a name is taken that
// cannot be undone.
func (s *session) find(ctx context.Context, at place) (*object.Object, error) {
	if have, synced := s.Store.Get(at.Kind, at.key); synced && have != nil {
		return have, nil
	}
	have, err := s.client.get(ctx, at.Resource, at.key)
	if gone(err) {
		return nil, nil
	}
	return have, err
}

// unchanged says whether an apply would change nothing: the same was wanted
// before, and the object is what the server made of it then.
func (s *session) unchanged(ctx context.Context, a application, have *object.Object) (bool, error) {
	last, known := s.memo.applied[a.child()]
	if !known {
		return s.proved(ctx, a, have)
	}
	if last.intent != a.digest {
		return false, nil
	}
	if !newer(have.ResourceVersion, last.resourceVersion) {
		return true, nil
	}
	body, err := sumBody(have.Raw)
	if err != nil || body != last.body {
		return false, err
	}
	last.resourceVersion = have.ResourceVersion
	s.memo.setApplied(a.child(), last)
	return true, nil
}

// newer says whether an object has changed since it had the version last. A
// store that is behind our own write knows less than the record does: what it
// has missed will wake the key.
func newer(now, last string) bool {
	order, err := resourceversion.CompareResourceVersion(now, last)
	return err != nil || order > 0
}

func (s *session) sendApply(ctx context.Context, a application, have *object.Object, force bool) error {
	body, err := a.request(have)
	if err != nil {
		return err
	}
	reply, err := s.client.patch(ctx, a.Resource, a.key, patch{
		mediaType: applyPatch, manager: s.manager(s.target.Controller), force: force, body: body,
	})
	if err != nil {
		return err
	}
	if err := s.remember(a, reply); err != nil {
		return err
	}
	if have != nil && have.Controller() == nil && a.owned {
		s.Logger.Info("adopted", "object", a.place.String(), "controller", s.target.Controller.Name, "primary", s.target.Object.Key().String())
	}
	s.wrote(verbApply, have, reply)
	return nil
}

// remember records that an object is as the intent wants it.
func (s *session) remember(a application, have *object.Object) error {
	body, err := sumBody(have.Raw)
	if err != nil {
		return err
	}
	s.memo.setApplied(a.child(), record{intent: a.digest, body: body, resourceVersion: have.ResourceVersion})
	return nil
}

// request returns the body with the digest and, for an object that is there,
// its uid: the server refuses it for another one of the same name, also for
// one that it would have to create.
func (a application) request(have *object.Object) ([]byte, error) {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			if have != nil {
				w.Name("uid").String(string(have.UID))
			}
			w.Name("annotations").Object(func() { w.Name(a.mark).String(a.digest.String()) })
		})
	})
	return rawjson.MergePatch(a.body, w.Bytes())
}
