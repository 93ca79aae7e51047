package kstatustest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/conditions/check"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// judge holds the versions of one kind's objects against the checkers.
type judge struct {
	owned    []string // conditions of the controller, Ready, Stalled and Reconciling too
	polarity *check.Conditions

	// matched says what was wrong with the host's view when it wrote a
	// status that kstatus calls current; child is the object's child at that
	// moment, nil if there was none.
	matched func(v version, child *unstructured.Unstructured) error
}

// newJudge takes the conditions that a manifest declares.
func newJudge(negative, positive []string, matched func(version, *unstructured.Unstructured) error) judge {
	all := slices.Concat(negative, []string{"Stalled", "Reconciling"})
	return judge{
		owned:    slices.Concat(all, positive, []string{"Ready"}),
		polarity: &check.Conditions{NegativePolarity: all, PositivePolarity: positive},
		matched:  matched,
	}
}

// version is one version of an object, and the one before it.
type version struct{ object, before *unstructured.Unstructured }

// written says whether the version differs from the one before in its status:
// nobody but the host writes that, apart from conditions that it does not own.
func (v version) written(owned []string) bool {
	return v.before == nil || !reflect.DeepEqual(statusOf(only(v.before, owned)), statusOf(only(v.object, owned)))
}

// verdict returns everything that is wrong with a version.
func (j judge) verdict(t *testing.T, v version, child *unstructured.Unstructured) error {
	t.Helper()
	if statusOf(v.object) == nil {
		return nil // the host has not written yet
	}
	return errors.Join(j.flux(t, only(v.object, j.owned)), j.current(v, child))
}

// state is which of Flux's checkers fits.
type state string

const (
	working   state = "in progress"
	settled   state = "settled"
	overtaken state = "settled at an earlier generation"
)

// stateOf tells it from the status alone: the host is working on an object
// that it calls reconciling, or whose generation it has not observed. One whose
// spec somebody has just changed is neither in progress nor settled; its status
// is that of the generation before.
func stateOf(o *unstructured.Unstructured) state {
	ready, _ := conditionOf(o, "Ready")["observedGeneration"].(int64)
	switch {
	case conditionOf(o, "Reconciling")["status"] == "True" || observed(o) != ready:
		return working
	case observed(o) < o.GetGeneration():
		return overtaken
	default:
		return settled
	}
}

// flux returns what Flux's checkers find: the one for settled states always, as
// the host writes status once per run and never half-way, the one for states in
// progress where it fits.
//
// A status that was overtaken is judged as of its generation. The second
// checker forbids Ready=Unknown without Reconciling there, for in Flux nobody
// but a controller at work leaves such a version; here it was the user.
func (j judge) flux(t *testing.T, o *unstructured.Unstructured) error {
	t.Helper()
	checkers := []*check.Checker{check.NewChecker(nil, j.polarity)}
	switch stateOf(o) {
	case working:
		checkers = append(checkers, check.NewInProgressChecker(nil))
	case overtaken:
		o.SetGeneration(observed(o))
	case settled:
	}
	var found []error
	for _, c := range checkers {
		c.DisableFetch = true
		fail, warn := c.Check(t.Context(), conditions.UnstructuredGetter(o))
		found = append(found, fail, warn)
	}
	return errors.Join(found...)
}

// current returns what is wrong with a status that kstatus calls current.
func (j judge) current(v version, child *unstructured.Unstructured) error {
	r, err := status.Compute(v.object)
	if err != nil || r.Status != status.CurrentStatus || !v.written(j.owned) {
		return err
	}
	if got := observed(v.object); got != v.object.GetGeneration() {
		return fmt.Errorf("written as current at generation %d with observedGeneration %d", v.object.GetGeneration(), got)
	}
	if err := j.matched(v, child); err != nil {
		return fmt.Errorf("written as current: %w", err)
	}
	return nil
}

// only returns the object with the conditions of these types alone.
func only(o *unstructured.Unstructured, types []string) *unstructured.Unstructured {
	o = o.DeepCopy()
	all, found, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil || !found {
		return o
	}
	all = slices.DeleteFunc(all, func(c any) bool {
		t, _ := c.(map[string]any)["type"].(string)
		return !slices.Contains(types, t)
	})
	if err := unstructured.SetNestedSlice(o.Object, all, "status", "conditions"); err != nil {
		panic(err)
	}
	return o
}

func statusOf(o *unstructured.Unstructured) map[string]any {
	s, _, _ := unstructured.NestedMap(o.Object, "status")
	return s
}

func observed(o *unstructured.Unstructured) int64 {
	g, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return g
}

func conditionOf(o *unstructured.Unstructured, conditionType string) map[string]any {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == conditionType {
			return c
		}
	}
	return nil
}

func field(o *unstructured.Unstructured, path ...string) string {
	if o == nil {
		return ""
	}
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}
