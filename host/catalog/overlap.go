package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/thole-dev/thole/host/object"
)

// Of two plugins that write the same condition, the one runs whose account has the rights
// that this needs, and if both have or lack them the first one by name. So it does not depend on
// which of them was loaded first: after a restart, and on every replica, it is the same one.
// Plugins start when they are ready, so that the other one may run until that one is.

// displacementError reports that a plugin has to wait until others have stopped,
// which it precedes. It is a [*WaitError].
type displacementError struct{ *WaitError }

func (e *displacementError) Unwrap() error { return e.WaitError }

// conflict returns an error if r has a controller that writes the same condition of
// the same kind as another one of its own, or as one of the other revisions. These
// may conflict with each other: one of them is about to displace another one.
func conflict[G Guest](r *Revision[G], others ...*Revision[G]) error {
	err := object.ConditionWriters{}.Add(r.Plugin, r.Manifest.Controllers)
	for _, other := range others {
		if err == nil {
			writers := object.ConditionWriters{}
			_ = writers.Add(other.Plugin, other.Manifest.Controllers) // checked when it started
			err = writers.Add(r.Plugin, r.Manifest.Controllers)
		}
	}
	if err != nil {
		return &stepError{stepConflict, err}
	}
	return nil
}

// overruled returns why a revision may not run: it conflicts with itself, or with a
// plugin that precedes it and runs or is about to. c.mu is held.
func (c *Catalog[G]) overruled(r *Revision[G]) error {
	before, _ := c.others(r.Plugin)
	err := conflict(r, before...)
	if lacked := c.lackedRight[r.Plugin]; err != nil && lacked != "" {
		return &stepError{stepConflict, fmt.Errorf("%w; this plugin would not work: %s", err, lacked)}
	}
	return err
}

// precedes reports whether a plugin runs, and not the other one, if both write the same. c.mu is
// held.
func (c *Catalog[G]) precedes(plugin, other string) bool {
	if works := c.lackedRight[plugin] == ""; works != (c.lackedRight[other] == "") {
		return works
	}
	return plugin < other
}

// compareRights asks which rights the plugins lack that write the same as a revision, and which the
// revision lacks. Without an answer of the API server the last one holds.
func (c *Catalog[G]) compareRights(ctx context.Context, r *Revision[G]) {
	c.mu.Lock()
	var rivals []*Revision[G]
	for _, other := range c.active(r.Plugin) {
		if conflict(r, other) != nil {
			rivals = append(rivals, other)
		}
	}
	c.mu.Unlock()
	if len(rivals) == 0 {
		return
	}
	for _, rival := range append(rivals, r) {
		lacked, err := c.Runner.LackedRight(ctx, rival)
		if err != nil {
			continue
		}
		c.mu.Lock()
		c.lackedRight[rival.Plugin] = lacked
		c.mu.Unlock()
	}
}

// claim reserves for a plugin what a revision writes that is ready to run. Plugins
// that it precedes and that write the same are stopped by their supervisors, and the
// revision has to wait for that.
func (c *Catalog[G]) claim(r *Revision[G]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.overruled(r); err != nil {
		return err
	}
	c.starting[r.Plugin] = r
	var err error
	_, after := c.others(r.Plugin)
	for _, other := range after {
		if reason := conflict(r, other); reason != nil {
			c.supervisors[other.Plugin].notify(func() (interrupt bool) { return true })
			err = &displacementError{&WaitError{Reason: fmt.Sprintf("waiting for plugin %q to stop: %v", other.Plugin, reason)}}
		}
	}
	return err
}

// others returns the revisions of other plugins that run or are about to, ordered
// by name: those that precede the plugin and those that it precedes. c.mu is held.
func (c *Catalog[G]) others(plugin string) (before, after []*Revision[G]) {
	for _, r := range c.active(plugin) {
		if c.precedes(plugin, r.Plugin) {
			after = append(after, r)
		} else {
			before = append(before, r)
		}
	}
	return before, after
}

// active returns the revisions of other plugins that run or are about to, ordered by name. c.mu is
// held.
func (c *Catalog[G]) active(plugin string) (all []*Revision[G]) {
	for _, name := range slices.Sorted(maps.Keys(c.supervisors)) {
		for _, r := range []*Revision[G]{c.running[name], c.starting[name]} {
			if r != nil && name != plugin {
				all = append(all, r)
			}
		}
	}
	return all
}

// stopped removes a plugin that has stopped. Plugins that waited for that are started.
// c.mu is held.
func (c *Catalog[G]) stopped(plugin string) {
	delete(c.running, plugin)
	delete(c.starting, plugin)
	for name := range c.starting {
		c.supervisors[name].notify(func() (interrupt bool) { return false })
	}
}

// yield stops the plugin if another one is about to start that writes the same and
// precedes it.
func (s *supervisor[G]) yield() {
	s.c.mu.Lock()
	yields := s.current != nil && s.c.overruled(s.current) != nil
	s.c.mu.Unlock()
	if yields {
		s.stop(false)
	}
}

// keepClaim gives up what is reserved for a revision of other code than that: to load and
// start the code that is wanted now may take long.
func (s *supervisor[G]) keepClaim(digest string) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.c.starting[s.name].hasDigest(digest) {
		delete(s.c.starting, s.name)
	}
}

// endClaim gives up what is reserved for a revision that does not start, unless it
// waits for other plugins to stop.
func (s *supervisor[G]) endClaim() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.displaces {
		delete(s.c.starting, s.name)
	}
}
