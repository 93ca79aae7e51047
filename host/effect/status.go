package effect

import (
	"context"
	"slices"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// Status is what is to become of the primary's status. What it does not name
// stays.
type Status struct {
	Patch  []byte      // RFC 7386, by the guest; nil: none
	Set    []Condition // by type
	Remove []string    // types of conditions
	// ObservedGeneration is that of the object that the guest saw; nil leaves
	// the one that is there, which never goes back.
	ObservedGeneration *int64
	// HandledRequest is for status.lastHandledReconcileAt: the value of the
	// annotation by which this run was asked for; "" leaves it.
	HandledRequest string
}

// Condition is one entry of status.conditions. Its lastTransitionTime is now
// if its status is not what the object has.
type Condition struct {
	Type               string
	Status             string // True, False, Unknown
	Reason             string
	Message            string
	ObservedGeneration int64 // 0: none
}

// Status writes at most one patch of the primary's status, and returns the
// object as it is then; wrote is false if nothing had to be written, or the
// server found nothing to change. If the object changed meanwhile, the change
// is merged into what it has become. The reply is nil if the object is gone
// or another one has its name.
//
// The host's own part, conditions and observedGeneration, is left out where
// it has no place: see [Performer.hostPart].
func (p *Performer) Status(ctx context.Context, t Target, want Status) (reply *object.Object, wrote bool, failure *Failure) {
	r, err := p.primary(ctx, t)
	if err == nil {
		reply, wrote, err = p.writeStatus(ctx, r, t, p.hostPart(r, t, want))
	}
	if err != nil {
		return nil, false, failed(verbStatus, t.Object.Ref(), err)
	}
	return reply, wrote, nil
}

func (p *Performer) writeStatus(ctx context.Context, r object.Resource, t Target, want Status) (reply *object.Object, wrote bool, err error) {
	for range maxRaces {
		change, err := p.change(t, want)
		if err != nil || change.patch == nil {
			return t.Object, false, err
		}
		reply, refused := p.client.patch(ctx, r, t.Object.Key(), patch{
			mediaType: mergePatch, manager: p.manager(t.Controller), status: r.Status, body: change.body(t.Object),
		})
		if refused == nil {
			return reply, p.written(verbStatus, t.Object, reply), p.learn(t, change, reply)
		}
		fresh, err := p.afterRace(ctx, r, t.Object, refused)
		if err != nil || fresh == nil {
			return nil, false, err
		}
		if fresh.ResourceVersion == t.Object.ResourceVersion {
			return nil, false, refused // it was no race
		}
		t.Object = fresh
	}
	return nil, false, superseded("the object changed %d times meanwhile", maxRaces)
}

// hostPart leaves out of the host's own part of a status what has no place in
// the kind: its API decides what conditions and observedGeneration of a
// built-in kind mean, so conditions are written there only if the manifest
// names some. Without the subresource /status, each write of a status makes a
// new generation, so that observing one would never end.
func (p *Performer) hostPart(r object.Resource, t Target, want Status) Status {
	asked := object.AsksForConditions(t.Controller)
	ours := r.Status && !object.BuiltIn(r.GVR.Group)
	if !ours && !asked {
		want.Set, want.Remove = nil, nil
	}
	if !ours {
		want.ObservedGeneration, want.HandledRequest = nil, ""
	}
	if !r.Status {
		want.Set = slices.Clone(want.Set)
		for i := range want.Set {
			want.Set[i].ObservedGeneration = 0
		}
	}
	return want
}

// change is a status patch that is worth sending.
type change struct {
	patch []byte // of status; nil: nothing to do
	trial trial
}

// change works out the patch that turns the object's status into what is
// wanted.
func (p *Performer) change(t Target, want Status) (c change, err error) {
	before, _ := rawjson.Lookup(t.Object.Raw, "status")
	before = orEmpty(before)
	after := before
	c.trial.epoch = p.pruned.epoch(t.Object.Kind, p.Now())
	if len(want.Patch) > 0 {
		if after, err = rawjson.MergePatch(before, want.Patch); err != nil {
			return c, err
		}
	}
	host, err := p.hostPatch(t, before, want)
	if err != nil {
		return c, err
	}
	if after, err = rawjson.MergePatch(after, host); err != nil {
		return c, err
	}
	diff, err := rawjson.Diff(before, after)
	if err != nil || diff == nil {
		return c, err
	}
	if diff, err = p.pruned.drop(t.Object.Kind, diff); err != nil || diff == nil {
		return c, err
	}
	err = p.worth(&c, t, before, diff)
	return c, err
}

// worth makes diff the change's patch unless the server has made the status
// that is there out of the same patch before.
func (p *Performer) worth(c *change, t Target, before, diff []byte) (err error) {
	if c.trial.patch, err = sum(diff); err != nil {
		return err
	}
	if c.trial.result, err = sum(before); err != nil {
		return err
	}
	if p.memory.of(t.memo()).status != c.trial {
		c.patch = diff
	}
	return nil
}

// hostPatch returns the merge patch of what the host says itself.
func (p *Performer) hostPatch(t Target, before []byte, want Status) ([]byte, error) {
	conditions, changed, err := p.mergeConditions(t.Object.Kind, before, want)
	if err != nil {
		return nil, err
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		if changed {
			w.Name("conditions").Raw(conditions)
		}
		if g := want.ObservedGeneration; g != nil && *g > observedGeneration(before) {
			w.Name("observedGeneration").Int(*g)
		}
		if want.HandledRequest != "" {
			w.Name("lastHandledReconcileAt").String(want.HandledRequest)
		}
	})
	return w.Bytes(), nil
}

func observedGeneration(status []byte) int64 {
	value, ok := rawjson.Lookup(status, "observedGeneration")
	if !ok {
		return 0
	}
	return rawjson.NewReader(value).Int()
}

// body returns the request's body. It is refused unless the object is still
// the one that it was made for: a merge patch replaces the list of conditions
// as a whole, and a uid alone is not checked by the subresource of a custom
// resource.
func (c change) body(o *object.Object) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() { w.Name("resourceVersion").String(o.ResourceVersion) })
		w.Name("status").Raw(c.patch)
	})
	return w.Bytes()
}

// learn remembers what became of a patch, so that it is not sent again.
func (p *Performer) learn(t Target, c change, reply *object.Object) (err error) {
	status, _ := rawjson.Lookup(reply.Raw, "status")
	if c.trial.result, err = sum(orEmpty(status)); err != nil {
		return err
	}
	p.memory.of(t.memo()).status = c.trial
	for _, path := range p.pruned.learn(reply.Kind, c.patch, status, p.Now()) {
		p.Logger.Warn("the API server dropped a field of status that its schema does not have; it is not sent again for 10 minutes: add the field to the CustomResourceDefinition, with its subresource status",
			"kind", reply.Kind.String(), "field", "/status"+path)
	}
	return nil
}

func orEmpty(status []byte) []byte {
	if len(status) == 0 || string(status) == "null" {
		return []byte("{}")
	}
	return status
}
