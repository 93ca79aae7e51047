package effect

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file performs the intents of one result: the patch of the primary,
// releases (see disown.go), applies (see apply.go), deletes (see delete.go) and Events.

// session is one call of [Performer.PerformIntents].
type session struct {
	plan
	*Performer
	records *records // of the target
	report  Report

	locked       bool            // no other adoption of the plugin is under way
	primaryLives bool            // the API server has it, and it is not being deleted
	failed       map[string]bool // the groups that have failed; nil if none has
	impossible   *Failure        // of the first creation that [session.refused] takes for impossible
}

// PerformIntents performs the patch, releases, applies, deletes and Events of a result,
// in this order. All of them are checked before the first is performed, and
// the first that fails ends the call, or its group. The report holds what was
// written, also after a failure, and how groups have failed.
func (p *Performer) PerformIntents(ctx context.Context, t Target, result *abi.Result) (Report, *Failure) {
	labels, end := p.labelling.call()
	defer end()
	s := &session{Performer: p, records: p.memory.of(t, true)}
	failure := s.check(ctx, &p.Planner, t, result, labels || p.Managed)
	if failure != nil {
		return s.report, failure
	}
	s.records.keep(s.named)
	s.shares.name(s.sharer(), s.named)
	if failure = s.perform(ctx, result); failure != nil {
		s.endGroups(result.Events)
	}
	s.emitEvents(result.Events)
	return s.report, failure
}

// perform performs the checked intents in order, until one fails that is of no group.
func (s *session) perform(ctx context.Context, result *abi.Result) *Failure {
	if err := s.patchPrimary(ctx, result.Patch); err != nil {
		return s.target.failed(abi.VerbPatch, s.target.Object.Ref(), err)
	}
	for _, d := range s.disowns {
		if err := s.disown(ctx, d); err != nil {
			return failed(abi.VerbRelease, d.ref(), err)
		}
	}
	for i := range s.applies {
		a := &s.applies[i]
		if failure := s.attempt(&a.location, abi.VerbApply, func() error { return s.apply(ctx, *a) }); failure != nil {
			return failure
		}
	}
	for i := range s.deletes {
		d := &s.deletes[i]
		if failure := s.attempt(&d.location, abi.VerbDelete, func() error { return s.delete(ctx, *d) }); failure != nil {
			return failure
		}
	}
	if s.impossible != nil && !s.isEnding() {
		return s.impossible
	}
	if result.Prune && len(s.report.Groups) == 0 {
		return s.prune(ctx)
	}
	return nil
}

// refused reports whether the API server has refused to create an object because
// the namespace of the primary is being deleted. That can never succeed, but what
// exists in the namespace can still be changed and deleted. The run fails as
// stalled, since the deletion of the primary follows and is its next trigger; if
// the primary is being deleted already, the cleanup goes on as though the object
// had been created and deleted with the namespace.
func (s *session) refused(at *location, failure *Failure) bool {
	if failure.Reason != reasonNamespaceTerminating || at.key.Namespace != s.target.Object.Namespace {
		return false
	}
	failure.Class = abi.ClassStalled
	s.Logger.Debug("not created, because its namespace is being deleted", "object", at.ref().String())
	return true
}

// patchPrimary changes the primary's labels, annotations or spec, unless the
// patch would change nothing.
func (s *session) patchPrimary(ctx context.Context, body []byte) error {
	if len(body) == 0 {
		return nil
	}
	next, noop, err := s.records.read().patch.isNoop(s.target.Object, body)
	if err != nil || noop {
		return err
	}
	before := s.target.Object
	request, err := s.primaryPatch(before, body, s.onlyVersion(before.ResourceVersion))
	if err != nil {
		return err
	}
	r, err := s.Store.Resource(ctx, before.Kind)
	if err != nil {
		return err
	}
	if err := s.mayWrite(s.target); err != nil {
		return err
	}
	reply, refused := s.patch(ctx, r, before.Key(), request)
	if refused != nil {
		if fresh, err := s.reread(ctx, r, before, refused); err == nil && fresh == nil {
			return superseded("the object does not exist any more")
		}
		return refused
	}
	s.target.Object = like(before, reply)
	s.report.Primary = s.target.Object
	next.result, err = sumPatched(s.target.Object)
	s.records.extras().patch = next
	s.add(&s.report, abi.VerbPatch, before, reply, next.result)
	return err
}

// primaryPatch returns the request with a patch of the primary, for that version of it alone unless it is "".
func (p *plan) primaryPatch(o *object.Object, body []byte, version string) (patch, error) {
	if err := p.mayChangeIn(o.Namespace); err != nil {
		return patch{}, err
	}
	if err := p.mayPatchPrimary(o, ""); err != nil {
		return patch{}, err
	}
	growth, err := growthBy(o, body)
	if err != nil {
		return patch{}, err
	}
	body, err = rawjson.MergePatch(body, []byte(`{"metadata":{"uid":`+quote(string(o.UID))+`}}`))
	if err == nil && version != "" {
		body, err = rawjson.MergePatch(body, []byte(`{"metadata":{"resourceVersion":`+quote(version)+`}}`))
	}
	return patch{patchType: types.MergePatchType, manager: p.manager(p.target.Controller), body: body, before: o, growth: growth}, err
}

// isNoop reports whether a merge patch of an object would change nothing:
// either the object is as the patch wants it, or the same patch led to the
// object's present body before. Otherwise it returns the record of the patch,
// without its result.
func (last patchRecord) isNoop(o *object.Object, patch []byte) (next patchRecord, noop bool, err error) {
	merged, err := rawjson.MergePatch(o.Raw, patch)
	if err != nil {
		return last, false, err
	}
	if shows(o, patch) && rawjson.Equal(o.Raw, merged) {
		return last, true, nil
	}
	if next.patch, err = sum(patch); err != nil || next.patch != last.patch {
		return next, false, err
	}
	result, err := sumPatched(o)
	return next, result == last.result, err
}

// growthBy returns by how many bytes a merge patch lengthens an object, at most if it is not
// known as a whole.
func growthBy(o *object.Object, patch []byte) (int, error) {
	if o.MetadataOnly {
		return len(patch), nil
	}
	merged, err := rawjson.MergePatch(o.Raw, patch)
	return len(merged) - len(o.Raw), err
}

// shows reports whether an object has everything that a merge patch may change.
func shows(o *object.Object, patch []byte) bool {
	members, err := rawjson.Members(patch)
	return !o.MetadataOnly || err == nil && !slices.ContainsFunc(members, func(m rawjson.Member) bool { return m.Name != "metadata" })
}

// sumPatched returns a digest of what a patch led to: the body of the object or, if
// only metadata is known, the metadata and the generation, which each change of the
// spec increases. Of kinds without a generation it is the resourceVersion.
func sumPatched(o *object.Object) (digest, error) {
	body, err := sumBody(o.Raw)
	switch {
	case err != nil || !o.MetadataOnly:
		return body, err
	case o.Generation > 0:
		return sumStrings(body.String(), strconv.FormatInt(o.Generation, 10)), nil
	}
	return sumStrings(body.String(), "", o.ResourceVersion), nil
}

// cached returns what the cache shows of an object of an intent. Of one that the account may
// not get it shows nothing, and the server is asked, which refuses that.
func (s *session) cached(ctx context.Context, at location) (*object.Object, Presence) {
	if s.MayGet != nil && !s.MayGet(ctx, at.Resource, at.key) {
		return nil, Unknown
	}
	return s.Store.Get(at.Kind, at.key)
}

// getLive reads an object from the API server, nil if it does not exist.
func (p *Performer) getLive(ctx context.Context, at location) (*object.Object, error) {
	have, err := p.client.get(ctx, at.Resource, at.key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return have, err
}

// emitEvents emits the guest's Events of one run, without those of groups that have failed. An
// Event that the previous run emitted too is not repeated.
func (s *session) emitEvents(events []abi.Event) {
	var emitted []digest
	previous := s.records.read().events
	for _, e := range events {
		d := sumEvent(e)
		told := slices.Contains(previous, d)
		// A call that ended early may be repeated, or the one before it was: what was told stays told.
		if slices.Contains(emitted, d) || s.hasFailed(e.Group) && !(told && s.hasFailed("")) {
			continue
		}
		if !told {
			s.emit(s.target, e)
		}
		emitted = append(emitted, d)
	}
	if s.records.extra != nil || emitted != nil {
		s.records.extras().events = emitted
		s.records.tidy()
	}
}

// EmitEvent emits the host's Event about a run, nil for none. It must be
// called once for each run: an Event that the previous run had too is not
// repeated.
func (p *Performer) EmitEvent(t Target, e *abi.Event) {
	if e == nil {
		if r := p.memory.of(t, false); r != nil && r.extra != nil {
			r.extra.hostEvent = digest{}
			r.tidy()
		}
		return
	}
	r, d := p.memory.of(t, true), sumEvent(*e)
	if r.read().hostEvent != d {
		p.emit(t, *e)
	}
	r.extras().hostEvent = d
}

// emit emits an Event as the host or, in a dry run, logs it. It emits none while nothing may
// be written.
func (p *Performer) emit(t Target, e abi.Event) {
	if p.Lease != nil && p.Lease.Check() != nil {
		return
	}
	if p.DryRun {
		p.Logger.Info("dry run: would emit event", "about", t.Object.Ref().String(), "type", e.Type, "reason", e.Reason, "message", e.Message)
		return
	}
	// Recorders keep the texts for a while. Cloned, they do not keep the
	// result in memory, which may be much longer.
	p.Recorder.Event(t.Object, e.Type, strings.Clone(e.Reason), strings.Clone(e.Message))
}

func sumEvent(e abi.Event) digest { return sumStrings(e.Type, e.Reason, e.Message) }

// quote returns s as a JSON string.
func quote(s string) string { return string(rawjson.AppendString(nil, s)) }
