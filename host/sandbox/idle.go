package sandbox

import (
	"context"
	"time"
)

// This file scales idle plugins to zero, in two steps: first their instances
// go, which the image brings back, later their native code, which the cache
// brings back. What stays is the image, the manifest and an open file.

// How long it takes by default.
const (
	defaultIdleInstances = time.Minute
	defaultIdleCode      = 5 * time.Minute
	// sweepsPerPeriod is how often idle plugins are looked for in the time
	// after which something is given up: so much later it may be.
	sweepsPerPeriod = 4
)

// janitor gives up what is idle until the sandbox is closed.
func (s *Sandbox) janitor() {
	defer close(s.swept)
	tick := time.NewTicker(max(1, min(s.config.IdleInstances, s.config.IdleCode)/sweepsPerPeriod))
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case now := <-tick.C:
			s.sweep(now)
		}
	}
}

func (s *Sandbox) sweep(now time.Time) {
	for _, g := range s.loaded() {
		g.sweep(context.Background(), now)
	}
}

func (g *Guest) sweep(ctx context.Context, now time.Time) {
	config := &g.sandbox.config
	for _, in := range g.pool.takeIdle(now.Add(-config.IdleInstances)) {
		in.close(ctx)
	}
	if g.source != nil && g.code.Sleep(ctx, now.Add(-config.IdleCode)) {
		g.logger.Debug("idle: its code was given up until it is called again")
	}
}
