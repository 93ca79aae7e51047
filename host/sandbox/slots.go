package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/native"
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

// use is [native.Code.Use] for a call that has a slot: bringing the code back takes
// as long as it takes.
func (b *blueprint) use(ctx context.Context, c *call) (native.Module, error) {
	c.turn.Leave()
	n, err := b.code.Use(ctx)
	if lost := deadline.Unhurried(ctx, c.turn.Return); lost != nil && err == nil {
		b.code.Release()
		return native.Module{}, lost
	}
	return n, err
}

// SlotStats are the numbers of the slots now.
type SlotStats = schedule.Stats

// Slots reads the numbers of the execution slots.
func (s *Sandbox) Slots() SlotStats { return s.slots.Stats() }

type noMetrics struct{}

func (noMetrics) Waited(time.Duration) {}
func (noMetrics) HandedOver()          {}
func (noMetrics) Limited(string)       {}
