package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole/abi"
)

// This file describes for metrics how kinds are followed.

// pollCounts count the lists of all informers of a kind.
type pollCounts struct {
	// begun numbers the lists. A store has the number of its list in place of a
	// resourceVersion: those of the API may be missing, or have no order. What was
	// written before a list began is in it, whichever informer has sent it.
	begun             atomic.Uint64
	succeeded, failed atomic.Uint64
}

func (c *pollCounts) add(err error) {
	if err != nil {
		c.failed.Add(1)
	} else {
		c.succeeded.Add(1)
	}
}

// pollCountsOf returns the counts of a kind. Cache.mu is held.
func (c *Cache) pollCountsOf(kind abi.Kind) *pollCounts {
	if c.polls[kind] == nil {
		c.polls[kind] = &pollCounts{}
	}
	return c.polls[kind]
}

// Following describes how the informers of a kind follow it.
type Following struct {
	Kind abi.Kind
	// Polled is set if the kind is listed at an interval, because its API has no watch.
	Polled bool
	// Working is set if all informers have synced and none fails.
	Working bool
	// Handlers is how many handlers of controllers the changes of the kind go to.
	Handlers int
	// Interval is the shortest one between two lists, without jitter. Succeeded and
	// Failed count the lists. They are zero unless the kind is polled.
	Interval          time.Duration
	Succeeded, Failed uint64
}

// Following returns how each kind is followed that the API server has, ordered by kind.
func (c *Cache) Following() []Following {
	c.mu.Lock()
	defer c.mu.Unlock()
	byKind := map[abi.Kind]Following{}
	for _, i := range c.informers {
		if i.client == nil { // derived
			continue
		}
		f, more := byKind[i.Kind()]
		works := i.HasSynced() && i.Err() == nil && (f.Working || !more)
		byKind[i.Kind()] = i.following(f, works)
	}
	return slices.SortedFunc(maps.Values(byKind), func(a, b Following) int {
		return cmp.Or(cmp.Compare(a.Kind.APIVersion, b.Kind.APIVersion), cmp.Compare(a.Kind.Kind, b.Kind.Kind))
	})
}

// ownHandlers is how many handlers an informer has of its own: the one that wakes the owners of edges.
const ownHandlers = 1

func (i *informer) following(others Following, works bool) Following {
	f := Following{Kind: i.Kind(), Working: works, Handlers: others.Handlers + i.store.feed.size() - ownHandlers, Polled: others.Polled, Interval: others.Interval}
	if i.poller == nil {
		return f
	}
	f.Succeeded, f.Failed = i.poller.counts.succeeded.Load(), i.poller.counts.failed.Load()
	if every := i.poller.interval(); !f.Polled || every < f.Interval {
		f.Interval = every
	}
	f.Polled = true
	return f
}
