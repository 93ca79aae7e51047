package effect

import (
	"context"
	"slices"

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
// for kinds that have no place for it: see [Performer.supported]. Nothing is written
// to a primary of which only metadata is known: a patch depends on the present status.
func (p *Performer) WriteStatus(ctx context.Context, t Target, want Status) (report Report, failure *Failure) {
	if t.Object.MetadataOnly {
		return report, nil
	}
	var change statusChange
	changed := func(from, to *object.Object) bool { return from.ResourceVersion != to.ResourceVersion } // which the patch has
	before, reply, err := p.update(ctx, t, changed, func(r object.Resource, o *object.Object) (*patch, error) {
		if o == nil {
			return nil, nil
		}
		err := want.replacesOnlyItsConditions(t.Controller, o)
		if err != nil {
			return nil, err
		}
		supported := p.supported(r, t, want)
		change, err = p.planStatus(Target{Controller: t.Controller, Object: o}, supported)
		if err != nil || change.patch == nil {
			return nil, err
		}
		return &patch{
			patchType: types.MergePatchType, manager: p.manager(t.Controller), status: r.Status, body: change.body(o),
			unchecked: supported.ObservedGeneration != nil && object.BuiltIn(r.GVR.Group),
			growth:    len(change.wanted) - len(statusOf(o)), reports: want.Full,
		}, nil
	})
	if err == nil && reply != nil {
		var content digest
		content, err = p.learn(t, change, reply)
		if p.add(&report, abi.VerbStatus, before, reply, content) {
			report.Primary, report.Before = reply, before
		}
	}
	if err != nil {
		return report, failed(abi.VerbStatus, t.Object.Ref(), err)
	}
	return report, nil
}

// supported removes from the host's own part of a status what has no place in
// the kind. What conditions of a built-in kind mean is defined by its API, so they are
// written there only if the manifest names some; observedGeneration is, if the policy lets
// the plugin patch the status: else the plugin may be one of many beside the controller of
// the kind. Without the subresource /status each write of the status increases the
// generation, so that observing it would never end. A status of the guest's has no part of
// the host.
func (p *Performer) supported(r object.Resource, t Target, want Status) Status {
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
}

// planStatus computes the patch that turns the primary's status into what is
// wanted. There is none if the server has made the present status out of the
// same patch before.
func (p *Performer) planStatus(t Target, want Status) (c statusChange, err error) {
	before := statusOf(t.Object)
	c.record.epoch = p.pruned.epoch(t.Object.Kind, p.Now())
	wanted, diff, err := p.statusDiff(t.Object.Kind, before, want)
	if err != nil || diff == nil {
		return c, err
	}
	c.wanted = wanted
	if c.record.patch, err = sum(diff); err != nil {
		return c, err
	}
	c.record.result, err = sum(before)
	if p.recordedStatus(t) != c.record {
		c.patch = diff
	}
	return c, err
}

// statusDiff returns the status that is wanted, and the merge patch that leads to it,
// without pruned fields; nil if there is no difference.
func (p *Performer) statusDiff(kind abi.Kind, before []byte, want Status) (after, diff []byte, err error) {
	after = before
	if len(want.Patch) > 0 {
		if after, err = rawjson.MergePatch(before, want.Patch); err != nil {
			return nil, nil, err
		}
	}
	host, err := p.hostPatch(kind, before, want)
	if err != nil {
		return nil, nil, err
	}
	if after, err = rawjson.MergePatch(after, host); err != nil {
		return nil, nil, err
	}
	if diff, err = rawjson.Diff(before, after); err != nil || diff == nil {
		return nil, nil, err
	}
	diff, err = p.pruned.drop(kind, "", diff)
	return after, diff, err
}

// hostPatch returns the merge patch of the host's own part of the status.
func (p *Performer) hostPatch(kind abi.Kind, before []byte, want Status) ([]byte, error) {
	conditions, changed, err := p.mergeConditions(kind, before, want)
	if err != nil {
		return nil, err
	}
	observed, _ := rawjson.Lookup(before, "observedGeneration")
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		if changed {
			w.Name("conditions").Array(func() {
				for i := range conditions {
					w.Raw(conditions[i].raw)
				}
			})
		}
		if g := want.ObservedGeneration; g != nil && *g > rawjson.NewReader(observed).Int() {
			w.Name("observedGeneration").Int(*g)
		}
		if want.HandledRequest != "" {
			w.Name("lastHandledReconcileAt").String(want.HandledRequest)
		}
	})
	return w.Bytes(), nil
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

func (p *Performer) recordedStatus(t Target) patchRecord {
	if r := p.memory.of(t, false); r != nil {
		return r.read().status
	}
	return patchRecord{}
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

// mergeConditions returns the conditions that the status shall have, and
// whether they differ from those that it has. The conditions of other writers
// keep their bytes and their places, and unknown members of ours stay.
func (p *Performer) mergeConditions(kind abi.Kind, status []byte, want Status) (all []condition, changed bool, err error) {
	if len(want.Set)+len(want.Remove) == 0 {
		return nil, false, nil
	}
	if all, err = readConditions(status); err != nil {
		return nil, false, err
	}
	before := len(all)
	all = slices.DeleteFunc(all, func(c condition) bool { return slices.Contains(want.Remove, c.Type) })
	changed = len(all) < before
	for i := range want.Set {
		at := slices.IndexFunc(all, func(c condition) bool { return c.Type == want.Set[i].Type })
		if at < 0 {
			at = len(all)
			all = append(all, condition{})
		}
		merged, err := p.mergeCondition(kind, &all[at], &want.Set[i])
		if err != nil {
			return nil, false, err
		}
		changed = changed || !rawjson.Equal(all[at].raw, merged)
		all[at].raw = merged
	}
	return all, changed, nil
}

// mergeCondition returns a condition with the wanted members, except for those
// that the server prunes. lastTransitionTime stays as long as the status does.
func (p *Performer) mergeCondition(kind abi.Kind, have *condition, want *abi.Condition) ([]byte, error) {
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
	members, err := p.pruned.drop(kind, eachCondition, w.Bytes())
	if err != nil {
		return nil, err
	}
	if members == nil {
		members = []byte("{}")
	}
	return rawjson.MergePatch(have.raw, members)
}
