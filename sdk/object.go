package sdk

import (
	"encoding/json"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk/codec"
)

type (
	// Kind is a kind at one API version: {"apps/v1", "Deployment"}.
	Kind = abi.Kind
	// Ref identifies one object. [Kind.Ref] returns one; with a UID it does not refer
	// to an earlier or later object of that name.
	Ref = abi.Ref
	// Condition is one entry of status.conditions.
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
type TypeMeta = abi.TypeMeta

// ObjectMeta is the metadata of an object. In an object to apply, set only the
// fields that shall be applied.
type ObjectMeta struct {
	Name              string            `json:"name,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp Time              `json:"creationTimestamp,omitempty"`
	DeletionTimestamp Time              `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
	OwnerReferences   []OwnerReference  `json:"ownerReferences,omitempty"`
}

// OwnerReference refers to an owner in the same namespace. The host adds a
// reference to the primary to every object of a kind in Owns.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         bool   `json:"controller,omitempty"`
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion,omitempty"`
}

// ControlledBy reports whether the object with that UID is the controller of this
// one.
func (m ObjectMeta) ControlledBy(uid string) bool {
	for _, owner := range m.OwnerReferences {
		if owner.Controller && owner.UID == uid {
			return true
		}
	}
	return false
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

// The functions below read the types of the SDK without reflection. They are not
// methods, because a struct that embeds such a type would inherit a DecodeJSON
// method and be read as if it were that type.

func readMeta(r *Reader, m *ObjectMeta) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "name":
			codec.ReadString(r, &m.Name)
		case "namespace":
			codec.ReadString(r, &m.Namespace)
		case "uid":
			codec.ReadString(r, &m.UID)
		case "resourceVersion":
			codec.ReadString(r, &m.ResourceVersion)
		case "generation":
			codec.ReadInt(r, &m.Generation)
		case "creationTimestamp":
			codec.ReadString(r, (*string)(&m.CreationTimestamp))
		case "deletionTimestamp":
			codec.ReadString(r, (*string)(&m.DeletionTimestamp))
		case "labels":
			codec.ReadStringMap(r, &m.Labels)
		case "annotations":
			codec.ReadStringMap(r, &m.Annotations)
		case "finalizers":
			codec.ReadStrings(r, &m.Finalizers)
		case "ownerReferences":
			readOwners(r, &m.OwnerReferences)
		}
	}
}

func readOwners(r *Reader, owners *[]OwnerReference) {
	if r.Null() {
		*owners = nil
		return
	}
	list := (*owners)[:0]
	for more := r.FirstElement(); more; more = r.NextElement() {
		list = codec.Extend(list)
		readOwner(r, &list[len(list)-1])
	}
	*owners = codec.Filled(list)
}

func readOwner(r *Reader, owner *OwnerReference) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "apiVersion":
			codec.ReadString(r, &owner.APIVersion)
		case "kind":
			codec.ReadString(r, &owner.Kind)
		case "name":
			codec.ReadString(r, &owner.Name)
		case "uid":
			codec.ReadString(r, &owner.UID)
		case "controller":
			codec.ReadBool(r, &owner.Controller)
		case "blockOwnerDeletion":
			codec.ReadBool(r, &owner.BlockOwnerDeletion)
		}
	}
}

func readCondition(r *Reader, c *Condition) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "type":
			codec.ReadString(r, &c.Type)
		case "status":
			codec.ReadString(r, &c.Status)
		case "reason":
			codec.ReadString(r, &c.Reason)
		case "message":
			codec.ReadString(r, &c.Message)
		case "lastTransitionTime":
			codec.ReadString(r, (*string)(&c.LastTransitionTime))
		case "observedGeneration":
			codec.ReadInt(r, &c.ObservedGeneration)
		}
	}
}
