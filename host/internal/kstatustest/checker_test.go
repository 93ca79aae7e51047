package kstatustest

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/conditions/check"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// statusChecker checks the versions of one kind's objects.
type statusChecker struct {
	owned    []string // the controller's conditions, including Ready, Stalled and Reconciling
	polarity *check.Conditions

	// consistent returns why the host must not have written a status that kstatus
	// calls current. child is the object's child when it was written, nil if there
	// was none.
	consistent func(v version, child *unstructured.Unstructured) error
	// summary returns what is wrong with a further target condition.
	summary func(*unstructured.Unstructured) error
}

// newStatusChecker returns the checker of a kind with the conditions that the
// controller's manifest declares.
func newStatusChecker(negative, positive []string, consistent func(version, *unstructured.Unstructured) error) statusChecker {
	all := slices.Concat(negative, []string{"Stalled", "Reconciling"})
	return statusChecker{
		owned:      slices.Concat(all, positive, []string{"Ready"}),
		polarity:   &check.Conditions{NegativePolarity: all, PositivePolarity: positive},
		consistent: consistent,
		summary:    func(*unstructured.Unstructured) error { return nil },
	}
}

// newActorChecker returns the checker of actors.
func newActorChecker() statusChecker {
	sc := newStatusChecker([]string{"Degraded"}, []string{"Synced", "Healthy", "Settled"}, actorConsistent)
	sc.summary = actorSummary
	return sc
}

// version is one version of an object and the previous one.
type version struct{ object, before *unstructured.Unstructured }

// written reports whether the host wrote the version: whether its status differs
// from the previous one, apart from conditions of other writers.
func (v version) written(owned []string) bool {
	return v.before == nil || !reflect.DeepEqual(statusOf(only(v.before, owned)), statusOf(only(v.object, owned)))
}

// check returns everything that is wrong with a version, nil if nothing is.
func (sc statusChecker) check(t *testing.T, v version, child *unstructured.Unstructured) error {
	t.Helper()
	if st := statusOf(v.object); st == nil || reflect.DeepEqual(st, map[string]any{"observedGeneration": int64(-1)}) {
		return nil // the host has not written it yet: there is none, or the default of a generated CRD
	}
	return errors.Join(sc.flux(t, only(v.object, sc.owned)), sc.current(v, child), sc.summary(v.object))
}

// state decides which of Flux's checkers applies to a status.
type state string

const (
	working   state = "in progress"
	settled   state = "settled"
	overtaken state = "settled at an earlier generation"
)

// stateOf depends on the status alone. The host is working on an object that is
// Reconciling or whose generation it has not observed. An object whose spec has
// just changed is neither in progress nor settled: its status is that of the
// previous generation.
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

// flux returns the findings of Flux's checkers: of the one for settled objects
// always, because the host writes status once per run and never half-way, and of
// the one for objects in progress where it applies.
//
// A status of an earlier generation is checked as if that were the current one.
// The checker for objects in progress would forbid Ready=Unknown without
// Reconciling there: in Flux only a working controller leaves such a version,
// here the user made it by changing the spec.
func (sc statusChecker) flux(t *testing.T, o *unstructured.Unstructured) error {
	t.Helper()
	checkers := []*check.Checker{check.NewChecker(nil, sc.polarity)}
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
func (sc statusChecker) current(v version, child *unstructured.Unstructured) error {
	r, err := status.Compute(v.object)
	if err != nil || r.Status != status.CurrentStatus || !v.written(sc.owned) {
		return err
	}
	if got := observed(v.object); got != v.object.GetGeneration() {
		return fmt.Errorf("written as current at generation %d with observedGeneration %d", v.object.GetGeneration(), got)
	}
	if err := sc.consistent(v, child); err != nil {
		return fmt.Errorf("written as current: %w", err)
	}
	return nil
}

// only returns a copy of the object without conditions of other types.
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
	for _, c := range conditionsOf(o) {
		if c["type"] == conditionType {
			return c
		}
	}
	return nil
}

// conditionsOf returns the conditions of an object, none if it is nil.
func conditionsOf(o *unstructured.Unstructured) (conditions []map[string]any) {
	if o == nil {
		return nil
	}
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		conditions = append(conditions, c.(map[string]any))
	}
	return conditions
}

func field(o *unstructured.Unstructured, path ...string) string {
	if o == nil {
		return ""
	}
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// TestNewObjectOfAGeneratedKindIsInProgress: before its first run, an object has the status that the API server gives it
// by the default of the CRD.
func TestNewObjectOfAGeneratedKindIsInProgress(t *testing.T) {
	text, err := os.ReadFile("../../../plugins/podmanager/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(parse(t, string(text)).Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	initial, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status map[string]any
		want   status.Status
	}{{initial, status.InProgressStatus}, {nil, status.CurrentStatus}} {
		o := parse(t, "apiVersion: example.com/v1\nkind: New\nmetadata: {generation: 1}")
		if c.status != nil {
			o.Object["status"] = c.status
		}
		if got, err := status.Compute(o); err != nil || got.Status != c.want {
			t.Errorf("with the status %v it is %v, want %s; %v", c.status, got, c.want, err)
		}
	}
}
