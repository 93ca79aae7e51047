package cache

import (
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole/host/object"
)

// This file finds the owners that a list leaves without an event.
//
// A list replaces the store after a watch was interrupted. A state that the plugin
// wrote and that others replaced since is in neither, so that there is no event with
// it: a child is created and deleted, and the informer has never shown it. Owners
// that know such a state, because they wrote it or read it, are woken.

// ahead are the owners that know a state which the store has not reached. It is
// guarded by store.mu.
type ahead struct {
	owners  map[Owner]string // the latest such resourceVersion
	sweepAt int              // the number of owners at which those that the store has reached are dropped
	skipped []span           // what the last lists went past, for a state that an owner comes to know late
}

// span is the resourceVersions after from, up to to.
type span struct{ from, to string }

const maxSpans = 8

// WakeIfSkipped is called for a state of that resourceVersion of an object that an owner
// has read or written, and that the informer may not show. [Hooks.Wake] is called for the
// owner when a list goes past it, or at once if one has: not if the informer shows it.
func (i *Informer) WakeIfSkipped(o Owner, key object.Key, version string) {
	if p := i.in(key.Namespace); p != nil && !p.store.has(key, version) {
		p.wakeIfSkipped(o, p.positionOf(version))
	}
}

// WakeWhenSkipped is [Informer.WakeIfSkipped] for a state that a run of the owner may read,
// which has not begun: what a list has gone past, it does not see.
func (i *Informer) WakeWhenSkipped(o Owner, key object.Key, version string) {
	if p := i.in(key.Namespace); p != nil {
		p.store.remember(o, p.positionOf(version))
	}
}

func (i *informer) wakeIfSkipped(o Owner, position string) {
	if i.store.remember(o, position) {
		i.cache.hooks.Wake(o, Event{}, false)
	}
}

// has reports whether the store has that state of an object.
func (s *store) has(key object.Key, version string) bool {
	o := s.get(key)
	return o != nil && o.ResourceVersion == version
}

// remember records that an owner knows a state. It reports whether a list went past
// it before.
func (s *store) remember(o Owner, version string) (missed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reached, err := atLeast(s.version, version); reached || err != nil {
		return err == nil && s.ahead.hasSkipped(version)
	}
	before, exists := s.ahead.owners[o]
	if exists && !isBefore(before, version) {
		return false
	}
	if len(s.ahead.owners) > max(s.ahead.sweepAt, minSweep) {
		s.ahead.sweep(s.version)
	}
	if s.ahead.owners == nil {
		s.ahead.owners = map[Owner]string{}
	}
	s.ahead.owners[o] = strings.Clone(version)
	return false
}

func (a *ahead) hasSkipped(version string) bool {
	for _, s := range a.skipped {
		if (s.from == "" || isBefore(s.from, version)) && !isBefore(s.to, version) {
			return true
		}
	}
	return false
}

// sweep drops the owners that know no state after version.
func (a *ahead) sweep(version string) {
	if version == "" { // before the first list
		return
	}
	for o, known := range a.owners {
		if !isBefore(version, known) {
			delete(a.owners, o)
		}
	}
	a.sweepAt = 2 * len(a.owners)
}

// skip returns the owners that know a state between two resourceVersions, which a
// list goes past. Which of several states it was is not known.
func (a *ahead) skip(from, to string) []Owner {
	a.sweep(from) // those that were shown
	missed := slices.Collect(maps.Keys(a.owners))
	a.sweep(to)
	switch last := len(a.skipped) - 1; {
	case last >= 0 && a.skipped[last].to == from:
		a.skipped[last].to = to
	case last+1 == maxSpans:
		a.skipped = append(a.skipped[1:], span{from, to})
	default:
		a.skipped = append(a.skipped, span{from, to})
	}
	return missed
}

// reset removes and returns all owners.
func (a *ahead) reset() []Owner {
	missed := slices.Collect(maps.Keys(a.owners))
	*a = ahead{}
	return missed
}
