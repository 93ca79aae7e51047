package runner

import (
	"iter"
	"maps"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/finalizers"
	"github.com/thole-dev/thole/host/object"
)

// maxExamples is how many objects with a leftover finalizer are reported by name.
const maxExamples = 5

// reportLeftoverFinalizers reports the finalizers of a plugin that no controller
// removes any more. before are the controllers that it had, now are those that it
// has, none if it was removed. It must be called when the others have ended, so
// that nothing changes any more. The finalizers are not removed: what the cleanup
// would have done would stay undone, and nobody would notice.
func (r *Runner) reportLeftoverFinalizers(plugin string, before, now []abi.Controller) {
	e := events.FinalizersLeft{Plugin: plugin, Removed: len(now) == 0}
	e.Left = leftoverFinalizers(plugin, r.Namespace, before, now, r.objectsOf)
	if len(e.Left) == 0 {
		return
	}
	var kinds []abi.Kind
	for _, l := range e.Left {
		kinds = append(kinds, l.Kind)
		e.Commands = append(e.Commands, l.Command)
	}
	if e.Removed { // one command releases all finalizers of the plugin
		e.Commands = []string{finalizers.Command(finalizers.Owner{Plugin: plugin}, slices.Compact(kinds), r.Namespace)}
	}
	r.Events.Observe(e)
}

// leftoverFinalizers returns the finalizers of a plugin that are not those of its
// present controllers, on objects of all kinds that its controllers have or had as
// primary. The finalizer of a controller that has another primary now is one of
// them: nobody reconciles those objects.
func leftoverFinalizers(plugin, namespace string, before, now []abi.Controller, objects func(abi.Kind) iter.Seq[*object.Object]) (left []events.LeftFinalizer) {
	for _, kind := range primaryKinds(now, before) {
		byController := map[string]*events.LeftFinalizer{}
		for o := range objects(kind) {
			for _, f := range o.Finalizers {
				controller, ours := effect.FinalizerController(plugin, f)
				if !ours || removesFinalizer(now, controller, kind) {
					continue
				}
				if byController[controller] == nil {
					owner := finalizers.Owner{Plugin: plugin, Controller: controller}
					byController[controller] = &events.LeftFinalizer{
						Finalizer: effect.Finalizer(plugin, controller), Kind: kind, KindName: finalizers.KindName(kind),
						Command: finalizers.Command(owner, []abi.Kind{kind}, namespace),
					}
				}
				count(byController[controller], o)
			}
		}
		for _, controller := range slices.Sorted(maps.Keys(byController)) {
			left = append(left, *byController[controller])
		}
	}
	return left
}

func count(l *events.LeftFinalizer, o *object.Object) {
	l.Objects++
	if o.Deleting() {
		l.Deleting++
	}
	if len(l.Examples) < maxExamples {
		l.Examples = append(l.Examples, o.Key().String())
	}
}

// primaryKinds returns the primary kinds of controllers, each at the first version
// found: a kind has the same objects at every version.
func primaryKinds(sets ...[]abi.Controller) (kinds []abi.Kind) {
	for _, c := range slices.Concat(sets...) {
		if !slices.ContainsFunc(kinds, func(k abi.Kind) bool { return sameKind(k, c.For.Kind) }) {
			kinds = append(kinds, c.For.Kind)
		}
	}
	return kinds
}

func removesFinalizer(now []abi.Controller, controller string, kind abi.Kind) bool {
	return slices.ContainsFunc(now, func(c abi.Controller) bool { return c.Name == controller && sameKind(c.For.Kind, kind) })
}

func sameKind(a, b abi.Kind) bool { return a.Kind == b.Kind && a.Group() == b.Group() }
