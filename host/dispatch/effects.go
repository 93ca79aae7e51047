package dispatch

import (
	"context"
	"strings"

	"github.com/thole-dev/thole/host/object"
)

// intents performs the finalizer and what the result asks for.
func (r *run) intents(ctx context.Context) *Failure {
	c := &r.generation.Controller
	if c.Finalizer && !r.given.Deleting() && r.changes() {
		reply, wrote, failure := r.generation.Effects.EnsureFinalizer(ctx, r.primary, c)
		if failure != nil {
			return failure
		}
		if wrote {
			r.wrote("finalizer", reply, sameInput(r.primary, reply) && sameStatus(r.primary.Raw, reply.Raw))
		}
	}
	performed, failure := r.generation.Effects.Intents(ctx, r.primary, c, r.result)
	r.writes = append(r.writes, performed.Writes...)
	for _, w := range performed.Writes {
		r.c.Metrics.Wrote(w.Verb)
	}
	if performed.Primary != nil {
		// A patch of spec or labels is a change that the plugin has not seen
		// the outcome of: it wakes the key like anybody's.
		r.primary = performed.Primary
	}
	return failure
}

// changes says whether the guest asked for anything that a cleanup may have to
// undo or to be told of: a controller for a kind that everybody uses leaves
// the objects that are none of its business without a finalizer.
func (r *run) changes() bool {
	return len(r.result.Apply)+len(r.result.Delete)+len(r.result.Patch)+len(r.result.Status) > 0
}

// status writes the status patch. After a failed effect it holds what the
// host says alone.
func (r *run) status(ctx context.Context) *Failure {
	change := StatusChange{
		Set:                r.decision.Set,
		Remove:             r.decision.Remove,
		ObservedGeneration: r.decision.ObservedGeneration,
	}
	if !r.uncounted && !r.decision.RemoveFinalizer { // what goes needs no answer
		change.HandledRequest = r.given.Annotations[RequestedAt]
	}
	if r.decision.GuestStatus && r.result != nil {
		change.Patch = r.result.Status
	}
	reply, wrote, failure := r.generation.Effects.Status(ctx, r.primary, &r.generation.Controller, change)
	if failure != nil || !wrote {
		return failure
	}
	r.wrote("status", reply, sameInput(r.primary, reply))
	return nil
}

// release removes the finalizer, the last effect of a cleanup.
func (r *run) release(ctx context.Context) *Failure {
	reply, failure := r.generation.Effects.RemoveFinalizer(ctx, r.primary, &r.generation.Controller)
	if failure != nil {
		return failure
	}
	if reply == nil {
		r.c.Metrics.Wrote("finalizer")
		return nil
	}
	r.wrote("finalizer", reply, false)
	return nil
}

// wrote takes over the reply to a write of the primary. clean says that it
// holds nothing but what the run knew and wrote: then the event that it leads
// to is the run's own. If somebody else's change slipped in between, it is
// not, and wakes the key.
func (r *run) wrote(verb string, reply *object.Object, clean bool) {
	version := strings.Clone(reply.ResourceVersion) // kept for longer than the reply
	r.writes = append(r.writes, Write{Verb: verb, Kind: reply.Kind, Key: r.due.Key, ResourceVersion: version})
	r.c.Metrics.Wrote(verb)
	if clean {
		r.own[version] = true
	}
	r.primary = reply
}
