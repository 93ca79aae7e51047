package sdk

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// ApplyOption changes an intent of [Run.Apply].
type ApplyOption func(*abi.Apply)

// Adopt takes over an existing object that has no controller.
func Adopt() ApplyOption { return func(a *abi.Apply) { a.Adopt = true } }

// Apply requests an object by server-side apply: apiVersion, kind, metadata.name
// and only those fields that are wanted. A field that an earlier run applied and
// that is missing now is removed. The object is a struct, a map, or JSON as bytes.
// In a plugin that uses [RegisterGenerated] it cannot be a map; declare a struct
// type for it. An object of a kind in Owns becomes a child of the primary.
func (r *Run) Apply(object any, options ...ApplyOption) {
	data, err := encode(object)
	if err != nil {
		r.fail("InvalidObject", "object to apply", err)
		return
	}
	intent := abi.Apply{Object: data}
	for _, option := range options {
		option(&intent)
	}
	r.result.Apply = append(r.result.Apply, intent)
}

// Delete requests that an object is deleted. If it does not exist, that is no
// error. If ref has a UID, only the object with that UID is deleted.
func (r *Run) Delete(ref Ref) { r.result.Delete = append(r.result.Delete, ref) }

// Event emits a Kubernetes Event about the primary. eventType is [Normal] or
// [Warning], and reason is CamelCase.
func (r *Run) Event(eventType, reason, message string) {
	r.result.Events = append(r.result.Events, abi.Event{Type: eventType, Reason: reason, Message: message})
}

// SetCondition sets a condition of a type that the controller owns. The host sets
// the time and the observed generation, and computes Ready from all conditions.
func (r *Run) SetCondition(c Condition) {
	i := slices.IndexFunc(r.result.Conditions, func(other Condition) bool { return other.Type == c.Type })
	if i >= 0 {
		r.result.Conditions[i] = c
		return
	}
	r.result.Conditions = append(r.result.Conditions, c)
}

// RemoveCondition removes a condition of a type that the controller owns.
func (r *Run) RemoveCondition(conditionType string) { r.SetCondition(Condition{Type: conditionType}) }

// Patch changes the primary itself by a merge patch (RFC 7386) of its labels,
// annotations and spec. The patches of several calls are combined.
func (r *Run) Patch(patch any) {
	data, err := encode(patch)
	if err == nil && r.result.Patch != nil {
		data, err = rawjson.ComposePatches(r.result.Patch, data)
	}
	if err != nil {
		r.fail("InvalidPatch", "patch", err)
		return
	}
	r.result.Patch = data
}
