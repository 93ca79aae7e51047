package effect

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file adds and removes finalizers.

// finalizerDomain is between the names of a plugin and of its controller, which are
// DNS labels: no two controllers have the same finalizer.
const finalizerDomain = ".thole.dev/"

// Finalizer returns the finalizer of a plugin's controller.
func Finalizer(plugin, controller string) string { return plugin + finalizerDomain + controller }

// FinalizerController returns the controller that a finalizer of the plugin
// belongs to. ok is false if the finalizer is not one of the plugin's.
func FinalizerController(plugin, finalizer string) (controller string, ok bool) {
	controller, ok = strings.CutPrefix(finalizer, plugin+finalizerDomain)
	return controller, ok && abi.ValidName(controller)
}

// HasFinalizer reports whether the primary carries its controller's finalizer.
func (p *Planner) HasFinalizer(t Target) bool {
	return slices.Contains(t.Object.Finalizers, Finalizer(p.Plugin, t.Controller.Name))
}

// EnsureFinalizer adds the controller's finalizer unless it is there. A
// primary that is being deleted, or does not exist any more, is a conflict: no
// finalizer can be added.
func (p *Performer) EnsureFinalizer(ctx context.Context, t Target) (Report, *Failure) {
	name := Finalizer(p.Plugin, t.Controller.Name)
	return p.editFinalizers(ctx, t, len(name), func(o *object.Object) (*operation, error) { return additionOf(name, o) })
}

// additionOf returns what adds a finalizer to an object, nil if it is there; the object is nil if it does not exist.
func additionOf(name string, o *object.Object) (*operation, error) {
	switch {
	case o == nil:
		return nil, superseded("the object does not exist any more")
	case slices.Contains(o.Finalizers, name):
		return nil, nil
	case o.Deleting():
		return nil, superseded("the object is being deleted: no finalizer can be added")
	}
	return &operation{Op: "add", Path: "/metadata/finalizers", Value: append(slices.Clip(o.Finalizers), name)}, nil
}

// RemoveFinalizer removes the controller's finalizer and no other. If the
// primary does not exist any more, now or before, it is forgotten and the
// report has no primary.
func (p *Performer) RemoveFinalizer(ctx context.Context, t Target) (Report, *Failure) {
	name := Finalizer(p.Plugin, t.Controller.Name)
	gone := false
	report, failure := p.editFinalizers(ctx, t, -len(name), func(o *object.Object) (*operation, error) {
		if gone = o == nil; gone {
			return nil, nil
		}
		return removalOf(name, o), nil
	})
	if gone || len(report.Writes) > 0 && report.Primary == nil {
		p.Forget(t.Object.Identity())
	}
	return report, failure
}

// removalOf returns what removes a finalizer of an object, nil if it is not there.
func removalOf(name string, o *object.Object) *operation {
	i := slices.Index(o.Finalizers, name)
	if i < 0 {
		return nil
	}
	return &operation{Op: "remove", Path: "/metadata/finalizers/" + strconv.Itoa(i)}
}

// isLastUpdate reports whether the object was deleted by the update that
// returned it: the server deletes an object when it has no finalizer any more
// and its grace period is over.
func isLastUpdate(o *object.Object) bool {
	seconds := o.DeletionGracePeriodSeconds
	return o.Deleting() && len(o.Finalizers) == 0 && seconds != nil && *seconds == 0
}

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// editFinalizers performs the operation that edit returns for the primary, nil for
// none, and which lengthens it by about growth bytes. The patch tests the uid and the
// list of finalizers, or the resourceVersion as well, see [Performer.onlyVersion]; edit is
// called again if what it tests has changed.
func (p *Performer) editFinalizers(ctx context.Context, t Target, growth int, edit func(*object.Object) (*operation, error)) (report Report, failure *Failure) {
	changed := func(from, to *object.Object) bool {
		return !slices.Equal(from.Finalizers, to.Finalizers) || from.Deleting() != to.Deleting() ||
			p.onlyVersion(from.ResourceVersion) != p.onlyVersion(to.ResourceVersion)
	}
	before, reply, err := p.update(ctx, t, changed, func(_ object.Resource, o *object.Object) (*patch, error) {
		next, err := edit(o)
		if err != nil || next == nil {
			return nil, err
		}
		change, err := p.finalizerPatch(t.Controller, o, *next, p.onlyVersion(o.ResourceVersion))
		change.growth, change.frees = growth, growth < 0
		return &change, err
	})
	if err != nil {
		return report, failed(abi.VerbFinalizer, t.Object.Ref(), err)
	}
	switch {
	case reply == nil:
	case isLastUpdate(reply) && !p.DryRun: // no version of the object was stored
		report.Writes = []Write{newDeletion(abi.VerbFinalizer, reply)}
	case p.add(&report, abi.VerbFinalizer, before, reply, sumStrings(reply.Finalizers...)):
		report.Primary = like(t.Object, reply)
	}
	return report, nil
}

// finalizerPatch returns the patch of the finalizers of an object, for that version of it alone unless it is "".
func (p *Planner) finalizerPatch(c *abi.Controller, o *object.Object, next operation, version string) (patch, error) {
	operations := []operation{
		{Op: "test", Path: "/metadata/uid", Value: o.UID},
		{Op: "test", Path: "/metadata/finalizers", Value: o.Finalizers}, // an absent list is null
		next,
	}
	if version != "" {
		operations = append(operations, operation{Op: "replace", Path: "/metadata/resourceVersion", Value: version})
	}
	body, err := json.Marshal(operations)
	return patch{patchType: types.JSONPatchType, manager: p.manager(c), body: body, before: o}, err
}
