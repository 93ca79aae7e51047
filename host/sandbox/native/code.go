package native

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Code is a module that several own, each of whom has many users of it. While
// there are none it can be put to sleep, if it is on disk; the next user wakes
// it. Users that come meanwhile wait. It is safe for concurrent use.
type Code struct {
	reopen func(asleep Module) (Module, error)

	mu     sync.Mutex
	owners int // that have not closed it
	module Module
	users  int     // instances that run it or are being made of it
	waking *waking // nil unless it is being brought back
	wakes  uint64
	used   time.Time // when the last user left, or when it was brought back
}

// NewCode is code with one owner. reopen brings back a module that sleeps: it
// answers it from [Store.Reopen], or another one, and closes this one then.
// After an error it is called again.
func NewCode(m Module, reopen func(asleep Module) (Module, error)) *Code {
	return &Code{reopen: reopen, owners: 1, module: m}
}

// waking is one attempt to bring code back. err is set before done is closed.
type waking struct {
	done chan struct{}
	err  error
}

// Use answers the module, awake: it stays so until [Code.Release].
func (c *Code) Use(ctx context.Context) (Module, error) {
	for {
		n, w := c.awake()
		if w == nil {
			return n, nil
		}
		select {
		case <-w.done:
			if w.err != nil {
				return Module{}, fmt.Errorf("bring back its code: %w", w.err)
			}
		case <-ctx.Done():
			return Module{}, fmt.Errorf("wait for its code: %w", context.Cause(ctx))
		}
	}
}

// awake counts a user in if the code is there; else it begins to wake it.
func (c *Code) awake() (Module, *waking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.module.compiled != nil {
		c.users++
		return c.module, nil
	}
	if c.waking == nil {
		c.waking = &waking{done: make(chan struct{})}
		go c.wake(c.waking, c.module)
	}
	return Module{}, c.waking
}

// wake is not tied to one of those who wait for it.
func (c *Code) wake(w *waking, asleep Module) {
	n, err := c.reopen(asleep)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.module = n
		c.wakes++
		c.used = time.Now() // else a sweep might be faster than who waits for it
	}
	w.err = err
	c.waking = nil
	close(w.done)
}

// Release ends a use.
func (c *Code) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.used = time.Now()
}

// Sleep frees the code if it has not been used since, and says whether it did.
func (c *Code) Sleep(ctx context.Context, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.module.entry == nil || c.module.compiled == nil || c.users > 0 || !c.used.Before(since) {
		return false
	}
	_ = c.module.compiled.Close(ctx)
	c.module.compiled = nil
	return true
}

// Share counts another owner in, unless the code was freed.
func (c *Code) Share() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners == 0 {
		return false
	}
	c.owners++
	return true
}

// Close counts an owner out, who does not use the code any more. The last one
// frees it.
func (c *Code) Close(ctx context.Context) {
	c.mu.Lock()
	c.owners--
	w, last := c.waking, c.owners == 0
	c.mu.Unlock()
	if !last {
		return
	}
	if w != nil {
		<-w.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.module.Close(ctx)
	c.module = Module{}
}

// Stats tell whether the code is in memory, and how often it was brought back.
func (c *Code) Stats() (compiled bool, wakes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.module.compiled != nil, c.wakes
}
