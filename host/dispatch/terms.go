package dispatch

// This file notices that the replica leads the plugin again. Another one may have reconciled the
// objects meanwhile, so that what is remembered of their changes does not count any more.

// leadingTerm returns what stands for the term in which the replica leads the plugin, or for
// the next one.
func (c *Controller) leadingTerm() <-chan struct{} {
	if c.Lease == nil {
		return nil
	}
	return c.Lease.Leading()
}

// lead records that a run may begin in a term.
func (c *Controller) lead(term <-chan struct{}) {
	if term == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginTerm(term)
}

// beginTerm makes the next run of each key the first one of a term: another replica may have
// handled the objects before. Controller.mu is held.
func (c *Controller) beginTerm(term <-chan struct{}) {
	if term == c.term {
		return
	}
	c.term = term
	clear(c.created)
	for _, s := range c.keys {
		if s.changes != nil {
			s.changes.otherTerm = true
		}
	}
}
