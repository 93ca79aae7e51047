package sandbox

import (
	"context"
	"sync"
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
	n := max(0, len(p.free)-keep)
	out := append([]*instance(nil), p.free[:n]...)
	p.free = append([]*instance(nil), p.free[n:]...)
	return out
}

func (p *pool) counts() (idle, busy int, bytes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.free {
		bytes += uint64(in.memory.Size())
	}
	return len(p.free), len(p.slots), bytes
}
