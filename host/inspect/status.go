package inspect

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// This file describes what the host writes into the status of a controller's primaries.

// Status is what the host writes into the status, beside what results have for it.
type Status struct {
	Controller string   `json:"controller"`
	Owner      string   `json:"owner"`                // host, or guest: the host writes nothing
	Conditions []string `json:"conditions,omitempty"` // their types
	// ObservedGeneration is yes, no, or the condition under which it is written, such as "if
	// the schema has it".
	ObservedGeneration string `json:"observedGeneration"`
}

const (
	ownerHost = "host"
	no        = "no"
)

// statusOf returns the status of a controller whose primary is served in that way.
func statusOf(c *abi.Controller, r object.Resource) Status {
	s := Status{Controller: c.Name, Owner: ownerHost, ObservedGeneration: no}
	if object.GuestOwnsStatus(c) {
		s.Owner = string(c.StatusOwner)
		return s
	}
	ready := c.Conditions.TargetOrReady() == outcome.Ready
	if object.HasConditions(c) && (r.Status || object.AsksForConditions(c)) {
		if s.Conditions = c.Conditions.Written(); ready {
			s.Conditions = append(slices.Clip(s.Conditions), outcome.Reconciling, outcome.Stalled)
		}
	}
	switch {
	case !ready || !r.Status || c.For.MetadataOnly:
	case !object.BuiltIn(c.For.Group()):
		s.ObservedGeneration = "if the schema has it"
	case hasStatusField(c.For.Kind, "ObservedGeneration"):
		s.ObservedGeneration = fmt.Sprintf("if the policy allows to patch %s/status", c.For.Kind.Kind)
	}
	return s
}

// hasStatusField reports whether the status of a built-in kind has a field, or may have it: not
// every kind is known.
func hasStatusField(kind abi.Kind, name string) bool {
	known, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
	if err != nil {
		return true
	}
	status, ok := reflect.TypeOf(known).Elem().FieldByName("Status")
	if !ok || status.Type.Kind() != reflect.Struct {
		return false
	}
	_, ok = status.Type.FieldByName(name)
	return ok
}

// checkConditions returns an error if the manifest names conditions of a built-in kind that
// has no place for them.
func checkConditions(c *abi.Controller) error {
	if !object.BuiltIn(c.For.Group()) || !object.AsksForConditions(c) || hasStatusField(c.For.Kind, "Conditions") {
		return nil
	}
	return fmt.Errorf("controller %q: conditions, for which %s has no place: remove them from the manifest", c.Name, c.For.Kind)
}

// row describes the status in one line.
func (s Status) row() string {
	if s.Owner != ownerHost {
		return "the plugin writes all of it, the host nothing"
	}
	parts := s.Conditions
	if s.ObservedGeneration != no {
		parts = append(slices.Clip(parts), "observedGeneration "+s.ObservedGeneration)
	}
	if len(parts) == 0 {
		return "the host writes nothing of its own"
	}
	return "the host writes " + list(parts)
}
