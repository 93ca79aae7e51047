package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/thole-dev/thole/host/object"
)

// current returns the primary once the cache shows what was written for it, or
// reads it from the API server if that takes too long. What the cache does not
// show yet the next run waits for again.
func (c *Controller) current(ctx context.Context, key object.Key) (*object.Object, error) {
	c.mu.Lock()
	s := c.keys[key]
	c.mu.Unlock()
	barrier, cancel := context.WithTimeout(ctx, c.Barrier)
	defer cancel()
	for s != nil && len(s.writes) > 0 {
		if c.Cache.CaughtUp(barrier, s.writes[0]) != nil {
			return c.live(ctx, key, s, barrier.Err() == nil)
		}
		s.writes = s.writes[1:]
	}
	obj, _ := c.Cache.Get(key)
	return obj, nil
}

// live reads the primary from the API server. After that only its own writes
// are waited for again, so that no run goes back behind what this one sees: the
// informer of another kind may lag for ever. If no waiting would help, nothing
// is.
func (c *Controller) live(ctx context.Context, key object.Key, s *keyState, hopeless bool) (*object.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	obj, err := c.Cache.Live(ctx, key)
	if err == nil {
		s.writes = slices.DeleteFunc(s.writes, func(w Write) bool {
			return hopeless || obj == nil || w.Kind != obj.Kind || w.Key != key
		})
	}
	return obj, err
}

// liveTimeout is how long the API server may take to answer a read. It ends
// most requests after 60 s itself.
const liveTimeout = 30 * time.Second

// await adds the writes of a run to those that the next one waits for. A write
// stands for those of its kind before it; one that led to no known version
// cannot be waited for.
func (s *keyState) await(writes []Write) {
	writes = slices.DeleteFunc(slices.Clone(writes), func(w Write) bool { return w.ResourceVersion == "" })
	outdone := func(before Write) bool {
		return slices.ContainsFunc(writes, func(w Write) bool { return w.Kind == before.Kind })
	}
	s.writes = append(slices.DeleteFunc(s.writes, outdone), writes...)
}
