package kstatustest

import (
	"fmt"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// actorSummary returns why the actor's further target condition is not the one that
// Flux's summary makes of the same conditions, nil if it is. Without one of them Flux
// makes none.
func actorSummary(o *unstructured.Unstructured) error {
	if conditionOf(o, "Degraded") == nil && conditionOf(o, "Synced") == nil {
		return nil
	}
	flux := o.DeepCopy()
	conditions.SetSummary(conditions.UnstructuredSetter(flux), "Healthy",
		conditions.WithConditions("Degraded", "Synced"), conditions.WithNegativePolarityConditions("Degraded"))
	have, want := conditionOf(o, "Healthy"), conditionOf(flux, "Healthy")
	if have["status"] != want["status"] || have["reason"] != want["reason"] {
		return fmt.Errorf("the condition Healthy is %v, by Flux's summary %v", have, want)
	}
	return nil
}
