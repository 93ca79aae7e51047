package effect

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// deletion is a deletion that was found right. The ref may name a UID: then
// only that object is meant.
type deletion struct {
	place
	ref abi.Ref
}

func (d deletion) named() abi.Ref {
	ref := refOf(d.place)
	ref.UID = d.ref.UID
	return ref
}

// delete removes an object. One that is gone or going is as wanted.
func (s *session) delete(ctx context.Context, d deletion) error {
	have, err := s.findDoomed(ctx, d)
	if err != nil {
		return err
	}
	if have == nil || d.ref.UID != "" && string(have.UID) != d.ref.UID {
		s.memo.setAbsent(d.child())
		return nil
	}
	if err := s.mayDelete(d.place, have); err != nil || have.Deleting() {
		return err
	}
	reply, err := s.client.delete(ctx, d.Resource, d.key, deleteOptions(have, s.DryRun))
	switch {
	case gone(err):
		s.memo.setAbsent(d.child())
		return nil
	case apierrors.IsConflict(err):
		return s.explainDelete(ctx, d, have, err)
	case err != nil:
		return err
	}
	if s.DryRun {
		s.Logger.Info("dry run: would delete", "object", d.place.String())
		return nil
	}
	s.memo.setAbsent(d.child())
	s.deleted(d, have, reply)
	return nil
}

// findDoomed returns the object to delete, nil if there is none. That the
// store does not have it is believed once the server has said so.
func (s *session) findDoomed(ctx context.Context, d deletion) (*object.Object, error) {
	have, synced := s.Store.Get(d.Kind, d.key)
	switch {
	case synced && have == nil && s.memo.absent[d.child()]:
		return nil, nil
	case synced && have != nil && (d.ref.UID == "" || d.ref.UID == string(have.UID)):
		return have, nil
	}
	have, err := s.client.get(ctx, d.Resource, d.key)
	if gone(err) {
		return nil, nil
	}
	return have, err
}

// explainDelete tells an object that has been replaced meanwhile from another
// conflict. If its UID was asked for, it is gone as wanted.
func (s *session) explainDelete(ctx context.Context, d deletion, have *object.Object, refused error) error {
	fresh, err := s.afterRace(ctx, d.Resource, have, refused)
	switch {
	case err != nil:
		return err
	case fresh != nil:
		return refused
	case d.ref.UID != "":
		s.memo.setAbsent(d.child())
		return nil
	}
	return superseded("%s is another object now", d.place)
}

// deleted reports a deletion. The reply is the object if something still
// holds it, else a Status.
func (s *session) deleted(d deletion, have *object.Object, reply []byte) {
	w := Write{Verb: verbDelete, Kind: d.Kind, Key: d.key, UID: have.UID}
	if o, err := object.Parse(reply, d.Kind); err == nil && o.Kind == d.Kind && o.UID == have.UID {
		w.ResourceVersion = o.ResourceVersion
	}
	s.Logger.Debug("wrote", "verb", verbDelete, "object", describe(d.Kind, d.key))
	s.report.Writes = append(s.report.Writes, w.clone())
}

// deleteOptions limits a deletion to the object that was looked at. Its
// dependents are deleted by the garbage collector, afterwards.
func deleteOptions(have *object.Object, dryRun bool) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String("v1")
		w.Name("kind").String("DeleteOptions")
		w.Name("preconditions").Object(func() { w.Name("uid").String(string(have.UID)) })
		w.Name("propagationPolicy").String("Background")
		if dryRun { // the server does not look at the query of a request with a body
			w.Name("dryRun").Array(func() { w.String(metav1.DryRunAll) })
		}
	})
	return w.Bytes()
}
