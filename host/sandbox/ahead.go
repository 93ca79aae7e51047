package sandbox

import (
	"context"
	"sync/atomic"
	"time"
)

// ahead makes instances outside of the calls' way, in place of those that
// were dropped. A guest earns one by a call that ended well, so that one that
// traps each time does not keep the host busy between its calls too.
type ahead struct {
	earned atomic.Bool
	making atomic.Bool // one at a time
}

// replace is for the end of a call that left no instance behind.
func (g *Guest) replace() {
	if !g.ahead.earned.CompareAndSwap(true, false) || !g.ahead.making.CompareAndSwap(false, true) {
		return
	}
	if g.pool.begin() != nil {
		return
	}
	go func() {
		defer g.pool.end()
		defer g.ahead.making.Store(false)
		g.spare(context.Background())
	}()
}

func (g *Guest) spare(ctx context.Context) {
	if !g.spareRoom() {
		return
	}
	in, err := g.another(ctx)
	if err != nil {
		g.logger.Debug("cannot make an instance ahead, the next call tries again", "error", err)
		return
	}
	in.used = time.Now()
	if !g.pool.putSpare(in) {
		in.close(ctx)
	}
}

// another makes an instance in an execution slot of its own.
func (g *Guest) another(ctx context.Context) (*instance, error) {
	ctx, turn, err := g.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	return g.create(ctx, g.image.Load())
}
