package operator

import (
	"errors"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/content"
)

// pass is one run for an object. It delivers one event, or none.
type pass[Spec, Status sdk.Value] struct {
	*layer[Spec, Status]
	r      *sdk.Request[Spec, Status]
	failed bool // an effect of the last run failed
	open   bool // the last run did not end well, and not because an event waits for its time
	record      // of the runs before, and then for the next one
}

// run is the Reconcile, Cleanup and Gone of the controller.
func (l *layer[Spec, Status]) run(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	p := l.begin(r)
	e, ok := p.next()
	if !ok {
		return p.finish(sdk.Empty(), nil) // as a success, it would release what it does not apply
	}
	err := p.deliver(e)
	if errors.Is(err, sdk.ErrUnavailable) { // the host repeats the run as soon as there is a reply
		return sdk.Action{}, err
	}
	return p.finish(sdk.AwaitChange(), err)
}

// begin reads what earlier runs have left. An event whose call succeeded is done, unless the
// host could not perform what the call asked for.
func (l *layer[Spec, Status]) begin(r *sdk.Request[Spec, Status]) *pass[Spec, Status] {
	p := &pass[Spec, Status]{layer: l, r: r}
	if _, err := r.Memo(&p.record); err != nil {
		p.record = record{}
	}
	if r.Previous != nil {
		p.failed = len(r.Previous.Failures) > 0
		p.open = r.Previous.Class != abi.ClassWaiting
	}
	p.drop(func(e event) bool { return e.done && !p.failed && (!p.open || e.action != p.action()) })
	for i := range p.pending {
		p.pending[i].done = false
	}
	return p
}

// next returns the event that is delivered, if there is one.
func (p *pass[Spec, Status]) next() (e event, ok bool) {
	e = event{action: p.action(), generation: p.r.Generation}
	switch {
	case e.action == Deleted:
		p.drop(func(e event) bool { return e.action != Deleted })
	case p.newer(e.action):
		if e.action == Resynced { // it is again as it was handled
			e.action = Updated
		}
		p.supersede(e)
		return e, true
	}
	if i := p.turn(); i >= 0 {
		return p.take(i), true
	}
	if len(p.pending) > 0 {
		return e, false
	}
	return p.idle(e)
}

// turn returns the index of the pending event that is delivered: one that is due, or else the
// newest one, which may be before its time if the run is not for an update that does not count.
// -1 means none.
func (p *pass[Spec, Status]) turn() int {
	if first := p.first(); first >= 0 && p.pending[first].due <= p.r.Now.UnixMilli() {
		return first
	}
	if p.Opinionated && p.byItself() && (p.r.Change.Type != sdk.Deleted || !p.newer(Deleted)) {
		return -1
	}
	return slices.IndexFunc(p.pending, func(e event) bool { return !e.kept })
}

// idle returns the event of a run for which none is pending. In the opinionated form there is
// none if the object has had only updates that do not count.
func (p *pass[Spec, Status]) idle(e event) (event, bool) {
	if p.open || !p.Opinionated || e.action == Created || e.action == Deleted {
		return e, true
	}
	e.action = Resynced
	return e, !p.noSync && (p.r.Change.Type == sdk.Resumed || !p.byItself())
}

// action returns what has happened to the object since it was handled.
func (p *pass[Spec, Status]) action() Action {
	switch t := p.r.Change.Type; {
	case p.Opinionated && (t == sdk.Updated || t == sdk.Resumed):
		if p.changed() {
			return Updated
		}
		return Resynced
	case t == sdk.StatusUpdated:
		return Updated
	case t == sdk.Resumed:
		return Created
	default:
		return t
	}
}

// changed reports whether the object may have changed since it was handled.
func (p *pass[Spec, Status]) changed() bool {
	old := p.r.Change.Old
	return old == nil || p.version(old) != p.version(p.r.Object())
}

// newer reports whether the object has changed since the last call. If nothing is known of
// that, the change since it was handled counts.
func (p *pass[Spec, Status]) newer(action Action) bool {
	if p.seen == "" {
		return action != Resynced
	}
	now := p.version(p.r.Object())
	return now != p.seen && (!p.open || now != p.given)
}

// supersede drops the events that do not wait any longer because of a newer one.
func (p *pass[Spec, Status]) supersede(newer event) {
	p.drop(func(e event) bool { return p.Dequeue == nil || p.Dequeue(p.request(newer), e.exported()) })
	p.pending = p.pending[max(len(p.pending)-maxKept, 0):]
	for i := range p.pending {
		p.pending[i].kept = true
	}
}

// byItself reports whether nothing but the object has caused the run.
func (p *pass[Spec, Status]) byItself() bool {
	for _, reason := range p.r.Reasons {
		if reason != abi.ReasonPrimary && reason != abi.ReasonStatus {
			return false
		}
	}
	return len(p.r.Reasons) > 0
}

// version returns a digest of what the generation of an object counts: all but metadata and
// status. Of a kind without generations, labels and annotations count as well.
func (p *pass[Spec, Status]) version(object []byte) string {
	if p.r.Generation == 0 {
		return content.Digest(content.Of(object))
	}
	return content.Digest(content.Spec(object))
}

func (p *pass[Spec, Status]) request(e event) *Request[Spec, Status] {
	return &Request[Spec, Status]{Request: p.r, Action: e.action, Retry: e.calls, state: e.state}
}

// deliver calls the reconciler for an event. It returns nil if the event is done.
func (p *pass[Spec, Status]) deliver(e event) error {
	result, err := p.Reconcile(p.request(e))
	e.calls++
	err = p.decide(result, err, e.calls)
	if invalid := e.keep(result.State); invalid != nil {
		err = invalid
	}
	if sdk.IsStalled(err) {
		return err
	}
	e.done, e.message = err == nil, ""
	if err != nil {
		e.due, e.message = p.r.Now.Add(afterOf(err)).UnixMilli(), short(err.Error())
	}
	p.pending = append(p.pending, e)
	return err
}

// finish stores what the next run needs, and returns how this one ends: well if no event is
// pending.
func (p *pass[Spec, Status]) finish(well sdk.Action, err error) (sdk.Action, error) {
	p.store()
	first := p.first()
	if first < 0 {
		return well, err
	}
	e := p.pending[first]
	after := max(time.UnixMilli(e.due).Sub(p.r.Now), time.Millisecond)
	switch {
	case err == nil:
		err = sdk.Waiting("RetryPending", after, errors.New(string(e.action)+" is delivered again: "+e.message))
	case sdk.IsStalled(err) || sdk.IsWaiting(err):
		err = sdk.Waiting("", after, err)
	default:
		err = sdk.RetryAfter(after, err)
	}
	return sdk.Action{}, err
}

// store writes the record. In the opinionated form a patch, even one of nothing, makes the
// host hold the object by its finalizer.
func (p *pass[Spec, Status]) store() {
	if p.Opinionated && p.r.Change.Type != sdk.Deleted {
		p.r.Patch(sdk.Raw("{}"))
	}
	patched, _ := p.r.Patched() // if that fails, the host refuses the result
	p.given, p.seen = p.version(p.r.Object()), p.version(patched)
	p.r.SetMemo(&p.record)
}
