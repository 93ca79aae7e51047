package kstatustest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// actorSummary returns what is wrong with the actor's further target conditions: they
// must be what Flux's summary makes of the same conditions. Without one of these Flux
// makes none.
//
// A target that depends on Reconciling and Stalled has the reason of the failure, as
// Ready has it, and not that of Reconciling.
func actorSummary(o *unstructured.Unstructured) error {
	healthy := compareSummary(o, "Healthy", []string{"Degraded", "Synced"}, "Degraded")
	settled := compareSummary(o, "Settled", []string{"Synced", "Reconciling", "Stalled"}, "Reconciling", "Stalled")
	return errors.Join(healthy, settled)
}

func compareSummary(o *unstructured.Unstructured, target string, summarized []string, negative ...string) error {
	if !slices.ContainsFunc(summarized, func(t string) bool { return conditionOf(o, t) != nil }) {
		return nil
	}
	flux := o.DeepCopy()
	conditions.SetSummary(conditions.UnstructuredSetter(flux), target,
		conditions.WithConditions(summarized...), conditions.WithNegativePolarityConditions(negative...))
	have, want := conditionOf(o, target), conditionOf(flux, target)
	ofHost := slices.Contains(negative, "Stalled")
	if have["status"] != want["status"] || have["reason"] != want["reason"] && !ofHost {
		return fmt.Errorf("the condition %s is %v, by Flux's summary %v", target, have, want)
	}
	return nil
}
