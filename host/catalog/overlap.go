package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/thole-dev/thole/host/object"
)

// Of two plugins that write the same condition, the first one by name runs. So it
// depends on the directory alone which one that is, and not on which of them was
// loaded first: after a restart it is the same one. Plugins start when they are ready, so
// that the second one may run until the first one is.

// displacementError reports that a plugin has to wait until others have stopped,
// which come after it by name. It is a [*WaitError].
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
// plugin before it by name that runs or is about to. c.mu is held.
func (c *Catalog[G]) overruled(r *Revision[G]) error {
	before, _ := c.others(r.Plugin)
	return conflict(r, before...)
}

// claim reserves for a plugin what a revision writes that is ready to run. Plugins
// after it by name that write the same are stopped by their supervisors, and the
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
// by name: those before the plugin and those after it. c.mu is held.
func (c *Catalog[G]) others(plugin string) (before, after []*Revision[G]) {
	for _, name := range slices.Sorted(maps.Keys(c.supervisors)) {
		for _, r := range []*Revision[G]{c.running[name], c.starting[name]} {
			switch {
			case r == nil || name == plugin:
			case name < plugin:
				before = append(before, r)
			default:
				after = append(after, r)
			}
		}
	}
	return before, after
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
// comes first by name.
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
