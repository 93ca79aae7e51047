package dispatch

// This file notices that the replica leads the plugin again. Another one may have reconciled the
// objects meanwhile, so that what capabilities remember of them does not count any more.

// seen is what has happened to an object since the replica leads.
type seen uint8

const (
	begun   seen = 1 << iota // a run
	created                  // the object itself, as the informer has shown
)

// lead is leads, and begins the term of the replica if it leads in another one than before.
func (c *Controller) lead() bool {
	if c.Lease == nil {
		return true
	}
	term := c.Lease.Leading()
	if !c.leads() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if term != c.term {
		c.beginTerm(term)
	}
	return true
}

// beginTerm makes the next run of each key the first one of a term: another replica may have
// handled the objects before. mu is held.
func (c *Controller) beginTerm(term <-chan struct{}) {
	c.term = term
	c.callTerm()
	clear(c.created)
	c.dropObjectTurns()
	c.loseHeld()
	c.forgetRuns()
	for _, s := range c.keys {
		s.beginTerm()
	}
	for _, all := range c.goneObjects.byKey {
		for _, g := range all {
			g.state.beginTerm()
			g.inTerm = false
		}
	}
}

// beginTerm drops what does not count after another replica may have handled the object. Controller.mu is held.
func (s *keyState) beginTerm() { s.last.seen, s.hooks = 0, nil }

// EndTerm drops what is of no use while another replica leads the plugin.
func (c *Controller) EndTerm() {
	c.idleTurns()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropObjectTurns()
	c.loseHeld()
	c.forgetRuns()
}
