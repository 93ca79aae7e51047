package effect

import (
	"context"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/rights"
)

// This file writes the status of the primary: at most one merge patch, with
// the guest's part and the host's. Its last part merges status.conditions.

// Status is the wanted change of the primary's status. Everything that it does
// not name stays as it is.
type Status struct {
	Patch []byte // merge patch (RFC 7386) by the guest; nil for none
	// Given is the object that Patch was made for; needed if the status is the guest's.
	Given *object.Object
	// Set replaces conditions by type. Their lastTransitionTime is not used:
	// it becomes the present time if the status of the condition differs from
	// that on the object, which may have changed since the decision.
	Set    []abi.Condition
	Remove []string // types of conditions
	// ObservedGeneration is that of the object that the guest was given; nil
	// leaves the field. The field never decreases.
	ObservedGeneration *int64
	// HandledRequest is for status.lastHandledReconcileAt: the value of the
	// annotation that requested this run. "" leaves the field.
	HandledRequest string
	// Full means that the status reports a failure with [Failure.Full].
	Full bool
}

// WriteStatus writes at most one patch of the primary's status, and none if
// nothing would change. If the primary has changed meanwhile, the change is
// merged into what it is now. If it does not exist any more, nothing is
// written. The host's own part, conditions and observedGeneration, is left out
// for kinds that have no place for it: see [Performer.supported] and statusschema.go. If
// the API server refuses it all the same, the guest's part is written alone. Nothing is written
// to a primary of which only metadata is known: a patch depends on the present status.
func (p *Performer) WriteStatus(ctx context.Context, t Target, want Status) (report Report, failure *Failure) {
	if t.Object.MetadataOnly {
		return report, nil
	}
	var change statusChange
	before, reply, err := p.patchStatus(ctx, t, want, &change)
	for apierrors.IsInvalid(err) && change.hosts {
		want = p.withoutRefused(ctx, t, want, change, err)
		change = statusChange{}
		before, reply, err = p.patchStatus(ctx, t, want, &change)
	}
	if err == nil && reply != nil {
		var content digest
		content, err = p.learn(t, change, reply)
		if p.add(&report, abi.VerbStatus, before, reply, content) {
			report.Primary, report.Before = reply, before
		}
	}
	switch {
	case err == nil:
		return report, nil
	case len(want.Patch) == 0: // there is nothing of the plugin in it
		return report, failed(abi.VerbStatus, t.Object.Ref(), err)
	default:
		return report, t.failed(abi.VerbStatus, t.Object.Ref(), err)
	}
}

// patchStatus sends the patch, as [Performer.update] does. change is what was sent last.
func (p *Performer) patchStatus(ctx context.Context, t Target, want Status, change *statusChange) (before, reply *object.Object, err error) {
	changed := func(from, to *object.Object) bool { return from.ResourceVersion != to.ResourceVersion } // which the patch has
	return p.update(ctx, t, changed, func(r object.Resource, o *object.Object) (*patch, error) {
		if o == nil {
			return nil, nil
		}
		return p.statusPatch(ctx, r, Target{Controller: t.Controller, Object: o}, want, p.statusReplies(t), change)
	})
}

// statusPatch returns the request that makes the status of the primary, which is served as r, what is wanted; nil if
// there is nothing to send.
func (p *Planner) statusPatch(ctx context.Context, r object.Resource, t Target, want Status, known statusReplies, change *statusChange) (*patch, error) {
	err := want.replacesOnlyItsConditions(t.Controller, t.Object)
	if err != nil {
		return nil, err
	}
	supported := p.supported(r, t, want)
	*change, err = p.planStatus(ctx, t, supported, known)
	if err != nil || change.patch == nil {
		return nil, err
	}
	return &patch{
		patchType: types.MergePatchType, manager: p.manager(t.Controller), status: r.Status, body: change.body(t.Object),
		unchecked: supported.ObservedGeneration != nil && object.BuiltIn(r.GVR.Group),
		growth:    len(change.wanted) - len(statusOf(t.Object)), reports: want.Full,
	}, nil
}

// supported removes from the host's own part of a status what has no place in
// the kind. What conditions of a built-in kind mean is defined by its API, so they are
// written there only if the manifest names some; observedGeneration is, if the policy lets
// the plugin patch the status: else the plugin may be one of many beside the controller of
// the kind. Without the subresource /status each write of the status increases the
// generation, so that observing it would never end. A status of the guest's has no part of
// the host.
func (p *Planner) supported(r object.Resource, t Target, want Status) Status {
	builtIn, guests := object.BuiltIn(r.GVR.Group), object.GuestOwnsStatus(t.Controller)
	if guests || !r.Status || builtIn {
		want.HandledRequest = ""
	}
	if guests || (!r.Status || builtIn) && !object.AsksForConditions(t.Controller) {
		want.Set, want.Remove = nil, nil
	}
	if guests || !r.Status || builtIn && want.ObservedGeneration != nil && p.mayPatchPrimary(t.Object, rights.Status) != nil {
		want.ObservedGeneration = nil
	}
	if !r.Status {
		want.Set = slices.Clone(want.Set)
		for i := range want.Set {
			want.Set[i].ObservedGeneration = 0
		}
	}
	return want
}

// statusChange is a change of the status that has to be written.
type statusChange struct {
	patch  []byte // merge patch of the status; nil if nothing has to be written
	wanted []byte // the whole status
	record patchRecord

	hosts  bool           // some of it is the host's
	guests digest         // of the status without that
	schema *object.Schema // by which the host's part was decided; nil: by none
	misfit bool           // the schema has no place for some of the host's part
}

// planStatus computes the patch that turns the primary's status into what is
// wanted. There is none if the server has made the present status out of the
// same patch before.
func (p *Planner) planStatus(ctx context.Context, t Target, want Status, known statusReplies) (c statusChange, err error) {
	before := statusOf(t.Object)
	c.record.epoch = known.pruned.epoch(t.Object.Kind, p.Now())
	diff, err := p.statusDiff(t, &c, want, known)
	if err == nil && c.hosts { // most often there is nothing to write, with which no schema has to do
		if c.schema = p.schema(ctx, t, &want, schemaAge); c.schema != nil {
			diff, err = p.statusDiff(t, &c, want, known)
		}
	}
	if err == nil && c.misfit {
		if schema := p.schema(ctx, t, &want, misfitAge); schema != c.schema {
			c.schema = schema
			diff, err = p.statusDiff(t, &c, want, known)
		}
	}
	if err != nil || diff == nil {
		return c, err
	}
	if c.record.patch, err = sum(diff); err != nil {
		return c, err
	}
	c.record.result, err = sum(before)
	if known.last != c.record {
		c.patch = diff
	}
	return c, err
}

// statusDiff returns the merge patch that leads to the status that is wanted, without pruned
// fields; nil if there is no difference. c.schema decides what is the host's part of it.
func (p *Planner) statusDiff(t Target, c *statusChange, want Status, known statusReplies) (diff []byte, err error) {
	kind, before := t.Object.Kind, statusOf(t.Object)
	guests := before
	if len(want.Patch) > 0 {
		if guests, err = rawjson.MergePatch(before, want.Patch); err != nil {
			return nil, err
		}
	}
	host, misfits, err := p.hostPatch(t.Object, c.schema, before, want, known.pruned)
	if err != nil {
		return nil, err
	}
	if c.wanted, err = rawjson.MergePatch(guests, host); err != nil {
		return nil, err
	}
	if c.hosts = !rawjson.Equal(c.wanted, guests); c.hosts {
		if c.guests, err = sum(guests); err != nil {
			return nil, err
		}
	}
	unfit := c.hosts && c.schema.Check("status", c.wanted).Adds(tolerated(t, c.schema))
	if c.misfit = unfit || len(misfits) > 0; unfit || c.hosts && known.refuse(c, p.Now()) {
		c.hosts, c.wanted = false, guests
	}
	if diff, err = rawjson.Diff(before, c.wanted); err != nil || diff == nil {
		return nil, err
	}
	return known.pruned.drop(kind, "", diff)
}

// hostPatch returns the merge patch of the host's own part of the status of an object, which is
// before, and why some of it has no place in the schema.
func (p *Planner) hostPatch(o *object.Object, schema *object.Schema, before []byte, want Status, pruned *prunedFields) (patch []byte, misfits object.Problems, err error) {
	conditions, err := p.mergeConditions(o.Kind, schema, before, want, pruned)
	if err != nil {
		return nil, nil, err
	}
	misfits = conditions.misfits
	fits := func(name string, value []byte) bool {
		found := misfit(schema, name, value)
		misfits = append(misfits, found...)
		return len(found) == 0
	}
	value, _ := rawjson.Lookup(before, "observedGeneration")
	observed := rawjson.NewReader(value).Int()
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		if conditions.changed {
			w.Name("conditions").Raw(encodeConditions(conditions.all))
		}
		if g := want.ObservedGeneration; g != nil && (*g > observed || isImpossible(observed, o)) && fits("observedGeneration", strconv.AppendInt(nil, *g, 10)) {
			w.Name("observedGeneration").Int(*g)
		}
		if value := rawjson.Quote(want.HandledRequest); want.HandledRequest != "" && fits("lastHandledReconcileAt", []byte(value)) {
			w.Name("lastHandledReconcileAt").String(want.HandledRequest)
		}
	})
	return w.Bytes(), misfits, nil
}

// isImpossible reports whether an observedGeneration is one that the object has not had, as
// after a backup was restored.
func isImpossible(observed int64, o *object.Object) bool {
	return o.Generation > 0 && observed > o.Generation
}

// body returns the body of the request. It names the resourceVersion that the
// patch was made for: a merge patch replaces the list of conditions as a whole,
// and the subresource of a custom resource does not check a uid alone.
func (c statusChange) body(o *object.Object) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() { w.Name("resourceVersion").String(o.ResourceVersion) })
		w.Name("status").Raw(c.patch)
	})
	return w.Bytes()
}

// learn records the status that a patch led to, so that the patch is not sent
// again, and which of its fields the server has pruned. It returns the digest of
// the status.
func (p *Performer) learn(t Target, c statusChange, reply *object.Object) (content digest, err error) {
	status := statusOf(reply)
	if c.record.result, err = sum(status); err != nil {
		return content, err
	}
	p.recordStatus(t, c, status)
	for _, path := range p.pruned.learn(reply.Kind, c.patch, status, p.Now()) {
		if object.BuiltIn(reply.Kind.Group()) && path == "/observedGeneration" && !object.GuestOwnsStatus(t.Controller) {
			continue // the host's: not every kind has it, and nobody can add it
		}
		p.Logger.Warn("the API server pruned a field of status that the schema does not have; it is not sent again for 10 minutes: "+
			"add the field to the CustomResourceDefinition, with the subresource status",
			"kind", reply.Kind.String(), "field", "/status"+path)
	}
	return c.record.result, nil
}

// statusReplies is what the API server has made of earlier patches of the status of a primary.
type statusReplies struct {
	last    patchRecord
	refused refusedPart
	pruned  *prunedFields
}

func (p *Performer) statusReplies(t Target) statusReplies {
	known := statusReplies{pruned: &p.pruned}
	if r := p.memory.of(t, false); r != nil {
		known.last, known.refused = r.read().status, r.read().refused
	}
	return known
}

// recordStatus records the status that a patch led to. What the patch asked for needs
// no record: no such patch is computed for it again.
func (p *Performer) recordStatus(t Target, c statusChange, status []byte) {
	record := c.record
	if rawjson.Equal(status, c.wanted) {
		record = patchRecord{}
	}
	if r := p.memory.of(t, record != patchRecord{}); r != nil && r.read().status != record {
		r.extras().status = record
		r.tidy()
	}
}

// statusOf returns an object's status, an empty object if it has none.
func statusOf(o *object.Object) []byte {
	status, _ := rawjson.Lookup(o.Raw, "status")
	if len(status) == 0 || string(status) == "null" {
		return []byte("{}")
	}
	return status
}

// condition is a condition of an object with its bytes, which may have members
// that metav1.Condition does not have.
type condition struct {
	abi.Condition
	raw []byte
}

// readConditions returns the conditions of a status.
func readConditions(status []byte) (all []condition, err error) {
	list, _ := rawjson.Lookup(status, "conditions")
	err = outcome.EachCondition(list, func(c abi.Condition, raw []byte) { all = append(all, condition{c, raw}) })
	return all, err
}

// mergeConditions returns the conditions that the status shall have. The conditions of other writers
// keep their bytes and their places, and unknown members of ours stay.
func (p *Planner) mergeConditions(kind abi.Kind, schema *object.Schema, status []byte, want Status, pruned *prunedFields) (*conditionList, error) {
	if len(want.Set)+len(want.Remove) == 0 {
		return &conditionList{}, nil
	}
	place, ok := schema.Member("conditions")
	if !ok {
		return &conditionList{misfits: misfit(schema, "conditions", nil)}, nil
	}
	all, err := readConditions(status)
	if err != nil {
		return nil, err
	}
	list := newConditionList(place, all)
	for _, conditionType := range want.Remove {
		list.remove(conditionType)
	}
	for i := range want.Set {
		merged, err := p.mergeCondition(kind, place.Items(), list.find(want.Set[i].Type), &want.Set[i], pruned)
		if err != nil {
			return nil, err
		}
		list.set(condition{want.Set[i], merged})
	}
	return list, nil
}

// mergeCondition returns a condition with the wanted members, except for those
// that the server prunes or refuses. lastTransitionTime stays as long as the status does.
func (p *Planner) mergeCondition(kind abi.Kind, schema *object.Schema, have condition, want *abi.Condition, pruned *prunedFields) ([]byte, error) {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("type").String(want.Type)
		w.Name("status").String(want.Status)
		if have.Status != want.Status || have.LastTransitionTime == "" {
			w.Name("lastTransitionTime").String(string(abi.TimeOf(p.Now())))
		}
		w.Name("reason").String(want.Reason)
		w.Name("message").String(want.Message)
		if want.ObservedGeneration != 0 {
			w.Name("observedGeneration").Int(want.ObservedGeneration)
		}
	})
	members, err := fitMembers(schema, w.Bytes())
	if err == nil {
		members, err = pruned.drop(kind, eachCondition, members)
	}
	if err != nil {
		return nil, err
	}
	if members == nil {
		members = []byte("{}")
	}
	return rawjson.MergePatch(have.raw, members)
}
