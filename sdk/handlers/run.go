package handlers

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/content"
)

// pass is one run of all handlers for an object.
type pass[Spec, Status sdk.Value] struct {
	r         *sdk.Request[Spec, Status]
	annotated bool // the handled state is kept in the annotation
	cleanup   bool // the object is, or was, held for the handlers of OnDelete
	change    sdk.ChangeType
	old       []byte                    // JSON of the object as it was handled, nil if not known
	typed     *sdk.Object[Spec, Status] // old, once it was read
	read      bool                      // typed is set, unless old cannot be read
	before    progress                  // of the runs since the object was handled
	next      progress                  // of this run
	status    *statusFields             // nil if no handler is for a field of the status
	items     []DiffItem                // of old and the object
	diffed    bool                      // items is set
	open      []string                  // the handlers that are called again, each with its error
	failed    error                     // of the first call that failed and is repeated
	again     int64                     // when the next handler is called again, in milliseconds since 1970
}

// end calls the handlers for an object that is being deleted, or is gone. cleanup is set if the
// object was held for the handlers that are not optional.
func (h *Handlers[Spec, Status]) end(r *sdk.Request[Spec, Status], cleanup bool) error {
	_, err := h.run(r, cleanup)
	return err
}

// run calls the handlers. It is the Reconcile and, by end, the Cleanup and Gone of the controller.
func (h *Handlers[Spec, Status]) run(r *sdk.Request[Spec, Status], cleanup bool) (sdk.Action, error) {
	p := h.begin(r)
	p.cleanup = cleanup
	for _, o := range h.all {
		if err := p.step(o); err != nil {
			p.status.store(r.Run)
			return sdk.Action{}, err
		}
	}
	return p.end()
}

// begin reads what earlier runs have left.
func (h *Handlers[Spec, Status]) begin(r *sdk.Request[Spec, Status]) *pass[Spec, Status] {
	p := &pass[Spec, Status]{r: r, annotated: h.annotated, change: sdk.Updated}
	if r.Change != nil {
		p.change, p.old = r.Change.Type, r.Change.Old
	}
	if ok, err := r.Progress(&p.before); !ok || err != nil {
		p.before = progress{}
	}
	if h.has(func(o *Handler[Spec, Status]) bool { return o.readsStatus }) {
		p.status = newStatusFields(r.Run, func() ([]byte, error) { return sdk.Encode(&r.Status) })
	}
	if len(p.before.entries) > 0 && p.before.content != p.contentDigest() {
		h.restart(&p.before)
	}
	return p
}

// restart drops the progress of handlers that were called for another content of the object.
func (h *Handlers[Spec, Status]) restart(before *progress) {
	kept := before.entries[:0]
	for _, e := range before.entries {
		for _, o := range h.all {
			if o.name == e.handler && o.on != onCreate && o.on != onUpdate && o.on != onResume {
				kept = append(kept, e)
			}
		}
	}
	before.entries = kept
}

// content returns the digest of the object, with what the run has patched.
func (p *pass[Spec, Status]) contentDigest() string {
	object, err := p.r.Patched()
	if err != nil {
		object = p.r.Object()
	}
	return content.Digest(content.Of(object))
}

// step calls a handler, if it is its turn. An error ends the run.
func (p *pass[Spec, Status]) step(o *Handler[Spec, Status]) error {
	c, e := p.callOf(o)
	switch {
	case !p.caused(o, c) || !o.matches(p.withOld(c)):
		p.status.handled(o.name, o.path, e.value)
	case o.on == onEvent:
		p.observe(o, c)
	case e.rests(p.r.Now):
		p.rest(e)
	default:
		return p.call(o, c, e)
	}
	return nil
}

// callOf returns the call of a handler, without the old object, and its progress.
func (p *pass[Spec, Status]) callOf(o *Handler[Spec, Status]) (*Call[Spec, Status], entry) {
	c := &Call[Spec, Status]{
		Request: p.r, Handler: o.name, Reason: p.change, Started: p.r.Now, pass: p, path: o.path,
	}
	e := p.before.find(o.name)
	value := ""
	if o.on == onField {
		c.OldValue, c.NewValue = valueAt(p.old, o.path), p.value(o.path)
		value = content.Digest(c.NewValue)
	}
	dueAgain := e.done && e.until != 0 && !e.rests(p.r.Now) // of a timer
	if dueAgain || e.value != value {
		e = entry{handler: o.name, value: value}
	}
	if e.calls > 0 {
		c.Retry, c.Started = e.calls, time.UnixMilli(e.started).UTC()
	}
	return c, e
}

// withOld adds the old object to a call. It is read once, and only for handlers that may be
// called.
func (p *pass[Spec, Status]) withOld(c *Call[Spec, Status]) *Call[Spec, Status] {
	if !p.read {
		var err error
		if p.typed, err = p.r.Old(); err != nil {
			p.r.Log.Warn("the old object is ignored", "error", err)
		}
		p.read = true
	}
	c.Old = p.typed
	return c
}

// observe calls a handler of OnEvent.
func (p *pass[Spec, Status]) observe(o *Handler[Spec, Status], c *Call[Spec, Status]) {
	if err := o.fn(c); err != nil {
		p.r.Log.Error("the error of a handler is ignored", "handler", o.name, "error", err)
	}
}

// rest leaves out a handler that is done, or whose time has not come.
func (p *pass[Spec, Status]) rest(e entry) {
	if !e.done {
		p.open = append(p.open, "handler "+strconv.Quote(e.handler)+" is called again later")
	}
	p.keep(e)
}

// keep adds the entry of a handler to the progress.
func (p *pass[Spec, Status]) keep(e entry) {
	p.next.entries = append(p.next.entries, e)
	if e.until != 0 && (p.again == 0 || e.until < p.again) {
		p.again = e.until
	}
}

// call calls a handler and notes what follows. The host repeats a run as soon as it has the
// reply to a read that was not available; such a run is no attempt.
func (p *pass[Spec, Status]) call(o *Handler[Spec, Status], c *Call[Spec, Status], e entry) error {
	err := o.fn(c)
	if errors.Is(err, sdk.ErrUnavailable) {
		return err
	}
	e.calls, e.started, e.until = c.Retry+1, c.Started.UnixMilli(), 0
	verdict, after := o.judge(err, e.calls, p.r.Now.Sub(c.Started), p.r.Seed[0])
	switch verdict {
	case succeeded:
	case ignored:
		p.r.Log.Warn("the error of a handler is ignored", "handler", o.name, "error", err)
	case failed:
		p.r.Event(sdk.Warning, "HandlerFailed", describe(o.name, err)+" (not called again for this change)")
	case tries, waits:
		p.repeat(e, err, verdict, after)
		return nil
	}
	if e.done = true; o.on == onTimer {
		e.until = p.r.Now.Add(o.interval).UnixMilli()
	}
	p.status.handled(o.name, o.path, e.value)
	p.keep(e)
	return nil
}

// repeat notes that a handler is called again.
func (p *pass[Spec, Status]) repeat(e entry, err error, v verdict, after time.Duration) {
	e.until = p.r.Now.Add(after).UnixMilli()
	p.open = append(p.open, describe(e.handler, err))
	if v == tries && p.failed == nil {
		p.failed = err
	}
	p.keep(e)
}

func describe(handler string, err error) string {
	return "handler " + strconv.Quote(handler) + ": " + err.Error()
}

// end returns how the run ends: well if no handler must be called again.
func (p *pass[Spec, Status]) end() (sdk.Action, error) {
	p.status.store(p.r.Run)
	if len(p.open) == 0 {
		p.r.SetProgress(nil)
		if p.change != sdk.Deleted && p.status.changedSince() {
			return sdk.RequeueAfter(time.Millisecond), nil
		}
		return sdk.AwaitChange(), nil
	}
	p.next.content = p.contentDigest()
	p.r.SetProgress(&p.next)
	after := time.UnixMilli(p.again).Sub(p.r.Now)
	why := errors.New(strings.Join(p.open, "; "))
	if p.failed == nil {
		return sdk.Action{}, sdk.Waiting("HandlersWaiting", after, why)
	}
	return sdk.Action{}, sdk.RetryAfter(after, sdk.Retry(reasonOf(p.failed), why))
}

// reasonOf returns the reason of the conditions for an error of a handler.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.Reason != "" {
		return e.Reason
	}
	return "HandlerFailed"
}
