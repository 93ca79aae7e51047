package sandbox

import (
	"context"
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
	callers int           // between acquire and release
	idle    chan struct{} // closed when closing is set and callers is zero
}

func newPool(size int, onFull func()) *pool {
	return &pool{inUse: make(chan struct{}, size), onFull: onFull, idle: make(chan struct{})}
}

// acquire blocks until the caller may have an instance. It returns a free one,
// or nil if the caller is to make one. Every successful acquire must be followed
// by one release.
func (p *pool) acquire(ctx context.Context) (*instance, error) {
	if err := p.addCaller(); err != nil {
		return nil, err
	}
	select {
	case p.inUse <- struct{}{}:
		return p.take(), nil
	default:
		p.onFull()
	}
	select {
	case p.inUse <- struct{}{}:
	case <-ctx.Done():
		p.removeCaller()
		return nil, context.Cause(ctx)
	}
	return p.take(), nil
}

// release ends what acquire began. The instance, which may be nil, is kept for
// the next caller unless the pool is closing.
func (p *pool) release(ctx context.Context, in *instance) {
	if in != nil && !p.put(in) {
		in.close(ctx)
	}
	<-p.inUse
	p.removeCaller()
}

// addCaller must be called before a caller waits, so that close waits for it.
func (p *pool) addCaller() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return ErrClosed
	}
	p.callers++
	return nil
}

func (p *pool) removeCaller() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.callers--
	p.signalIdle()
}

func (p *pool) signalIdle() {
	if p.closing && p.callers == 0 {
		close(p.idle)
	}
}

// take returns the instance that was used last, so that its memory is still in
// the processor's caches, or nil.
func (p *pool) take() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	last := len(p.free) - 1
	in := p.free[last]
	p.free[last] = nil
	p.free = p.free[:last]
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
	p.free = append([]*instance{in}, p.free...)
	return true
}

// close refuses further callers. It reports whether this is the first call; the
// channel idle is closed when the last caller has released.
func (p *pool) close() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.closing = true
	p.signalIdle()
	return true
}

// takeAllBut removes all free instances but keep.
func (p *pool) takeAllBut(keep int) []*instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeFirst(len(p.free) - keep)
}

// takeIdle removes the instances whose last call ended before a time.
func (p *pool) takeIdle(before time.Time) []*instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.free) && p.free[n].used.Before(before) {
		n++
	}
	return p.takeFirst(n)
}

// takeLeastRecent removes the instance that has been free longest, or returns
// nil.
func (p *pool) takeLeastRecent() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out := p.takeFirst(1); len(out) == 1 {
		return out[0]
	}
	return nil
}

// takeFirst removes the n least recently used instances, or all if there are
// fewer. It must be called with the lock held. What is left is copied, so that
// nothing refers to the removed ones.
func (p *pool) takeFirst(n int) []*instance {
	n = min(max(n, 0), len(p.free))
	out := p.free[:n:n]
	p.free = append([]*instance(nil), p.free[n:]...)
	return out
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
		bytes += uint64(in.memory.Size())
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
		defer g.pool.removeCaller()
		defer g.prewarmer.running.Store(false)
		g.prewarmOne(context.Background())
	}()
}

// prewarmOne adds an instance to the pool if there is memory for it.
func (g *Guest) prewarmOne(ctx context.Context) {
	if !g.fitsAnother() {
		return
	}
	in, err := g.newInstanceInSlot(ctx)
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
	if im := g.image.Load(); im != nil {
		size = im.memory.Size()
	}
	return g.memory.Fits(size)
}

// newInstanceInSlot makes an instance in an execution slot of its own.
func (g *Guest) newInstanceInSlot(ctx context.Context) (*instance, error) {
	ctx, task, err := g.acquireSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer task.Release()
	return g.newInstance(ctx, g.image.Load())
}

// reapsPerPeriod is how often idle plugins are looked for within the shorter of
// the two idle times: by that fraction of it they may be reaped later.
const reapsPerPeriod = 4

// runIdleReaper scales idle plugins to zero until the sandbox is closed. It
// closes their instances first, which new ones replace from the image, and later
// frees their native code, which is reloaded from the cache. The image, the
// manifest and an open file stay.
func (s *Sandbox) runIdleReaper() {
	defer close(s.reaperDone)
	tick := time.NewTicker(max(1, min(s.config.IdleInstances, s.config.IdleCode)/reapsPerPeriod))
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
	config := &g.sandbox.config
	for _, in := range g.pool.takeIdle(now.Add(-config.IdleInstances)) {
		in.close(ctx)
	}
	if g.source != nil && g.code.Unload(ctx, now.Add(-config.IdleCode)) {
		g.logger.Debug("plugin is idle, its native code was freed until the next call")
	}
}

// dropLongestIdle closes the instance of all guests that has been idle longest,
// and reports whether there was one.
func (s *Sandbox) dropLongestIdle() bool {
	for {
		p := s.longestIdle()
		if p == nil {
			return false
		}
		// A call may have taken the instance since, in which case another one is
		// idle longest.
		if in := p.takeLeastRecent(); in != nil {
			in.close(context.Background())
			return true
		}
	}
}

// longestIdle returns the pool with the instance that has been idle longest, or
// nil if no instance is idle.
func (s *Sandbox) longestIdle() (found *pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var since time.Time
	for g := range s.guests {
		if at, ok := g.pool.idleSince(); ok && (found == nil || at.Before(since)) {
			found, since = g.pool, at
		}
	}
	return found
}
