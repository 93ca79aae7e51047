package handlers

import (
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/sdk"
)

// Func is the function of a handler.
type Func[Spec, Status sdk.Value] func(*Call[Spec, Status]) error

// Handlers are the handlers of one controller. They are called in the order in which they
// are added. The zero value has none. Each has a name of letters, digits, '-' and '_', at
// most 63, which is distinct within the controller and must not change while objects have
// progress: it is the key of that. A handler that cannot work makes its registration panic,
// so that the host refuses to load the plugin.
type Handlers[Spec, Status sdk.Value] struct {
	all    []*Handler[Spec, Status]
	timers []sdk.Timer
	sealed bool // by Controller

	annotated bool // the handled state is kept in the annotation
}

// OnCreate adds a handler for an object that was never handled.
func (h *Handlers[Spec, Status]) OnCreate(name string, fn Func[Spec, Status]) *Handler[Spec, Status] {
	return h.add(onCreate, name, fn)
}

// OnUpdate adds a handler for an object that was handled, and differs from that in its
// labels, annotations or anything else but metadata and status. Changes that happened while
// no host ran count too, if the old object is known.
func (h *Handlers[Spec, Status]) OnUpdate(name string, fn Func[Spec, Status]) *Handler[Spec, Status] {
	return h.add(onUpdate, name, fn)
}

// OnResume adds a handler for an object that was handled before the host began to reconcile
// it: after a start, a fail-over, and with a new revision of the plugin.
func (h *Handlers[Spec, Status]) OnResume(name string, fn Func[Spec, Status]) *Handler[Spec, Status] {
	return h.add(onResume, name, fn)
}

// OnDelete adds a handler for an object that is being deleted. The host holds the object by
// a finalizer until all these handlers are done; see [Handler.Optional].
func (h *Handlers[Spec, Status]) OnDelete(name string, fn Func[Spec, Status]) *Handler[Spec, Status] {
	return h.add(onDelete, name, fn)
}

// OnField adds a handler for a change of the value at a path such as spec.replicas: of an
// object that is created if it has the value, and of an object that was handled if the value
// is another now. The path begins with labels or annotations of the metadata, with status,
// or with any other member of the object. See the package documentation for paths within
// status.
func (h *Handlers[Spec, Status]) OnField(name, path string, fn Func[Spec, Status]) *Handler[Spec, Status] {
	added := h.add(onField, name, fn)
	added.path = added.mustParse(path)
	if why := notChanging(added.path); why != "" {
		added.panic("path " + strconv.Quote(path) + " " + why)
	}
	added.readsStatus = added.ofStatus()
	return added
}

// OnEvent adds a handler that is called in every run, whatever has changed. It has no
// progress: an error is logged and ignored.
func (h *Handlers[Spec, Status]) OnEvent(name string, fn Func[Spec, Status]) *Handler[Spec, Status] {
	return h.add(onEvent, name, fn)
}

// Timer adds a handler that is called when a timer is due. The name of the timer is that of
// the handler, and must be a DNS label.
func (h *Handlers[Spec, Status]) Timer(timer sdk.Timer, fn Func[Spec, Status]) *Handler[Spec, Status] {
	added := h.add(onTimer, timer.Name, fn)
	added.interval = timer.Interval
	h.timers = append(h.timers, timer)
	return added
}

// add adds a handler after checking its name.
func (h *Handlers[Spec, Status]) add(on cause, name string, fn Func[Spec, Status]) *Handler[Spec, Status] {
	added := &Handler[Spec, Status]{on: on, name: name, fn: fn}
	switch {
	case !isName(name):
		added.panic("the name is not 1 to 63 letters, digits, '-' and '_'")
	case fn == nil:
		added.panic("it has no function")
	case h.sealed:
		added.panic("it is added after the call of Controller")
	}
	for _, other := range h.all {
		if other.name == name {
			added.panic("there are two of that name")
		}
	}
	h.all = append(h.all, added)
	return added
}

// Controller returns a controller that calls the handlers, to be passed to [sdk.Register].
// base has everything else of it, and no Reconcile, Cleanup and
// Gone. If base has no Changes, the handled state is kept in the annotation. Its Retry should
// have no Attempts: each handler has its own.
func (h *Handlers[Spec, Status]) Controller(base sdk.Controller[Spec, Status]) sdk.Controller[Spec, Status] {
	h.check(&base)
	h.sealed = true
	if base.Changes == "" {
		base.Changes = sdk.ChangesAnnotation
	}
	h.annotated = base.Changes == sdk.ChangesAnnotation
	base.Reconcile = func(r *sdk.Request[Spec, Status]) (sdk.Action, error) { return h.run(r, false) }
	if h.has(func(o *Handler[Spec, Status]) bool { return o.on == onDelete && !o.optional }) {
		base.Cleanup = func(r *sdk.Request[Spec, Status]) error { return h.end(r, true) }
	}
	if h.has(func(o *Handler[Spec, Status]) bool { return o.optional }) {
		base.Gone = func(r *sdk.Request[Spec, Status]) error { return h.end(r, false) }
	}
	base.Timers = append(slices.Clip(base.Timers), h.timers...)
	return base
}

// check panics if the handlers cannot be those of a controller.
func (h *Handlers[Spec, Status]) check(base *sdk.Controller[Spec, Status]) {
	size := progressOverhead
	for _, o := range h.all {
		if o.on != onEvent {
			size += len(o.name) + maxEntry
		}
	}
	why := ""
	switch {
	case base.Reconcile != nil || base.Cleanup != nil || base.Gone != nil:
		why = "has a Reconcile, Cleanup or Gone of its own: add it as a handler"
	case len(h.all) == 0:
		why = "has no handlers"
	case size > changes.MaxProgress:
		why = "has so many handlers that their progress may exceed 4 KiB: split it, or shorten their names"
	}
	if why != "" {
		panic("handlers: controller " + strconv.Quote(base.Name) + " " + why)
	}
}

// has reports whether there is a handler of some kind.
func (h *Handlers[Spec, Status]) has(is func(*Handler[Spec, Status]) bool) bool {
	return slices.ContainsFunc(h.all, is)
}
