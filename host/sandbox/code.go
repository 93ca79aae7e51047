package sandbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
)

// native is the native code of a module.
type native struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	entry    *entry // on disk; nil: in memory only
}

func (n native) close(ctx context.Context) {
	if n.compiled != nil {
		_ = n.compiled.Close(ctx)
	}
	if n.entry != nil {
		n.entry.close()
	}
}

// code is the native code of a guest, and of those that were made of it by
// [Sandbox.Relimit]. While nobody uses it it can be put to sleep, if it is on
// disk; the next user wakes it. Users that come meanwhile wait.
type code struct {
	// reopen brings back what sleeps. It takes the entry over, and closes it
	// if it answers another one; after an error it is called again.
	reopen func(asleep native) (native, error)

	mu     sync.Mutex
	guests int     // that have not been closed
	native         // compiled is nil while it sleeps
	users  int     // instances that run it or are being made of it
	waking *waking // nil unless it is being brought back
	wakes  uint64
	used   time.Time // when the last user left, or when it was brought back
}

// waking is one attempt to bring code back. err is set before done is closed.
type waking struct {
	done chan struct{}
	err  error
}

// use answers the code. It stays awake until [code.release].
func (c *code) use(ctx context.Context) (native, error) {
	for {
		n, w := c.awake()
		if w == nil {
			return n, nil
		}
		select {
		case <-w.done:
			if w.err != nil {
				return native{}, fmt.Errorf("bring back its code: %w", w.err)
			}
		case <-ctx.Done():
			return native{}, fmt.Errorf("wait for its code: %w", context.Cause(ctx))
		}
	}
}

// awake counts a user in if the code is there; else it begins to wake it.
func (c *code) awake() (native, *waking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compiled != nil {
		c.users++
		return c.native, nil
	}
	if c.waking == nil {
		c.waking = &waking{done: make(chan struct{})}
		go c.wake(c.waking, c.native)
	}
	return native{}, c.waking
}

// wake is not tied to one of those who wait for it.
func (c *code) wake(w *waking, asleep native) {
	n, err := c.reopen(asleep)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.native = n
		c.wakes++
		c.used = time.Now() // else a sweep might be faster than who waits for it
	}
	w.err = err
	c.waking = nil
	close(w.done)
}

func (c *code) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.used = time.Now()
}

// sleep frees the code if it has not been used since, and says whether it did.
func (c *code) sleep(ctx context.Context, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entry == nil || c.compiled == nil || c.users > 0 || !c.used.Before(since) {
		return false
	}
	_ = c.compiled.Close(ctx)
	c.compiled = nil
	return true
}

// share counts another guest in, unless the code was freed.
func (c *code) share() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guests == 0 {
		return false
	}
	c.guests++
	return true
}

// close counts a guest out that does not use the code, and will not. The last
// one frees it.
func (c *code) close(ctx context.Context) {
	c.mu.Lock()
	c.guests--
	w, last := c.waking, c.guests == 0
	c.mu.Unlock()
	if !last {
		return
	}
	if w != nil {
		<-w.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.native.close(ctx)
	c.native = native{}
}

func (c *code) stats() (compiled bool, wakes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compiled != nil, c.wakes
}
