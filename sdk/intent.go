package sdk

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// ApplyOption changes what [Run.Apply] asks for.
type ApplyOption func(*abi.Apply)

// Adopt takes over an existing object that has no controller.
func Adopt() ApplyOption { return func(a *abi.Apply) { a.Adopt = true } }

// Apply asks for an object, by server-side apply: apiVersion, kind,
// metadata.name and the fields that are wanted, and only those. A field that
// was applied by an earlier run and is missing now is removed. The object is a
// struct, a map, or JSON as bytes. An object of a kind in Owns becomes a child
// of the primary.
func (r *Run) Apply(object any, options ...ApplyOption) {
	data, err := encode(object)
	if err != nil {
		r.spoil("InvalidObject", "object to apply", err)
		return
	}
	intent := abi.Apply{Object: data}
	for _, option := range options {
		option(&intent)
	}
	r.result.Apply = append(r.result.Apply, intent)
}

// Delete asks for an object to be deleted; one that is gone already is fine.
// With a UID only that very object is deleted.
func (r *Run) Delete(ref Ref) { r.result.Delete = append(r.result.Delete, abi.Ref(ref)) }

// Event tells the user something about the primary, as a Kubernetes Event:
// eventType is [Normal] or [Warning], reason is CamelCase.
func (r *Run) Event(eventType, reason, message string) {
	r.result.Events = append(r.result.Events, abi.Event{Type: eventType, Reason: reason, Message: message})
}

// SetCondition sets a condition that the controller owns. The host fills in
// the times and the generation, and computes Ready from all of them.
func (r *Run) SetCondition(c Condition) {
	r.putCondition(abi.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
}

// RemoveCondition removes a condition that the controller owns.
func (r *Run) RemoveCondition(conditionType string) {
	r.putCondition(abi.Condition{Type: conditionType})
}

// putCondition keeps one condition of a type: the last.
func (r *Run) putCondition(c abi.Condition) {
	for i := range r.result.Conditions {
		if r.result.Conditions[i].Type == c.Type {
			r.result.Conditions[i] = c
			return
		}
	}
	r.result.Conditions = append(r.result.Conditions, c)
}

// Patch changes the primary itself: patch is a merge patch (RFC 7386) of its
// labels, annotations and spec. Changes of several calls add up.
func (r *Run) Patch(patch any) {
	data, err := encode(patch)
	if err == nil && r.result.Patch != nil {
		data, err = both(r.result.Patch, data)
	}
	if err != nil {
		r.spoil("InvalidPatch", "patch", err)
		return
	}
	r.result.Patch = data
}

// both returns the merge patch that does what first and then second do. It is
// not first with second applied: that would lose the nulls.
func both(first, second []byte) ([]byte, error) {
	before, err := rawjson.Members(first)
	if err != nil {
		return nil, err
	}
	after, err := rawjson.Members(second)
	if err != nil {
		return nil, err
	}
	for _, m := range after {
		i := slices.IndexFunc(before, func(b rawjson.Member) bool { return b.Name == m.Name })
		if i < 0 {
			before = append(before, m)
			continue
		}
		if merged, err := both(before[i].Value, m.Value); err == nil { // two objects
			m.Value = merged
		}
		before[i].Value = m.Value
	}
	return object(before), nil
}

func object(members []rawjson.Member) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		for _, m := range members {
			w.Name(m.Name).Raw(m.Value)
		}
	})
	return w.Bytes()
}
