package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/finalizers"
	"github.com/thole-dev/thole/host/object"
)

// leftover is a finalizer of a plugin that no controller takes off any more,
// on the objects of one kind.
type leftover struct {
	owner    finalizers.Owner // its controller is set
	kind     abi.Kind
	objects  int
	deleting int      // of the objects
	names    []string // the first of them, namespace/name
}

// namedLeft is how many objects with a leftover are told by name.
const namedLeft = 5

// leftovers finds the finalizers of the plugin that are not of the controllers
// which it has now, on the objects of all kinds that its controllers are for
// now or were for before. A finalizer on a kind that its controller is no
// longer for counts: nobody looks at those objects.
func leftovers(plugin string, before, now []abi.Controller, objects func(abi.Kind) []*object.Object) (left []leftover) {
	for _, kind := range primaries(now, before) {
		on := map[string]*leftover{} // by controller
		for _, o := range objects(kind) {
			for _, f := range o.Finalizers {
				controller, ours := effect.FinalizerController(plugin, f)
				if !ours || takesOff(now, controller, kind) {
					continue
				}
				if on[controller] == nil {
					on[controller] = &leftover{owner: finalizers.Owner{Plugin: plugin, Controller: controller}, kind: kind}
				}
				on[controller].add(o)
			}
		}
		for _, controller := range slices.Sorted(maps.Keys(on)) {
			left = append(left, *on[controller])
		}
	}
	return left
}

func (l *leftover) add(o *object.Object) {
	l.objects++
	if o.Deleting() {
		l.deleting++
	}
	if len(l.names) < namedLeft {
		l.names = append(l.names, o.Key().String())
	}
}

// primaries lists what controllers are for, each kind at the first version
// that is met: it has the same objects at every one.
func primaries(sets ...[]abi.Controller) (kinds []abi.Kind) {
	for _, c := range slices.Concat(sets...) {
		if !slices.ContainsFunc(kinds, func(k abi.Kind) bool { return sameKind(k, c.For) }) {
			kinds = append(kinds, c.For)
		}
	}
	return kinds
}

func takesOff(now []abi.Controller, controller string, kind abi.Kind) bool {
	return slices.ContainsFunc(now, func(c abi.Controller) bool { return c.Name == controller && sameKind(c.For, kind) })
}

func sameKind(a, b abi.Kind) bool { return a.Kind == b.Kind && a.Group() == b.Group() }

// remains is what a plugin leaves behind, with what to do about it.
type remains struct {
	plugin    string
	gone      bool // the plugin is; else it is controllers that its new version does not have
	namespace string
	left      []leftover
}

func (r remains) summary() string {
	total := 0
	for _, l := range r.left {
		total += l.objects
	}
	what := "is removed"
	if !r.gone {
		what = "no longer has every controller that it had"
	}
	return fmt.Sprintf("%s; finalizers remain that keep %d objects from being deleted: ", what, total)
}

func (r remains) details() string {
	var all []string
	for _, l := range r.left {
		text := fmt.Sprintf("%s on %d %s", effect.Finalizer(l.owner.Plugin, l.owner.Controller), l.objects, finalizers.KindName(l.kind))
		if l.deleting > 0 {
			text += fmt.Sprintf(", %d being deleted", l.deleting)
		}
		all = append(all, text+" ("+l.examples()+")")
	}
	return strings.Join(all, "; ")
}

func (l leftover) examples() string {
	text := strings.Join(l.names, ", ")
	if l.objects > len(l.names) {
		text += ", ..."
	}
	return text
}

// remedy is what to do, in both ways.
func (r remains) remedy() string {
	back := "put the plugin back"
	if !r.gone {
		back = "put the former version back"
	}
	release := strings.Join(r.commands(), " and ")
	if len(release) > longCommands {
		release = "the log has the commands"
	}
	return "; " + back + " to clean up, or give that up: " + release
}

// longCommands is more than fits into an Event; half a command is none.
const longCommands = 500

// commands release everything that remains, and nothing else.
func (r remains) commands() (all []string) {
	if r.gone {
		var kinds []abi.Kind
		for _, l := range r.left {
			kinds = append(kinds, l.kind)
		}
		return []string{finalizers.Command(finalizers.Owner{Plugin: r.plugin}, slices.Compact(kinds), r.namespace)}
	}
	for _, l := range r.left {
		all = append(all, finalizers.Command(l.owner, []abi.Kind{l.kind}, r.namespace))
	}
	return all
}

// declared returns the controllers of the plugin that run.
func (pl *plugin) declared() (all []abi.Controller) {
	for _, c := range pl.controllers {
		all = append(all, c.Generation().Controller)
	}
	slices.SortFunc(all, func(a, b abi.Controller) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// tellRemains tells the log and the pod which finalizers of the plugin no
// controller takes off: before are those that it had, now those that it has,
// none if it is removed. It is called when the others have ended, so that
// nothing changes any more. Nothing is taken off: what the clean-up would have
// done would stay undone, and nobody would know.
func (p *plugins) tellRemains(plugin string, before, now []abi.Controller) {
	r := remains{plugin: plugin, gone: len(now) == 0, namespace: p.h.config.Namespace}
	r.left = leftovers(plugin, before, now, p.objectsOf)
	for _, l := range r.left {
		p.h.logger.Named("plugins").Warn("finalizers remain that no controller takes off",
			"plugin", plugin, "finalizer", effect.Finalizer(plugin, l.owner.Controller), "kind", l.kind.String(),
			"objects", l.objects, "deleting", l.deleting, "examples", l.names, "release", finalizers.Command(l.owner, []abi.Kind{l.kind}, r.namespace))
	}
	p.h.events.pod.Remains(r)
}

// objectsOf returns what the cache has of a kind. A kind that was followed
// until now still is, for the time that an unused informer goes on.
func (p *plugins) objectsOf(kind abi.Kind) []*object.Object {
	informer, err := p.h.cache.Acquire(context.Background(), kind)
	if err != nil {
		return nil
	}
	defer informer.Release()
	if !informer.HasSynced() {
		return nil
	}
	return informer.List("", nil)
}
