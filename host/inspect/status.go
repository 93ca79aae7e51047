package inspect

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
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
	// LastHandledReconcileAt is as ObservedGeneration.
	LastHandledReconcileAt string `json:"lastHandledReconcileAt"`
	// After are the members that the schema requires, such as "status.parents": the host writes nothing
	// before the plugin has written them.
	After []string `json:"after,omitempty"`
	// LeftOut are why the schema has no place for the rest.
	LeftOut []string `json:"leftOut,omitempty"`
}

const (
	ownerHost = "host"
	yes, no   = "yes", "no"
	ifSchema  = "if the schema has it"
)

// Statuses returns what the host writes into the statuses of the primaries of each controller, in a cluster.
func Statuses(ctx context.Context, cluster *rest.Config, m *abi.Manifest) (all []Status, err error) {
	resources, err := findAll(ctx, cluster, m)
	if err != nil {
		return nil, err
	}
	for i := range m.Controllers {
		c := &m.Controllers[i]
		all = append(all, statusOf(c, resources[c.For.Kind]))
	}
	return all, nil
}

// findAll looks up the kinds of a manifest in a cluster; without one they are guessed.
func findAll(ctx context.Context, cluster *rest.Config, m *abi.Manifest) (map[abi.Kind]resource, error) {
	resources, err := find(ctx, cluster, kinds(m))
	if err == nil {
		err = addSchemas(ctx, cluster, m, resources)
	}
	return resources, err
}

// statusOf returns the status of a controller whose primary is served in that way.
func statusOf(c *abi.Controller, r resource) Status {
	plan := effect.PlanStatus(c, r.Resource, r.status)
	s := Status{Controller: c.Name, Owner: ownerHost, Conditions: plan.Conditions, ObservedGeneration: no, LastHandledReconcileAt: no, After: plan.Needs, LeftOut: plan.LeftOut}
	if object.GuestOwnsStatus(c) {
		s.Owner = string(c.StatusOwner)
	}
	written := ifSchema
	if r.status != nil {
		written = yes
	}
	switch {
	case !plan.ObservedGeneration:
	case !object.BuiltIn(c.For.Group()):
		s.ObservedGeneration = written
	case hasStatusField(c.For.Kind, "ObservedGeneration"):
		s.ObservedGeneration = fmt.Sprintf("if the policy allows to patch %s/status", c.For.Kind.Kind)
	}
	if plan.HandledRequest {
		s.LastHandledReconcileAt = written
	}
	return s
}

// addSchemas adds to the primaries of custom kinds the schemas of their statuses, as far as the cluster shows them.
func addSchemas(ctx context.Context, cluster *rest.Config, m *abi.Manifest, resources map[abi.Kind]resource) error {
	if cluster == nil {
		return nil
	}
	reader, err := cache.New(cache.Config{REST: cluster})
	if err != nil {
		return err
	}
	defer reader.Stop()
	for i := range m.Controllers {
		c := &m.Controllers[i]
		found := resources[c.For.Kind]
		if found.guessed || object.BuiltIn(c.For.Group()) || !object.HasConditions(c) {
			continue
		}
		if found.status, err = reader.StatusSchema(ctx, c.For.Kind, 0); err == nil {
			resources[c.For.Kind] = found
		}
	}
	return context.Cause(ctx)
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
	switch s.ObservedGeneration {
	case no:
	case yes:
		parts = append(slices.Clip(parts), "observedGeneration")
	default:
		parts = append(slices.Clip(parts), "observedGeneration "+s.ObservedGeneration)
	}
	if s.LastHandledReconcileAt == yes {
		parts = append(slices.Clip(parts), "lastHandledReconcileAt")
	}
	text := "the host writes " + list(parts)
	if len(parts) == 0 {
		text = "the host writes nothing of its own"
	}
	if len(s.After) > 0 {
		text += ", as soon as the plugin has written " + list(s.After) + ", which the schema requires"
	}
	if len(s.LeftOut) > 0 {
		text += "; left out: " + strings.Join(s.LeftOut, "; ")
	}
	return text
}
