package effect

import (
	"context"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/rights"
)

// This file decides from the schema of a kind what the host writes of its own into a
// status: never what the API server would refuse. What it does not read of a schema, such
// as rules in CEL, the API server decides: see [Performer.WriteStatus].

const (
	// schemaAge is for how long a schema counts: as long as the result of discovery.
	schemaAge = 10 * time.Minute
	// misfitAge is for how long it counts that has no place for all that the host writes. An author mends that.
	misfitAge = 30 * time.Second
)

// StatusPlan is what the host writes of its own into the status of a primary.
type StatusPlan struct {
	Conditions         []string // their types
	ObservedGeneration bool
	HandledRequest     bool // status.lastHandledReconcileAt
	// Needs are the members that the plugin must have written before, such as "status.parents": the
	// schema requires them.
	Needs []string
	// LeftOut are why the schema has no place for other conditions, and for observedGeneration.
	LeftOut []string
}

// PlanStatus returns what the host writes of its own for a controller. The primary is served as r;
// schema is that of its status, nil if it is not known. Whether it refuses a reason or a message is
// decided when that is written.
func PlanStatus(c *abi.Controller, r object.Resource, schema *object.Schema) (plan StatusPlan) {
	if c.For.MetadataOnly {
		return plan
	}
	p := &Planner{Now: time.Now, Allow: rights.Everything()}
	want := p.supported(r, Target{Controller: c, Object: &object.Object{Kind: c.For.Kind}}, sampleStatus(c))
	host, misfits, err := p.hostPatch(&object.Object{Kind: c.For.Kind}, schema, []byte("{}"), want, &prunedFields{})
	if err != nil { // never: a sample is valid
		return StatusPlan{LeftOut: []string{err.Error()}}
	}
	conditions, _ := readConditions(host)
	for _, c := range conditions {
		plan.Conditions = append(plan.Conditions, c.Type)
	}
	_, plan.ObservedGeneration = rawjson.Lookup(host, "observedGeneration")
	_, plan.HandledRequest = rawjson.Lookup(host, "lastHandledReconcileAt")
	for _, problem := range misfits {
		if problem.Path != "status.lastHandledReconcileAt" { // many kinds have none, and nobody misses it
			plan.LeftOut = append(plan.LeftOut, problem.Text)
		}
	}
	if string(host) == "{}" {
		return plan
	}
	for _, problem := range schema.Check("status", host) {
		if !problem.Missing {
			return StatusPlan{LeftOut: append(plan.LeftOut, problem.Text)}
		}
		plan.Needs = append(plan.Needs, problem.Path)
	}
	return plan
}

// sampleStatus returns a status with all that the host may write of its own for a controller.
func sampleStatus(c *abi.Controller) Status {
	want, types := Status{HandledRequest: "now"}, c.Conditions.Written()
	if c.Conditions.TargetOrReady() == outcome.Ready {
		want.ObservedGeneration = new(int64(1))
		types = append(slices.Clip(types), outcome.Reconciling, outcome.Stalled)
	}
	for _, t := range types {
		want.Set = append(want.Set, abi.Condition{Type: t, Status: abi.ConditionTrue, Reason: outcome.ReasonSucceeded, Message: "m", ObservedGeneration: 1})
	}
	return want
}

// hasHostPart reports whether anything of a status is the host's.
func (want *Status) hasHostPart() bool {
	return len(want.Set)+len(want.Remove) > 0 || want.ObservedGeneration != nil || want.HandledRequest != ""
}

// guests returns the part of a status that is the guest's.
func (want Status) guests() Status {
	return Status{Patch: want.Patch, Given: want.Given, Full: want.Full}
}

// schema returns the schema of the status of a target, nil if it is not known or nothing depends on it.
func (p *Planner) schema(ctx context.Context, t Target, want *Status, maxAge time.Duration) *object.Schema {
	if object.BuiltIn(t.Object.Kind.Group()) || !want.hasHostPart() {
		return nil // built-in kinds have no place for some of it, and refuse nothing
	}
	schema, err := p.Store.StatusSchema(ctx, t.Object.Kind, maxAge)
	if err != nil {
		p.Logger.Debug("the schema of the status is not known: the API server decides what has a place there", "kind", t.Object.Kind.String(), "error", err)
	}
	return schema
}

// withoutRefused returns the status to write after the API server has refused one with a part of the host:
// the same if its schema has changed, else that of the guest alone.
func (p *Performer) withoutRefused(ctx context.Context, t Target, want Status, c statusChange, refused error) Status {
	if p.schema(ctx, t, &want, misfitAge) != c.schema {
		return want
	}
	p.Logger.Warn("the API server refuses what the host writes of its own into the status; it is left out while the rest of the status stays the same, for up to 10 minutes: "+
		"change the schema or the rules of the kind, or set the status owner of the controller to guest",
		"object", t.Object.Key().String(), "kind", t.Object.Kind.String(), "error", refused)
	p.memory.of(t, true).extras().refused = refusedPart{c.guests, c.record.epoch, p.Now().Add(prunedFor)}
	return want.guests()
}

// refusedPart is a status of the guest to which the API server has refused the part of the host.
type refusedPart struct {
	guests digest
	epoch  int // see prunedFields.epoch
	until  time.Time
}

// refuse reports whether the API server has lately refused the host's part of a change.
func (known statusReplies) refuse(c *statusChange, now time.Time) bool {
	return known.refused.guests == c.guests && known.refused.epoch == c.record.epoch && now.Before(known.refused.until)
}

// tolerated returns the problems of the status as it is, which the API server has accepted: with an earlier
// schema, or because it reads the schema otherwise.
func tolerated(t Target, schema *object.Schema) object.Problems {
	before, ok := rawjson.Lookup(t.Object.Raw, "status")
	if !ok {
		return nil
	}
	return schema.Check("status", before)
}

// misfit returns why a schema has no place for a member of the status.
func misfit(schema *object.Schema, name string, value []byte) object.Problems {
	path := "status." + name
	member, ok := schema.Member(name)
	if !ok {
		return object.Problems{{Path: path, Text: "the schema has no " + path}}
	}
	return member.Check(path, value)
}

// conditionList is a list of conditions, which changes only as its schema has it.
type conditionList struct {
	schema   *object.Schema
	all      []condition
	problems object.Problems // of all
	changed  bool
	misfits  object.Problems // why conditions are left out
}

func newConditionList(schema *object.Schema, all []condition) *conditionList {
	l := &conditionList{schema: schema, all: all}
	if len(all) > 0 { // else there may be none, which has no problems
		l.problems = l.check(all)
	}
	return l
}

func (l *conditionList) check(all []condition) object.Problems {
	if l.schema == nil {
		return nil
	}
	return l.schema.Check("status.conditions", encodeConditions(all))
}

// change makes the list another one, unless that has problems which this one does not have.
func (l *conditionList) change(next []condition) bool {
	problems := l.check(next)
	if problems.Adds(l.problems) {
		l.misfits = append(l.misfits, problems...)
		return false
	}
	l.all, l.problems, l.changed = next, problems, true
	return true
}

// find returns the condition of a type, the zero value if there is none.
func (l *conditionList) find(conditionType string) condition {
	if i := slices.IndexFunc(l.all, func(c condition) bool { return c.Type == conditionType }); i >= 0 {
		return l.all[i]
	}
	return condition{}
}

// remove removes the condition of a type.
func (l *conditionList) remove(conditionType string) {
	if slices.ContainsFunc(l.all, func(c condition) bool { return c.Type == conditionType }) {
		l.change(slices.DeleteFunc(slices.Clone(l.all), func(c condition) bool { return c.Type == conditionType }))
	}
}

// set puts a condition at the place of the one with its type, or at the end. If it has no place in the
// schema, one with another status is removed, which does not hold any more.
func (l *conditionList) set(c condition) {
	next := slices.Clone(l.all)
	at := slices.IndexFunc(l.all, func(have condition) bool { return have.Type == c.Type })
	switch {
	case at < 0:
		next = append(next, c)
	case rawjson.Equal(next[at].raw, c.raw):
		return
	default:
		next[at] = c
	}
	switch {
	case !hasTypeAndStatus(c.raw):
		l.misfits = append(l.misfits, object.Problem{Path: "status.conditions", Text: "status.conditions has no place for the type and the status of " + c.Type})
	case l.change(next):
		return
	}
	if at >= 0 && l.all[at].Status != c.Status {
		l.remove(c.Type)
	}
}

func hasTypeAndStatus(condition []byte) bool {
	_, hasType := rawjson.Lookup(condition, "type")
	_, hasStatus := rawjson.Lookup(condition, "status")
	return hasType && hasStatus
}

func encodeConditions(all []condition) []byte {
	w := rawjson.NewWriter(nil)
	w.Array(func() {
		for i := range all {
			w.Raw(all[i].raw)
		}
	})
	return w.Bytes()
}

// fitMembers returns a merge patch of a condition without the members that the schema does not have, and
// without those values that it refuses, unless the condition would lose its meaning.
func fitMembers(schema *object.Schema, patch []byte) ([]byte, error) {
	members, err := rawjson.Members(patch)
	if err != nil || schema == nil {
		return patch, err
	}
	members = slices.DeleteFunc(members, func(m rawjson.Member) bool { _, ok := schema.Member(m.Name); return !ok })
	for i, m := range members {
		if s, _ := schema.Member(m.Name); m.Name != "type" && m.Name != "status" && len(s.Check(m.Name, m.Value)) > 0 {
			members[i].Value = []byte("null")
		}
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() { writeMembers(w, members) })
	return w.Bytes(), nil
}
