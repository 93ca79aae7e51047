package effect

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// maxRaces is how often an effect is made anew because somebody else was
// faster.
const maxRaces = 5

// finalizerDomain is between the names of a plugin and of its controller. Both
// are DNS labels, so that no two controllers have one finalizer.
const finalizerDomain = ".thole.dev/"

// Finalizer returns the finalizer of a plugin's controller.
func Finalizer(plugin, controller string) string { return plugin + finalizerDomain + controller }

// FinalizerController returns whose finalizer of the plugin this is; ok is
// false if it is none of the plugin's.
func FinalizerController(plugin, finalizer string) (controller string, ok bool) {
	controller, ok = strings.CutPrefix(finalizer, plugin+finalizerDomain)
	return controller, ok && abi.ValidName(controller)
}

// HasFinalizer says whether the target carries its controller's finalizer.
func (p *Performer) HasFinalizer(t Target) bool {
	return slices.Contains(t.Object.Finalizers, p.finalizer(t.Controller))
}

// EnsureFinalizer adds the controller's finalizer and returns the object as
// it is with it; wrote is false if it was there. A target that is being
// deleted, gone or replaced is a conflict: no finalizer can be added.
func (p *Performer) EnsureFinalizer(ctx context.Context, t Target) (reply *object.Object, wrote bool, failure *Failure) {
	name := p.finalizer(t.Controller)
	reply, wrote, err := p.editFinalizers(ctx, t, func(o *object.Object) (operation, error) {
		switch {
		case slices.Contains(o.Finalizers, name):
			return operation{}, nil
		case o.Deleting():
			return operation{}, superseded("the object is being deleted, a finalizer can no longer be added")
		}
		return operation{op: "add", path: "/metadata/finalizers", value: append(slices.Clip(o.Finalizers), name)}, nil
	})
	if err == nil && reply == nil {
		err = superseded("the object is gone")
	}
	if err != nil {
		return nil, false, failed(verbFinalizer, t.Object.Ref(), err)
	}
	return reply, wrote, nil
}

// RemoveFinalizer removes the controller's finalizer, never another one. It
// returns nil if the object is gone, with it or before.
func (p *Performer) RemoveFinalizer(ctx context.Context, t Target) (reply *object.Object, failure *Failure) {
	name := p.finalizer(t.Controller)
	reply, _, err := p.editFinalizers(ctx, t, func(o *object.Object) (operation, error) {
		i := slices.Index(o.Finalizers, name)
		if i < 0 {
			return operation{}, nil
		}
		return operation{op: "remove", path: "/metadata/finalizers/" + strconv.Itoa(i)}, nil
	})
	if err != nil {
		return nil, failed(verbFinalizer, t.Object.Ref(), err)
	}
	if reply == nil || finished(reply) {
		p.Forget(t.Object.UID)
		return nil, nil
	}
	return reply, nil
}

// finished says that an update was the last one of an object: the server
// deletes it when nothing holds it any more and its grace period is over.
func finished(o *object.Object) bool {
	seconds := o.DeletionGracePeriodSeconds
	return o.Deleting() && len(o.Finalizers) == 0 && seconds != nil && *seconds == 0
}

// operation is one step of a JSON patch; none if it has no op.
type operation struct {
	op, path string
	value    []string
}

// editFinalizers performs an edit on the list of finalizers as it is: on one
// that has changed in between, the edit is asked again. It returns nil if the
// object is gone.
func (p *Performer) editFinalizers(ctx context.Context, t Target, edit func(*object.Object) (operation, error)) (o *object.Object, wrote bool, err error) {
	r, err := p.primary(ctx, t)
	if err != nil {
		return nil, false, err
	}
	o = t.Object
	for range maxRaces {
		todo, err := edit(o)
		if err != nil || todo.op == "" {
			return o, false, err
		}
		reply, refused := p.client.patch(ctx, r, o.Key(), patch{
			mediaType: jsonPatch, manager: p.manager(t.Controller), body: finalizerPatch(o, todo),
		})
		if refused == nil {
			return reply, p.written(verbFinalizer, o, reply), nil
		}
		fresh, err := p.afterRace(ctx, r, o, refused)
		if err != nil || fresh == nil {
			return nil, false, err
		}
		if slices.Equal(fresh.Finalizers, o.Finalizers) && fresh.Deleting() == o.Deleting() {
			return nil, false, refused // it was no race
		}
		o = fresh
	}
	return nil, false, superseded("the list of finalizers changed %d times meanwhile", maxRaces)
}

// afterRace returns the object as it is after a write of it was refused, nil
// if it is gone or another one has its name. A refusal for another reason is
// returned.
func (p *Performer) afterRace(ctx context.Context, r object.Resource, o *object.Object, refused error) (*object.Object, error) {
	if !gone(refused) && !raced(refused) {
		return nil, refused
	}
	fresh, err := p.client.get(ctx, r, o.Key())
	switch {
	case gone(err):
		return nil, nil
	case err != nil:
		return nil, err
	case fresh.UID != o.UID:
		return nil, nil
	case gone(refused):
		return nil, refused // the object is there: its subresource is not
	}
	return fresh, nil
}

// finalizerPatch returns a JSON patch that does nothing unless uid and
// finalizers are those of o.
func finalizerPatch(o *object.Object, todo operation) []byte {
	w := rawjson.NewWriter(nil)
	w.Array(func() {
		step(w, "test", "/metadata/uid", func() { w.String(string(o.UID)) })
		step(w, "test", "/metadata/finalizers", func() { writeNames(w, o.Finalizers) })
		var value func()
		if todo.value != nil {
			value = func() { writeNames(w, todo.value) }
		}
		step(w, todo.op, todo.path, value)
	})
	return w.Bytes()
}

func step(w *rawjson.Writer, op, path string, value func()) {
	w.Object(func() {
		w.Name("op").String(op)
		w.Name("path").String(path)
		if value != nil {
			w.Name("value")
			value()
		}
	})
}

// writeNames writes a list of finalizers; an absent one tests equal to null.
func writeNames(w *rawjson.Writer, names []string) {
	if len(names) == 0 {
		w.Raw([]byte("null"))
		return
	}
	w.Array(func() {
		for _, n := range names {
			w.String(n)
		}
	})
}
