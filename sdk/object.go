package sdk

import (
	"encoding/json"
	"time"

	"github.com/thole-dev/thole/abi"
)

// Kind names a kind at one API version: {"apps/v1", "Deployment"}.
type Kind struct {
	APIVersion string
	Kind       string
}

// Ref names an object of the kind; namespace is "" for a cluster-scoped one.
func (k Kind) Ref(namespace, name string) Ref {
	return Ref{APIVersion: k.APIVersion, Kind: k.Kind, Namespace: namespace, Name: name}
}

// Type is what an object of the kind says of itself.
func (k Kind) Type() TypeMeta { return TypeMeta(k) }

func (k Kind) String() string { return k.APIVersion + " " + k.Kind }

// Ref names one object.
type Ref struct {
	APIVersion string
	Kind       string
	Namespace  string // "" for a cluster-scoped object
	Name       string
	UID        string // optional: this very object, not a later one of its name
}

func (r Ref) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return r.APIVersion + " " + r.Kind + " " + name
}

// The types below are for the small structs that an author writes for the
// objects of a plugin, with those fields that it cares about:
//
//	type Pod struct {
//		sdk.TypeMeta
//		Metadata sdk.ObjectMeta `json:"metadata"`
//		Spec     PodSpec        `json:"spec"`
//	}

// TypeMeta is to be embedded.
type TypeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// ObjectMeta is metadata of an object. Set only what you want applied.
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

// OwnerReference names an owner in the same namespace. The host adds that of
// the primary to every object of a kind in Owns.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         bool   `json:"controller,omitempty"`
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion,omitempty"`
}

// ControlledBy says whether the object's controller is the object with that
// uid.
func (m ObjectMeta) ControlledBy(uid string) bool {
	for _, owner := range m.OwnerReferences {
		if owner.Controller && owner.UID == uid {
			return true
		}
	}
	return false
}

// Deleting says whether the object is about to go.
func (m ObjectMeta) Deleting() bool { return m.DeletionTimestamp != "" }

// Time is a time as it stands in an object: RFC 3339, UTC, "" for none. It is
// the bytes of the API server, so that writing back what was read changes
// nothing.
type Time string

// TimeOf returns t in whole seconds, as Kubernetes has it; "" for the zero
// time.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return ""
	}
	return Time(t.UTC().Format(time.RFC3339))
}

// Time returns the time, zero if there is none or it cannot be read.
func (t Time) Time() time.Time {
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}
	}
	return at
}

// Raw is JSON that is passed on as it is. [Run.Apply] takes it for an object,
// [Run.Get] and [Run.List] fill it, and a field of it keeps what its type
// does not know.
type Raw = json.RawMessage

// Condition is one entry of status.conditions.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"` // True, False or Unknown
	Reason  string `json:"reason"` // CamelCase
	Message string `json:"message"`

	// Of a condition that was read. The host writes both.
	LastTransitionTime Time  `json:"lastTransitionTime,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Values of [Condition.Status].
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// Types of [Run.Event].
const (
	Normal  = abi.EventNormal
	Warning = abi.EventWarning
)
