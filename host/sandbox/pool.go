package sandbox

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// This file has the instances of a guest between calls: the pool, instances that
// are made ahead of calls, and those that are closed because they are idle.

// pool has the free instances of a guest, and bounds how many are in use at
// once. An instance is either in free or with one caller.
type pool struct {
	inUse  chan struct{} // holds a token for each caller that has an instance
	onFull func()        // called when a caller has to wait

	mu      sync.Mutex
	free    []*instance // the least recently used first; the last is used next
	closing bool
	callers sync.WaitGroup // between acquire and release; none is added once closing is set
}

func newPool(size int, onFull func()) *pool {
	return &pool{inUse: make(chan struct{}, size), onFull: onFull}
}

// grow lets more callers have an instance at once. It must be called before the first acquire.
func (p *pool) grow(more int) { p.inUse = make(chan struct{}, cap(p.inUse)+more) }

// acquire blocks until the caller may have an instance. It returns a free one,
// preferably with the state of calls in that namespace, or nil if the caller is to
// make one. Every successful acquire must be followed by one release.
func (p *pool) acquire(ctx context.Context, namespace string) (*instance, error) {
	if err := p.addCaller(); err != nil {
		return nil, err
	}
	select {
	case p.inUse <- struct{}{}:
		return p.take(namespace), nil
	default:
		p.onFull()
	}
	select {
	case p.inUse <- struct{}{}:
	case <-ctx.Done():
		p.callers.Done()
		return nil, context.Cause(ctx)
	}
	return p.take(namespace), nil
}

// release ends what acquire began. The instance, which may be nil, is kept for
// the next caller unless the pool is closing.
func (p *pool) release(ctx context.Context, in *instance) {
	if in != nil && !p.put(in) {
		in.close(ctx)
	}
	<-p.inUse
	p.callers.Done()
}

// addCaller must be called before a caller waits, so that [Guest.Close] waits for
// it.
func (p *pool) addCaller() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return ErrClosed
	}
	p.callers.Add(1)
	return nil
}

// take returns the instance that was used last of those that can serve the
// namespace as they are, so that its memory is still in the processor's caches. If
// there is none, it returns the one whose namespace was served longest ago, or nil.
func (p *pool) take(namespace string) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	best := 0
	for i, in := range slices.Backward(p.free) {
		if in.serves(namespace) {
			best = i
			break
		}
	}
	in := p.free[best]
	p.free = slices.Delete(p.free, best, best+1)
	return in
}

func (p *pool) put(in *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.free = append(p.free, in)
	return true
}

// putUnused keeps an instance that no call has used, unless there are as many as
// can be in use at once.
func (p *pool) putUnused(in *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.free)+len(p.inUse) >= cap(p.inUse) {
		return false
	}
	if len(p.free) > 0 {
		in.used = p.free[0].used // to keep the order
	}
	p.free = slices.Insert(p.free, 0, in)
	return true
}

// close refuses further callers. It reports whether this is the first call.
func (p *pool) close() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.closing
	p.closing = true
	return first
}

// takeOldest removes the instance that has been free longest, if its last call
// ended before a time; the zero time stands for any. It returns nil if there is no
// such instance.
func (p *pool) takeOldest(before time.Time) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 || !before.IsZero() && !p.free[0].used.Before(before) {
		return nil
	}
	in := p.free[0]
	p.free = slices.Delete(p.free, 0, 1)
	return in
}

// idleSince returns when the least recently used free instance ended its last
// call, if there is one.
func (p *pool) idleSince() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return time.Time{}, false
	}
	return p.free[0].used, true
}

func (p *pool) counts() (idle, busy int, bytes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.free {
		bytes += in.linear.Held()
	}
	return len(p.free), len(p.inUse), bytes
}

// prewarmer makes instances between calls, in place of those that were dropped,
// so that the next call does not have to. One call that ends well allows one
// instance: a guest that traps in each call would otherwise keep the host busy
// between its calls too.
type prewarmer struct {
	allowed atomic.Bool
	running atomic.Bool // one at a time
}

// prewarm is called at the end of a call that left no instance behind.
func (g *Guest) prewarm() {
	if !g.prewarmer.allowed.CompareAndSwap(true, false) || !g.prewarmer.running.CompareAndSwap(false, true) {
		return
	}
	if g.pool.addCaller() != nil {
		return
	}
	go func() {
		defer g.pool.callers.Done()
		defer g.prewarmer.running.Store(false)
		g.prewarmOne()
	}()
}

// prewarmOne adds an instance to the pool if there is memory for it. It is made in
// an execution slot of its own.
func (g *Guest) prewarmOne() {
	if !g.fitsAnother() {
		return
	}
	ctx, task, _ := g.acquireSlot(context.Background()) // fails only if the context ends
	defer task.Release()
	in, err := g.newInstance(ctx)
	if err != nil {
		g.logger.Debug("cannot make an instance ahead of the next call, which makes its own", "error", err)
		return
	}
	in.used = time.Now()
	if !g.pool.putUnused(in) {
		in.close(ctx)
	}
}

// fitsAnother reports whether an instance can be made without dropping one of
// another guest.
func (g *Guest) fitsAnother() bool {
	size := uint64(g.limits.startPages(g.minimum)) * pageBytes
	if g.image != nil {
		size = g.image.memory.Size()
	}
	return g.memory.Fits(size + g.beside)
}

const (
	// idleInstances is how long an instance is kept that is not called, and
	// idleCode how long the native code of a plugin that has no instance. Code is
	// freed only if the cache on disk has it and [Plugin.Source] is set.
	idleInstances = time.Minute
	idleCode      = time.Minute
	// reapsPerPeriod is how often idle plugins are looked for within the shorter
	// of the two: by that fraction of it they may be reaped later.
	reapsPerPeriod = 4
)

// runIdleReaper scales idle plugins to zero until the sandbox is closed. It
// closes their instances first, which new ones replace from the image, and later
// frees their native code, which is reloaded from the cache. The image, the
// manifest and an open file stay.
func (s *Sandbox) runIdleReaper() {
	tick := time.NewTicker(idleInstances / reapsPerPeriod)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case now := <-tick.C:
			for _, g := range s.loaded() {
				g.reapIdle(now)
			}
		}
	}
}

func (g *Guest) reapIdle(now time.Time) {
	ctx := context.Background()
	g.closeIdle(ctx, now.Add(-idleInstances))
	if g.source != nil && g.code.Unload(ctx, now.Add(-idleCode)) {
		g.logger.Debug("plugin is idle, its native code was freed until the next call")
	}
}

// idleForOthers is how long an instance must have been idle to be dropped for a plugin
// that has more than an even share: otherwise one that is called often would have to
// make its instance for each call.
const idleForOthers = time.Second

// dropLongestIdle closes the instance of all guests that has been idle longest,
// preferably of those with more than an even share of memory, and reports whether
// there was one. sharing is as in [memory.NewBudget].
func (s *Sandbox) dropLongestIdle(sharing bool) bool {
	for {
		p := s.longestIdle(sharing)
		if p == nil {
			return false
		}
		// A call may have taken the instance since, in which case another one is
		// idle longest.
		if in := p.takeOldest(time.Time{}); in != nil {
			in.close(context.Background())
			return true
		}
	}
}

// longestIdle returns the pool with the instance that is to be dropped next, or nil.
func (s *Sandbox) longestIdle(sharing bool) *pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ofLarge, ofOthers idlest
	for g := range s.guests {
		at, ok := g.pool.idleSince()
		switch {
		case !ok:
		case g.memory.ExceedsEvenShare():
			ofLarge.add(g.pool, at)
		case sharing || time.Since(at) >= idleForOthers:
			ofOthers.add(g.pool, at)
		}
	}
	return cmp.Or(ofLarge.pool, ofOthers.pool)
}

// idlest is the pool whose instance has been idle longest; nil for none.
type idlest struct {
	pool  *pool
	since time.Time
}

func (i *idlest) add(p *pool, since time.Time) {
	if i.pool == nil || since.Before(i.since) {
		i.pool, i.since = p, since
	}
}
