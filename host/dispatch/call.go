package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// call calls the guest. Its outcome is in returned and result, or in fault.
func (r *run) call(ctx context.Context) {
	if r.fault != nil || r.incomplete != nil {
		return // the run could not begin
	}
	call := r.sandboxCall(abi.EncodeRequestParts(r.request()), r.given.Namespace, r.timeout())
	call.BeforeRelease = r.decode
	returned, err := r.revision.Guest.Reconcile(ctx, call)
	r.returned = returned
	switch {
	case err != nil:
		r.failed(err)
	case r.result == nil && r.fault == nil:
		r.decode(returned)
	}
}

// decode decodes what the guest returned. The sandbox calls it while the guest
// still holds its execution slot, so that the time that a large result takes is
// the plugin's own.
func (r *run) decode(returned sandbox.Return) {
	r.returned = returned
	if len(returned.Output) == 0 && returned.Code != abi.CodeOK {
		r.result = &abi.Result{} // the code alone is a complete result
		return
	}
	limit := cmp.Or(r.revision.MaxIntents, abi.MaxIntents)
	var err error
	if r.result, err = abi.DecodeResultFor(r.revision.Controller.StatusOwner, limit, r.sectionCheck, returned.Output); err != nil {
		r.fault = &outcome.Fault{Class: abi.ClassABI, Reason: "InvalidResult", Message: "the result of the plugin cannot be decoded: " + err.Error() + "; correct the plugin, or build it with the SDK of the host's version"}
	}
	if r.result != nil && returned.Code != abi.CodeOK {
		r.result.Prune = false // it may lack what it names otherwise
	}
	if abi.TooManyIntents(err, limit) {
		r.c.Metrics.Limited("intents")
		r.fault.Reason, r.fault.Message = "TooManyIntents", tooManyIntents(limit)
	}
	r.refuseWritesToGone()
}

func tooManyIntents(limit int) string {
	text := fmt.Sprintf("the result of the plugin has more than %d entries in release, apply, delete and events together, which is the limit: return fewer in one run", limit)
	if limit < abi.MaxAllowedIntents {
		text += fmt.Sprintf(", or raise limits.intents in the file of --config, and in the plugin's policy if that has it, to %d at most", abi.MaxAllowedIntents)
	}
	return text
}

// sections are what capabilities add to the request.
func (r *run) sections() []abi.Section {
	if r.begun == nil {
		return nil
	}
	return r.begun.Sections
}

// request is the request of the guest.
func (r *run) request() *abi.Request {
	return &abi.Request{
		Controller: r.c.Name,
		Object:     r.given.Given(),
		Deleting:   r.cleanup || r.gone == nil && r.given.Deleting(),
		Gone:       r.gone != nil,
		Reasons:    r.reasons(),
		Sections:   r.sections(),
		Signals:    r.takeSignals(),
		Attempt:    r.state.tries.Attempt,
		Previous:   r.state.previous,
		Memo:       r.state.memo,
		Now:        r.start,
		Seed:       r.seed,
		Config:     r.revision.Config,
	}
}

// guestCall is one call of the guest: of a run, of a turn, or another one. It answers
// what the guest asks of the host meanwhile, and keeps how the call has ended.
type guestCall struct {
	c        *Controller
	revision *Revision
	key      object.Key     // of the object, or of the turn
	given    *object.Object // the object as the guest was given it; of a turn its kind alone
	id       string
	seed     [32]byte
	start    time.Time
	hold     func(context.Context) bool // is called before something is done outside of the cluster, which it may forbid; nil: nothing is to be done

	reads      Reads
	pages      pages
	liveReads  map[abi.Ref]*object.Object // from the API server; nil: there is no such object
	liveBytes  int                        // of liveReads
	incomplete error                      // why a read failed that another call can make; nil if none has

	returned   sandbox.Return
	fault      *outcome.Fault // why there is no result
	guestFault *sandbox.Fault // the cause of fault, if the guest is to blame
	replaced   bool           // the guest was closed before the call began: the next revision is to be called
}

// newCall returns a call that is about to be made. reads are set by the caller.
func (c *Controller) newCall(revision *Revision, key object.Key, given *object.Object) guestCall {
	g := guestCall{c: c, revision: revision, key: key, given: given, start: time.Now()}
	rand.Read(g.seed[:]) // never fails
	g.id = hex.EncodeToString(g.seed[:4])
	return g
}

// sandboxCall returns what the sandbox is asked to do. For namespace see [sandbox.Call].
func (g *guestCall) sandboxCall(request [][]byte, namespace string, deadline time.Duration) sandbox.Call {
	return sandbox.Call{Request: request, Namespace: namespace, Now: g.start, Seed: g.seed, Deadline: deadline, Host: g}
}

// timeout returns how long a run or a turn may take, see [abi.Controller].
func (g *guestCall) timeout() time.Duration {
	return time.Duration(g.revision.Controller.Timeout) * time.Millisecond
}

// logger returns a logger with the fields of the call. It is made on demand, since most calls do not use it.
func (g *guestCall) logger() hclog.Logger {
	return g.c.Logger.With("object", g.key.String(), "revision", g.revision.Number, "reconcileID", g.id)
}

func (g *guestCall) identity() events.Run {
	return events.Run{
		Plugin: g.c.Plugin, Controller: g.c.Name, Object: g.key.String(), Revision: g.revision.Number, ID: g.id,
	}
}
