package effect

import (
	"context"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// Intents is what one run wants besides its status.
type Intents struct {
	Patch  []byte // RFC 7386, of the primary's labels, annotations and spec; nil: none
	Apply  []abi.Apply
	Delete []abi.Ref
	Events []abi.Event
}

// session is one call of [Performer.Intents].
type session struct {
	*Performer
	target  Target
	memo    *memo
	report  Report
	applies []application
	deletes []deletion
}

// Intents performs patch, apply, delete and events, in this order. All of
// them are checked before the first is performed; the first that fails ends
// the call. The report holds what was written, also then.
func (p *Performer) Intents(ctx context.Context, t Target, in Intents) (Report, *Failure) {
	s := &session{Performer: p, target: t, memo: p.memory.of(t.memo())}
	failure := s.plan(ctx, in)
	if failure == nil {
		failure = s.perform(ctx, in)
	}
	return s.report, failure
}

// plan finds what is wrong with any of the intents.
func (s *session) plan(ctx context.Context, in Intents) *Failure {
	named := make(map[child]bool, len(in.Apply)+len(in.Delete))
	for _, a := range in.Apply {
		planned, ref, err := s.planApply(ctx, a)
		if err == nil {
			err = once(named, planned.place)
		}
		if err != nil {
			return failed(verbApply, ref, err)
		}
		s.applies = append(s.applies, planned)
	}
	for _, ref := range in.Delete {
		at, err := s.place(ctx, verbDelete, ref)
		if err == nil {
			err = once(named, at)
		}
		if err != nil {
			return failed(verbDelete, ref, err)
		}
		s.deletes = append(s.deletes, deletion{at, ref})
	}
	s.memo.keep(named)
	return nil
}

// once refuses two intents for one object: the second would undo the first,
// in every run.
func once(named map[child]bool, at place) error {
	if named[at.child()] {
		return invalid("%s is named by two intents of one result: return one per object", at)
	}
	named[at.child()] = true
	return nil
}

func (s *session) perform(ctx context.Context, in Intents) *Failure {
	if err := s.patch(ctx, in.Patch); err != nil {
		return failed(verbPatch, s.target.Object.Ref(), err)
	}
	for _, a := range s.applies {
		if err := s.apply(ctx, a); err != nil {
			return failed(verbApply, a.ref(), err)
		}
	}
	for _, d := range s.deletes {
		if err := s.delete(ctx, d); err != nil {
			return failed(verbDelete, d.named(), err)
		}
	}
	s.events(in.Events)
	return nil
}

// patch changes the primary's labels, annotations or spec, unless it is as
// the patch wants it.
func (s *session) patch(ctx context.Context, body []byte) error {
	if len(body) == 0 {
		return nil
	}
	before := s.target.Object
	try, idle, err := s.memo.patch.next(before.Raw, body, sumBody)
	if err != nil || idle {
		return err
	}
	r, err := s.primary(ctx, s.target)
	if err != nil {
		return err
	}
	body, err = rawjson.MergePatch(body, []byte(`{"metadata":{"uid":`+quote(string(before.UID))+`}}`))
	if err != nil {
		return err
	}
	reply, err := s.client.patch(ctx, r, before.Key(), patch{mediaType: mergePatch, manager: s.manager(s.target.Controller), body: body})
	if err != nil {
		return s.explainPatch(ctx, r, err)
	}
	if try.result, err = sumBody(reply.Raw); err != nil {
		return err
	}
	s.memo.patch = try
	s.target.Object, s.report.Primary = reply, reply
	s.wrote(verbPatch, before, reply)
	return nil
}

// explainPatch tells a primary that is gone or replaced from a patch that the
// server refuses.
func (s *session) explainPatch(ctx context.Context, r object.Resource, refused error) error {
	fresh, err := s.afterRace(ctx, r, s.target.Object, refused)
	if err == nil && fresh == nil {
		return superseded("the object is gone")
	}
	return refused
}

// next says whether a merge patch of a value would change nothing: because
// the value is as wanted, or because the same patch of the same value led to
// it before. Else it returns the trial, without its result.
func (t trial) next(value, patch []byte, sum func([]byte) (digest, error)) (try trial, idle bool, err error) {
	merged, err := rawjson.MergePatch(value, patch)
	if err != nil {
		return t, false, err
	}
	if rawjson.Equal(value, merged) {
		return t, true, nil
	}
	if try.patch, err = sum(patch); err != nil {
		return t, false, err
	}
	if try.patch != t.patch {
		return try, false, nil
	}
	now, err := sum(value)
	return try, now == t.result, err
}

// wrote reports a write that changed something; before is nil if it created
// the object.
func (s *session) wrote(verb string, before, reply *object.Object) {
	if !s.written(verb, before, reply) {
		return
	}
	s.Logger.Debug("wrote", "verb", verb, "object", describe(reply.Kind, reply.Key()), "resourceVersion", reply.ResourceVersion)
	w := Write{Verb: verb, Kind: reply.Kind, Key: reply.Key(), UID: reply.UID, ResourceVersion: reply.ResourceVersion}
	s.report.Writes = append(s.report.Writes, w.clone())
}

// written says whether a write has changed something: if the server found
// nothing to change, no event of the watch follows.
func (p *Performer) written(verb string, before, reply *object.Object) bool {
	if p.DryRun {
		p.rehearsed(verb, before, reply)
		return false
	}
	return before == nil || before.UID != reply.UID || before.ResourceVersion != reply.ResourceVersion
}

func quote(s string) string { return string(rawjson.AppendString(nil, s)) }
