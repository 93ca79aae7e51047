package info

import (
	"github.com/thole-dev/thole/sdk"
)

// A MyKind has information that is sent to another system. Version 2 is the one that is stored.
type MyKind = sdk.Object[Spec, Status]

// V1 is an object of version 1, which is that of the document.
type V1 = sdk.Object[V1Spec, Status]

// V1Spec is the information in version 1. It has no audience.
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.lastAppliedGeneration`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type V1Spec struct {
	// +optional
	SomeInfo string `json:"someInfo"`
	// +optional
	OtherInfo string `json:"otherInfo"`
}

// audienceAnnotation is the annotation of an object of version 1 with its audience.
const audienceAnnotation = "example.thole.dev/audience"

// fromV1 fills an object of version 2. The audience moves from the annotation into the spec.
func fromV1(v1 *V1, v2 *MyKind) error {
	v2.Spec = Spec{Info: Info{Some: v1.Spec.SomeInfo, Other: v1.Spec.OtherInfo}, Audience: v1.Annotations[audienceAnnotation]}
	v2.Status = v1.Status
	if v2.Spec.Audience != "" {
		delete(v2.Annotations, audienceAnnotation)
	}
	return nil
}

// toV1 fills an object of version 1.
func toV1(v2 *MyKind, v1 *V1) error {
	v1.Spec = V1Spec{SomeInfo: v2.Spec.Info.Some, OtherInfo: v2.Spec.Info.Other}
	v1.Status = v2.Status
	if v2.Spec.Audience != "" {
		v1.SetAnnotation(audienceAnnotation, v2.Spec.Audience)
	}
	return nil
}
