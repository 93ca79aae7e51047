package cache

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// pingTimeout is less than the second that a kubelet grants a probe.
	pingTimeout = 900 * time.Millisecond
	// reachableFor is how long an answer counts, unreachableFor how long its
	// absence.
	reachableFor   = 5 * time.Second
	unreachableFor = time.Second
)

// ping remembers whether the API server answered.
type ping struct {
	client rest.Interface

	mu   sync.Mutex
	last time.Time
	err  error
}

// Reachable returns nil if the API server has answered within the last seconds. It
// may block for 0.9 s.
func (c *Cache) Reachable() error {
	p := &c.ping
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := reachableFor
	if p.err != nil {
		counts = unreachableFor
	}
	if time.Since(p.last) < counts {
		return p.err
	}
	ctx, cancel := context.WithTimeout(c.ctx, pingTimeout)
	defer cancel()
	_, p.err = p.client.Get().AbsPath("/version").DoRaw(ctx)
	p.last = time.Now()
	return p.err
}
