package sdk

import (
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Controller is one reconcile function for one primary kind, with the types
// of its spec and status. Fields of the object that a type does not have are
// ignored when it is read, and survive when status is written.
type Controller[Spec, Status any] struct {
	// Name is a DNS label, distinct within the plugin.
	Name string
	// For is the primary kind.
	For Kind

	// Owns are kinds whose objects the primary controls: the host applies
	// them with an owner reference, and a change of one runs the primary.
	Owns []Kind
	// Reads are further kinds that Get and List may ask for.
	Reads []Kind
	// Writes are further kinds that Apply and Delete may touch.
	Writes []Kind

	// Reconcile brings the world closer to the spec. It is level-triggered:
	// it starts at the beginning each time, assumes nothing about why it
	// runs, and may be repeated at any time.
	Reconcile func(*Request[Spec, Status]) (Action, error)
	// Cleanup runs instead of Reconcile when the object is to be deleted,
	// and makes the host hold it by a finalizer until then. Nil says that
	// nothing is left and lets the object go; an error ([Waiting] while
	// something is still going on) keeps it.
	Cleanup func(*Request[Spec, Status]) error

	// Interval is when to come again after a success that names no time
	// itself; 0 awaits a change.
	Interval time.Duration
	// Timeout bounds one run; 0 leaves it to the host.
	Timeout time.Duration
	// Concurrency is how many objects are reconciled at once; 0 leaves it to
	// the host. One object is never reconciled twice at once.
	Concurrency int
	// Conditions says which conditions the controller owns and how Ready
	// follows from them.
	Conditions Conditions
	// Warm holds a value of each type that goes through Apply, Get and List.
	// What the codec learns about a type is kept from one run to the next
	// only if it is learnt when the plugin is loaded.
	Warm []any
}

// Conditions says which conditions a controller owns and how its target is
// summarized from others. The zero value fits a controller that sets none: the
// host derives Ready, Reconciling and Stalled from how runs end.
type Conditions struct {
	Target           string   // default "Ready"
	Owned            []string // besides Target, Reconciling and Stalled
	Summarized       []string // what Target depends on; besides Reconciling and Stalled
	NegativePolarity []string // those of Summarized that are bad when True
}

// Plugin sets the plugin's name, which is also that of its file, and its
// version. A plugin with one controller may leave both out: it is called like
// the controller. Call it from an init function.
func Plugin(name, version string) { guest.Name(name, version) }

// MemoVersion names what the plugin's memos mean ([Run.SetMemo]): when the
// plugin is replaced by a version that names the same, they stay; else they are
// dropped with everything that the old version has tried. Call it from an init
// function, and name another one when what a memo means changes.
func MemoVersion(version string) { guest.MemoVersion(version) }

// Register adds a controller to the plugin. Call it from an init function. It
// panics when the controller could never work, so that the host refuses the
// plugin when it is loaded.
//
// Types with methods that `thole generate` wrote are read and written by them,
// all others by encoding/json.
func Register[Spec, Status any](c Controller[Spec, Status]) {
	useEncodingJSON()
	register(c)
}

// RegisterGenerated is [Register] for a plugin all of whose types have methods
// that `thole generate` wrote. It does not compile for a Spec or Status without
// them; for another type, [Run.Get] and the like return an error. If all
// controllers of a plugin are registered by it, the plugin does not contain
// encoding/json, which is a good part of a small one.
func RegisterGenerated[Spec, Status any, S generated[Spec], T generated[Status]](c Controller[Spec, Status]) {
	register(c)
}

// generated is a pointer to a type that brings its own codec.
type generated[T any] interface {
	*T
	decoder
	encoder
}

func register[Spec, Status any](c Controller[Spec, Status]) {
	if c.Reconcile == nil {
		panic("sdk.Register: controller " + strconv.Quote(c.Name) + " has no Reconcile")
	}
	guest.Register(guest.Controller{
		Manifest: c.manifest(),
		Begin:    c.begin,
		Warm:     c.warm,
	})
}

func (c *Controller[Spec, Status]) manifest() abi.Controller {
	return abi.Controller{
		Name: c.Name, For: abi.Kind(c.For),
		Owns: kinds(c.Owns), Reads: kinds(c.Reads), Writes: kinds(c.Writes),
		Finalizer: c.Cleanup != nil,
		Interval:  milliseconds(c.Interval), Timeout: milliseconds(c.Timeout),
		Concurrency: c.Concurrency, Conditions: abi.Conditions(c.Conditions),
	}
}

func kinds(in []Kind) (out []abi.Kind) {
	for _, k := range in {
		out = append(out, abi.Kind(k))
	}
	return out
}

// begin begins one run.
func (c *Controller[Spec, Status]) begin() *guest.Run {
	n := &run[Spec, Status]{controller: c}
	return &guest.Run{Read: n.read, Reconcile: n.reconcile}
}

// run is one run of a controller.
type run[Spec, Status any] struct {
	controller *Controller[Spec, Status]
	request    Request[Spec, Status]
	status     []byte // of the primary, nil if it has none
	err        error  // why the primary could not be read
}

func (n *run[Spec, Status]) read(object *Reader) {
	r := &n.request
	n.status, n.err = readObject(object, &r.ObjectMeta, &r.Spec, &r.Status)
}

func (n *run[Spec, Status]) reconcile(h guest.Host, q *abi.Request) (abi.Code, *abi.Result) {
	r := &n.request
	r.Run = newRun(h, q)
	r.Run.status = n.status
	if n.err != nil {
		return r.end(Action{}, n.err)
	}
	before, err := encode(&r.Status)
	if err != nil {
		return r.end(Action{}, err)
	}
	action, err := n.controller.call(r, q.Deleting)
	r.diffStatus(before, &r.Status)
	return r.end(action, err)
}

func (c *Controller[Spec, Status]) call(r *Request[Spec, Status], deleting bool) (Action, error) {
	switch {
	case !deleting:
		return c.Reconcile(r)
	case c.Cleanup != nil:
		return Action{}, c.Cleanup(r)
	default:
		return Action{}, nil
	}
}

// warm makes the codec meet every type that is known by now.
func (c *Controller[Spec, Status]) warm() error {
	var r Request[Spec, Status]
	for _, v := range append([]any{&r.Spec, &r.Status}, c.Warm...) {
		if err := warm(v); err != nil {
			return err
		}
	}
	return nil
}
