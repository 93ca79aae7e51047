package sandbox

import (
	"context"
	"sync"
	"time"
)

// pool hands out instances, at most as many as it has slots. An instance is
// in free or with one caller, never both.
type pool struct {
	slots chan struct{}
	full  func() // somebody waits for a slot

	mu      sync.Mutex
	free    []*instance // in the order of used; last in, first out: warm caches, and idle ones stay at the bottom
	closing bool
	busy    int           // callers between enter and leave
	idle    chan struct{} // closed when closing and busy is zero
}

func newPool(size int, full func()) *pool {
	return &pool{slots: make(chan struct{}, size), full: full, idle: make(chan struct{})}
}

// enter waits for a slot and answers a free instance, or nil if one must be
// made. Every successful enter is followed by one leave.
func (p *pool) enter(ctx context.Context) (*instance, error) {
	if err := p.begin(); err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
		return p.take(), nil
	default:
		p.full()
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		p.end()
		return nil, context.Cause(ctx)
	}
	return p.take(), nil
}

// leave gives the slot back, and the instance unless it is nil. A pool that
// is closing does not keep it.
func (p *pool) leave(ctx context.Context, in *instance) {
	if in != nil && !p.put(in) {
		in.close(ctx)
	}
	<-p.slots
	p.end()
}

// begin counts a caller in before it waits, so that drain waits for it too.
func (p *pool) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return ErrClosed
	}
	p.busy++
	return nil
}

func (p *pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.signal()
}

func (p *pool) signal() {
	if p.closing && p.busy == 0 {
		close(p.idle)
	}
}

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

// putSpare keeps an instance that nobody has used, unless there are as many
// as can be called at once.
func (p *pool) putSpare(in *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.free)+len(p.slots) >= cap(p.slots) {
		return false
	}
	if len(p.free) > 0 {
		in.used = p.free[0].used // the oldest is the first
	}
	p.free = append([]*instance{in}, p.free...)
	return true
}

// shut refuses further callers; idle is closed when the last one has left.
// Only the first call answers true.
func (p *pool) shut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.closing = true
	p.signal()
	return true
}

// drain takes all free instances out but keep.
func (p *pool) drain(keep int) []*instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut(len(p.free) - keep)
}

// takeIdle takes the instances out whose last call ended before since.
func (p *pool) takeIdle(since time.Time) []*instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.free) && p.free[n].used.Before(since) {
		n++
	}
	return p.cut(n)
}

// takeOldest takes the instance out that has been free longest, or nil.
func (p *pool) takeOldest() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out := p.cut(1); len(out) == 1 {
		return out[0]
	}
	return nil
}

// cut takes out the n that have been free longest, or all if there are fewer.
// It is called with the lock held. What is left is copied, so that nothing
// refers to those that are gone.
func (p *pool) cut(n int) []*instance {
	n = min(max(n, 0), len(p.free))
	out := p.free[:n:n]
	p.free = append([]*instance(nil), p.free[n:]...)
	return out
}

// idleSince is when the oldest free instance ended its last call.
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
	return len(p.free), len(p.slots), bytes
}
