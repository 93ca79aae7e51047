package sdk

import (
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/cloudevents"
	"github.com/thole-dev/thole/abi/gauges"
	"github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Controller is one reconcile function for one primary kind, with the types of its
// spec and status. Members of the object that a type does not have are ignored
// when the object is read, and kept when its status is written.
type Controller[Spec, Status Value] struct {
	// Name is a DNS label, distinct within the plugin.
	Name string
	// For is the primary kind.
	For Kind

	// Owns are kinds whose objects the primary controls: the host applies them
	// with an owner reference, and runs the primary when one of them changes.
	Owns []Kind
	// Reads are further kinds that Get and List may read.
	Reads []Kind
	// Writes are further kinds that Apply and Delete may change.
	Writes []Kind
	// Select narrows what is followed of kinds in For, Owns and Reads: see the function
	// [Select]. nil follows all of every object.
	Select Selection
	// Watches are further kinds. A change of such an object runs the primaries that belong
	// to it, whether or not they have read it. Get and List may read it.
	Watches []Watch
	// Indexes are fields by which List finds objects, with the FieldSelector of a
	// [Query], without looking at all objects of the kind, and what [IndexBy] has made
	// for Lookup.
	Indexes []Index

	// Reconcile makes the cluster match the spec. It is level-triggered: each run
	// starts from the beginning, must not depend on why it runs, and may be
	// repeated at any time.
	Reconcile func(*Request[Spec, Status]) (Action, error)
	// Cleanup runs instead of Reconcile when the object is being deleted. If it
	// is set, the host holds the object by a finalizer until Cleanup has returned
	// nil. An error keeps the object; return [Waiting] while something is in
	// progress.
	//
	// The API server may delete an object just after the finalizer was added. Cleanup then
	// runs for an object that is gone, with Gone of the [Run] set and what was last known of
	// the object, until it has returned nil or [Stalled]. It can still send requests, and apply
	// and delete other objects. Status, conditions and Patch have no effect then, and Apply of a
	// kind in Owns ends the cleanup as stalled, because nothing can belong to the object.
	Cleanup func(*Request[Spec, Status]) error
	// WhileDeleting makes Reconcile run also while the object is being deleted and others
	// hold it, such as the garbage collector: see [ObjectMeta.Deleting]. The host holds
	// nothing for it, so that the object may go before a run. It creates no object of a kind
	// in Owns then. Not beside Cleanup.
	WhileDeleting bool

	// Gone, if it is set, runs for an object that is gone without a Cleanup: one that never had
	// the finalizer, lost it, or is not followed any more. The Request has what was last known of
	// the object. Status, conditions and Patch are refused, and so is Apply of a kind in
	// Owns. It is not called for what is deleted while no host runs: where nothing must be
	// missed, use Cleanup.
	Gone func(*Request[Spec, Status]) error
	// Changes asks for the Change of each [Run], and chooses where the host keeps what it
	// needs for that.
	Changes Changes
	// Prune lets [Run.Prune] delete what the controller has created before. The host labels what it creates
	// from then on.
	Prune bool
	// Timers are schedules of each object: when one is due, Reconcile runs, and [Run.Due]
	// reports it.
	Timers []Timer

	// HTTP are hosts that it sends requests to by [Run.HTTP].
	HTTP []HTTPHost

	// CloudEvents lets the host publish each change of an object of For and the end of each run, as
	// CloudEvents to the sinks that the policy names.
	CloudEvents bool
	// Receives are CloudEvents from outside that make objects of For run, which [Run.Received] has.
	Receives []Receive

	// Daemon is what each object does in the background: see the function [Daemon].
	Daemon *DaemonOf[Spec, Status]

	// Scans are functions that run at an interval and find the objects to run: see the function [Scan].
	Scans []ScanFunc
	// Gauges are those of the Indexes by whose values the host counts the primaries, in the metric
	// thole_objects.
	Gauges []Gauge

	// Validate allows or denies requests to the API server for objects of For: see the function
	// [Validate].
	Validate *ValidatorOf[Spec, Status]
	// Mutate changes objects of For before they are stored: see the function [Mutate].
	Mutate *MutatorOf[Spec, Status]
	// Convert converts objects of For between the versions of the kind: see the function [Convert].
	Convert *ConverterOf[Spec, Status]

	// Processors are called in this order after Reconcile or Cleanup has returned. They
	// are not called if the object could not be read.
	Processors []Processor[Spec, Status]

	// Interval is the time until the next run after a success that specifies none
	// itself; 0 waits for a change.
	Interval time.Duration
	// IntervalOf, if set, returns the interval of one object, such as one in its spec.
	// It is called after the processors, for a success that specifies no time; 0 or less
	// means Interval.
	IntervalOf func(*Request[Spec, Status]) time.Duration
	// Timeout limits one run; 0 means the host's default.
	Timeout time.Duration
	// Concurrency is the number of objects that are reconciled at the same time; 0
	// means the host's default. One object has only one run at a time.
	Concurrency int
	// Retry is when runs that failed are repeated, and how often.
	Retry RetryPolicy
	// ErrorPolicy, if set, is called with an error of Reconcile or Cleanup that
	// leaves open how the run ends: any but [RetryAfter], [Stalled] and [Waiting].
	// attempt counts the failed runs in a row, this one included. It returns the
	// error that decides, which may be one of these; nil stands for err. An
	// effect that the host cannot perform is no error of Reconcile: the run that
	// follows has it in Previous.
	ErrorPolicy func(r *Request[Spec, Status], err error, attempt int) error
	// Conditions lists the conditions that the controller owns, and those that
	// Ready depends on.
	Conditions Conditions
	// StatusOwner is who writes conditions and observedGeneration: the host or, with
	// [StatusOwnerGuest], the controller.
	StatusOwner StatusOwner
	// Applied is where the host keeps what it has applied to objects of kinds in Owns: in an
	// annotation or, with [AppliedMemory], not on the objects.
	Applied Applied
	// Warm has a value of each type that is passed to Apply, Get and List. What a
	// codec computes about a type is kept between runs only if it is computed
	// when the plugin is loaded.
	Warm []Value

	metadataOnly bool // of For, nothing but the metadata is followed
}

// Index is a field of a kind that the controller may read, or made by [IndexBy]. Field is a path such as
// spec.nodeName or, with [*] for each element of an array,
// spec.volumes[*].secret.secretName. Name is a DNS label, distinct within the controller.
//
//	type Index struct {
//		Name  string // a DNS label, distinct within the controller
//		Kind  Kind   // one that get and list may read
//		Field string // a path such as spec.volumes[*].secret.secretName
//	}
type Index = abi.Index

// Gauge is an index by whose values the host counts the primaries of a controller. The name of the index is
// the label field of the metric.
//
//	type Gauge struct {
//		Index string // the name of an index of the controller, of the primary kind
//	}
type Gauge = gauges.Gauge

// Conditions lists the condition types that a controller owns and those that its target
// condition summarizes. The zero value is for a controller that sets none: the host
// derives Ready, Reconciling and Stalled from how runs end.
//
//	type Conditions struct {
//		Target           string    // the summary; "" means Ready
//		Owned            []string  // types that results may set, besides Target, Reconciling and Stalled
//		Summarized       []string  // types that Target depends on, besides Reconciling and Stalled
//		NegativePolarity []string  // those of the other lists for which True is the bad status
//		Summaries        []Summary // further target conditions
//	}
//
//	func (c Conditions) IsZero() bool          // reports whether the manifest names no conditions
//	func (c Conditions) TargetOrReady() string // returns Target, or DefaultTarget if it is empty
//	func (c Conditions) Written() []string     // returns the distinct types of conditions that belong to the controller
type Conditions = abi.Conditions

// Summary is a further target condition of [Conditions], with a summary of its own.
//
//	type Summary struct {
//		Target           string   // a type other than Ready and the other targets
//		Summarized       []string // all types that Target depends on, also Reconciling and Stalled; one or more
//		NegativePolarity []string // those of Summarized for which True is the bad status
//	}
type Summary = abi.Summary

// Plugin sets the plugin's name, which its file must have too, and its version. A
// plugin with one controller need not call it, and has the name of the controller
// then. It must be called from an init function.
func Plugin(name, version string) { guest.Name(name, version) }

// MemoVersion sets the version of the format of the plugin's memos
// ([Run.SetMemo]). When the plugin is replaced, its memos are kept if the new
// revision has the same version, and dropped otherwise. It must be called from an
// init function. Change the version when the meaning of a memo changes.
func MemoVersion(version string) { guest.MemoVersion(version) }

// Register adds a controller to the plugin. It must be called from an init
// function. It panics if the controller is incomplete, so that the host refuses to
// load the plugin.
//
// Types with methods that `thole generate` wrote are read and written by these
// methods, and all others by encoding/json. TinyGo leaves it out of a plugin with
// generated methods in which no type needs it: it is 40 % of a small one. See
// [Value].
func Register[Spec, Status Value](c Controller[Spec, Status]) {
	requireAll[Spec, Status]()
	if c.Reconcile == nil {
		panic("sdk.Register: controller " + strconv.Quote(c.Name) + " has no Reconcile")
	}
	manifest := c.manifest()
	addIndexes(manifest, c.Indexes)
	if c.CloudEvents {
		manifest.Sections = append(manifest.Sections, abi.Section{Name: cloudevents.Name, Value: []byte("true")})
	}
	if c.Changes != "" {
		manifest.Sections = append(manifest.Sections, abi.Section{Name: changes.Name, Value: c.Changes.Encode()})
	}
	if len(c.Timers) > 0 {
		manifest.Sections = append(manifest.Sections, timersOf(c.Timers))
	}
	if len(c.HTTP) > 0 {
		manifest.Sections = append(manifest.Sections, abi.Section{Name: http.Name, Value: http.Encode(c.HTTP)})
	}
	if c.Daemon != nil {
		c.Daemon.register(manifest)
	}
	for _, s := range c.Scans {
		s.register(manifest)
	}
	if len(c.Gauges) > 0 {
		manifest.Sections = append(manifest.Sections, abi.Section{Name: gauges.Name, Value: gauges.Encode(c.Gauges)})
	}
	if len(c.Receives) > 0 {
		manifest.Sections = append(manifest.Sections, abi.Section{Name: receives.Name, Value: receives.Encode(c.Receives)})
	}
	if c.Validate != nil || c.Mutate != nil || c.Convert != nil {
		c.registerWebhooks(manifest)
	}
	if c.Select != nil {
		c.Select(manifest)
	}
	c.metadataOnly = manifest.For.MetadataOnly
	guest.Register(&guest.Controller{
		Manifest: manifest,
		Begin:    c.begin,
		Warm:     c.warm,
	})
}

// registerWebhooks adds the functions that the API server calls, and their section.
func (c *Controller[Spec, Status]) registerWebhooks(manifest *abi.Controller) {
	var w webhooks.Webhooks
	if c.Validate != nil {
		c.Validate.register(manifest, &w)
	}
	if c.Mutate != nil {
		c.Mutate.register(manifest, &w)
	}
	if c.Convert != nil {
		c.Convert.register(manifest, &w)
	}
	manifest.Sections = append(manifest.Sections, w.Section())
}

// manifest returns the controller's part of the manifest.
func (c *Controller[Spec, Status]) manifest() *abi.Controller {
	return &abi.Controller{
		Name: c.Name, For: c.For.All(), Owns: abi.AllOf(c.Owns...), Reads: abi.AllOf(c.Reads...),
		Watches: c.Watches, Writes: c.Writes,
		Finalizer: c.Cleanup != nil, WhileDeleting: c.WhileDeleting, StatusOwner: c.StatusOwner, Applied: c.Applied, Gone: c.Gone != nil, Prune: c.Prune,
		Interval: milliseconds(c.Interval), Timeout: milliseconds(c.Timeout),
		Concurrency: c.Concurrency, Retry: c.Retry.manifest(), Conditions: c.Conditions,
	}
}

// begin returns a new run.
func (c *Controller[Spec, Status]) begin() *guest.Run {
	n := &run[Spec, Status]{controller: c}
	return &guest.Run{Read: n.read, Reconcile: n.reconcile}
}

// run is one run of a controller.
type run[Spec, Status Value] struct {
	controller *Controller[Spec, Status]
	request    Request[Spec, Status]
	status     []byte // JSON of the primary's status, nil if there is none
	err        error  // of reading the primary
}

func (n *run[Spec, Status]) read(object *Reader) {
	r := &n.request
	n.status, n.err = readObject(object, &r.ObjectMeta, &r.Spec, &r.Status)
}

// reconcile calls the author's function and returns the result of the run. The status is
// encoded before and after the call, because the function changes it in place.
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
	if err != nil {
		err = n.controller.decideError(r, err, q.Attempt+1)
	}
	action, err = n.controller.process(r, action, err)
	r.diffStatus(before, &r.Status)
	if n.controller.metadataOnly {
		refuseStatus(r.Run)
	}
	if n.controller.StatusOwner == StatusOwnerGuest {
		r.refuseConditions()
	}
	return r.end(action, err)
}

// call calls Reconcile, Cleanup or Gone. Without Cleanup a deletion needs no run, and succeeds.
func (c *Controller[Spec, Status]) call(r *Request[Spec, Status], deleting bool) (Action, error) {
	switch {
	case r.Gone && c.Gone != nil && (!deleting || c.Cleanup == nil):
		return Action{}, c.Gone(r)
	case !deleting || c.WhileDeleting:
		return c.Reconcile(r)
	case c.Cleanup != nil:
		return Action{}, c.Cleanup(r)
	default:
		return Action{}, nil
	}
}

// warm encodes and decodes a value of every type that is known at this time.
func (c *Controller[Spec, Status]) warm() error {
	var r Request[Spec, Status]
	for _, v := range append([]Value{&r.Spec, &r.Status}, c.Warm...) {
		if err := warm(v); err != nil {
			return err
		}
	}
	return nil
}
