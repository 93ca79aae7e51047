package native

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Code is a module with several owners, each of which has many users of it.
// While there are no users the module can be unloaded, if it is on disk; the
// next user reloads it, and users that come meanwhile wait. It is safe for
// concurrent use.
type Code struct {
	reload func(unloaded Module) (Module, error)

	mu        sync.Mutex
	owners    int // that have not closed it
	module    Module
	users     int      // instances that run it or are being made of it
	reloading *loading // nil unless it is being reloaded
	reloads   uint64
	used      time.Time // when the last user left, or when it was reloaded
}

// NewCode returns code with one owner. reload loads a module that is unloaded:
// it returns that module from [Store.Reload], or another one, in which case it
// closes the unloaded one. It is called again after an error.
func NewCode(m Module, reload func(unloaded Module) (Module, error)) *Code {
	return &Code{reload: reload, owners: 1, module: m}
}

// loading is one attempt to reload code. err is set before done is closed.
type loading struct {
	done chan struct{}
	err  error
}

// Acquire returns the module, which stays loaded until [Code.Release]. It blocks
// while the module is being reloaded.
func (c *Code) Acquire(ctx context.Context) (Module, error) {
	for {
		m, l := c.acquireOrReload()
		if l == nil {
			return m, nil
		}
		select {
		case <-l.done:
			if l.err != nil {
				return Module{}, fmt.Errorf("reload its code: %w", l.err)
			}
		case <-ctx.Done():
			return Module{}, fmt.Errorf("wait for its code: %w", context.Cause(ctx))
		}
	}
}

// acquireOrReload adds a user if the code is loaded. Otherwise it returns the
// attempt to reload it, which it starts if there is none.
func (c *Code) acquireOrReload() (Module, *loading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.module.compiled != nil {
		c.users++
		return c.module, nil
	}
	if c.reloading == nil {
		c.reloading = &loading{done: make(chan struct{})}
		go c.runReload(c.reloading, c.module)
	}
	return Module{}, c.reloading
}

// runReload runs independently of the users that wait for it, because any of
// them may stop waiting.
func (c *Code) runReload(l *loading, unloaded Module) {
	m, err := c.reload(unloaded)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.module = m
		c.reloads++
		c.used = time.Now() // so that it is not unloaded again before a user has it
	}
	l.err = err
	c.reloading = nil
	close(l.done)
}

// Release ends a use.
func (c *Code) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.used = time.Now()
}

// Unload frees the code if it is on disk and has not been used since, and
// reports whether it did.
func (c *Code) Unload(ctx context.Context, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.module.entry == nil || c.module.compiled == nil || c.users > 0 || !c.used.Before(since) {
		return false
	}
	_ = c.module.compiled.Close(ctx)
	c.module.compiled = nil
	return true
}

// AddOwner adds an owner, and reports whether it did: it is too late if all
// others have closed the code.
func (c *Code) AddOwner() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners == 0 {
		return false
	}
	c.owners++
	return true
}

// Close removes an owner, which must not use the code any more. The last one
// frees it.
func (c *Code) Close(ctx context.Context) {
	c.mu.Lock()
	c.owners--
	l, last := c.reloading, c.owners == 0
	c.mu.Unlock()
	if !last {
		return
	}
	if l != nil {
		<-l.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.module.Close(ctx)
	c.module = Module{}
}

// Stats returns whether the code is in memory, and how often it was reloaded.
func (c *Code) Stats() (loaded bool, reloads uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.module.compiled != nil, c.reloads
}
