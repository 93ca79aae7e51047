package sdk

import (
	"encoding/json"

	"github.com/thole-dev/thole/abi"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

type (
	// Kind is a kind at one API version: {"apps/v1", "Deployment"}.
	//
	//	type Kind struct {
	//		APIVersion string // "v1", "apps/v1"
	//		Kind       string
	//	}
	//
	//	func (k Kind) All() Followed                  // returns the kind with a selector of all of every object
	//	func (k Kind) Group() string                  // returns the API group, "" for the core group
	//	func (k Kind) Ref(namespace, name string) Ref // returns the reference to an object of the kind
	//	func (k Kind) Sensitive() bool                // reports whether objects of the kind hold credentials or grant rights
	//	func (k Kind) String() string
	//	func (k Kind) Type() TypeMeta                 // returns the kind as part of an object
	Kind = abi.Kind
	// Ref identifies one object. [Kind.Ref] returns one; with a UID it does not refer
	// to an earlier or later object of that name.
	//
	//	type Ref struct {
	//		APIVersion string
	//		Kind       string
	//		Namespace  string // "" for a cluster-scoped object, and in a message for the primary's
	//		Name       string
	//		UID        string // optional precondition: an object of that name with another UID does not match
	//	}
	//
	//	func (ref Ref) String() string
	Ref = abi.Ref
	// Condition is one entry of status.conditions.
	//
	//	type Condition struct {
	//		Type    string `json:"type"`
	//		Status  string `json:"status"` // True, False or Unknown; in a result "" removes the condition
	//		Reason  string `json:"reason"` // CamelCase
	//		Message string `json:"message"`
	//
	//		// Only a condition that was read from an object has this and the following field.
	//		// The host writes them; they are not part of a result.
	//		LastTransitionTime Time  `json:"lastTransitionTime,omitempty"`
	//		ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	//	}
	Condition = abi.Condition
)

// The types below are for the small structs that an author declares for the
// objects of a plugin, with the fields that the plugin uses:
//
//	type Pod struct {
//		sdk.TypeMeta
//		Metadata sdk.ObjectMeta `json:"metadata"`
//		Spec     PodSpec        `json:"spec"`
//	}

// TypeMeta is the kind of an object, to be embedded in the author's struct.
//
//	type TypeMeta struct {
//		APIVersion string `json:"apiVersion,omitempty"`
//		Kind       string `json:"kind,omitempty"`
//	}
type TypeMeta = abi.TypeMeta

// ObjectMeta is the metadata of an object. In an object to apply, set only the
// fields that shall be applied.
type ObjectMeta struct {
	Name            string `json:"name,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Generation      int64  `json:"generation,omitempty"`
	// +nullable
	CreationTimestamp Time              `json:"creationTimestamp,omitempty"`
	DeletionTimestamp Time              `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	// +listType=set
	Finalizers []string `json:"finalizers,omitempty"`
	// +listType=map
	// +listMapKey=uid
	OwnerReferences []OwnerReference `json:"ownerReferences,omitempty"`
}

// OwnerReference refers to an owner in the same namespace. The host adds a
// reference to the primary to every object of a kind in Owns.
// +structType=atomic
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         bool   `json:"controller,omitempty"`
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion,omitempty"`
}

// ControllerRef returns the reference to the controller of the object, nil if it has none.
func (m ObjectMeta) ControllerRef() *OwnerReference {
	for i := range m.OwnerReferences {
		if m.OwnerReferences[i].Controller {
			return &m.OwnerReferences[i]
		}
	}
	return nil
}

// ControlledBy reports whether the object with that UID is the controller of this
// one.
func (m ObjectMeta) ControlledBy(uid string) bool {
	owner := m.ControllerRef()
	return owner != nil && owner.UID == uid
}

// Deleting reports whether the object has a deletion timestamp.
func (m ObjectMeta) Deleting() bool { return m.DeletionTimestamp != "" }

// Raw is JSON that is not decoded. [Run.Apply] accepts it as an object, [Run.Get]
// and [Run.List] fill it, and a field of this type keeps members that the
// author's types do not have.
type Raw = json.RawMessage

// Values of [Condition.Status].
const (
	True    = abi.ConditionTrue
	False   = abi.ConditionFalse
	Unknown = abi.ConditionUnknown
)

// Types of [Run.Event].
const (
	Normal  = abi.EventNormal
	Warning = abi.EventWarning
)

// parts has the types of the SDK that it reads without reflection itself, by the functions
// that are generated for the fields. The types have no methods, because a struct that
// embeds such a type would inherit a DecodeJSON method and be read as if it were that type.
//
//thole:generate
type parts struct {
	Meta      ObjectMeta
	Condition Condition
}

var _ parts
