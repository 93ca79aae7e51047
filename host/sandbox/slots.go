package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/thole-dev/thole/host/sandbox/schedule"
)

// This file is where guest code meets the scheduler: whoever enters it holds
// an execution slot, from before the first instruction until the instance is
// restored. Waiting for the slot counts against no deadline.

type turnKey struct{}

// turnOf is the turn that ctx's call has; nil if it has none.
func turnOf(ctx context.Context) *schedule.Turn {
	turn, _ := ctx.Value(turnKey{}).(*schedule.Turn)
	return turn
}

// takeTurn waits for a slot. What is entered with the context that it answers
// runs in it, and the caller releases the turn. If ctx has a turn already that
// one stays, and the answer is nil, which needs no release.
func (g *Guest) takeTurn(ctx context.Context) (context.Context, *schedule.Turn, error) {
	if turn := turnOf(ctx); turn != nil && !turn.Ended() {
		return ctx, nil, nil
	}
	turn, err := g.line.Acquire(ctx)
	if err != nil {
		return ctx, nil, fmt.Errorf("wait for a slot: %w", err)
	}
	return context.WithValue(ctx, turnKey{}, turn), turn, nil
}

// use is [code.use] for a call that has a slot: bringing the code back takes
// as long as it takes.
func (b *blueprint) use(ctx context.Context, c *call) (native, error) {
	c.turn.Leave()
	n, err := b.code.use(ctx)
	if lost := unhurried(ctx, c.turn.Return); lost != nil && err == nil {
		b.code.release()
		return native{}, lost
	}
	return n, err
}

// yield is for each of the call's ticks: it lets others run if it is their
// turn, and says for how long.
func (c *call) yield(ctx context.Context) (waited time.Duration, err error) {
	return c.turn.Yield(ctx)
}

// SlotStats are the numbers of the slots now.
type SlotStats = schedule.Stats

// Slots reads the numbers of the execution slots.
func (s *Sandbox) Slots() SlotStats { return s.slots.Stats() }

type noMetrics struct{}

func (noMetrics) Waited(time.Duration) {}
func (noMetrics) HandedOver()          {}
func (noMetrics) Limited(string)       {}
