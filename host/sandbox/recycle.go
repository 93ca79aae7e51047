package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// mode is what happens to an instance between two calls.
type mode int

const (
	// reset restores memory and globals to the image.
	reset mode = iota
	// pooled keeps the state: modules of the standard Go compiler.
	pooled
	// fresh makes a new instance for every call: modules with state that a
	// restore does not reach.
	fresh
)

func (m mode) String() string { return [...]string{"reset", "pooled", "fresh"}[m] }

// goSection is in every module that the standard Go linker writes, also with
// -ldflags="-s -w", and in no module of TinyGo. A module that forges it only
// gives up its own reset.
const goSection = "go:buildid"

func modeOf(m *module.Module, isolate bool) mode {
	_, resettable := m.Resettable()
	switch {
	case m.HasCustom(goSection) && !isolate:
		return pooled
	case !resettable:
		return fresh
	}
	return reset
}

const (
	// checkEvery is how often a restore below arena_top is compared with the
	// whole image; the first one is, too.
	checkEvery = 64
)

// ready makes an instance out of what the pool gave: in if it is still good,
// else a new one.
func (g *Guest) ready(ctx context.Context, in *instance) (*instance, error) {
	im := g.image.Load()
	if in != nil && (in.image != im || in.module.IsClosed()) {
		g.drop(ctx, in) // of a smaller image
		in = nil
	}
	if in == nil {
		return g.create(ctx, im)
	}
	if in.partial && g.distrust.Load() {
		im.restore(in, im.size)
		in.partial = false
	}
	return in, nil
}

func (g *Guest) create(ctx context.Context, im *image) (*instance, error) {
	g.created.Add(1)
	if im == nil {
		in, _, err := g.boot(ctx, startPages(g.minimum, g.limitPages()))
		return in, err
	}
	ctx, cancel := withDeadline(ctx, g.limits.Deadline)
	defer cancel()
	in, err := g.instantiate(ctx, newCall(&g.limits, loadTime, g.seed), im.size/pageBytes)
	if err != nil {
		return nil, fmt.Errorf("make an instance: %w", err)
	}
	if in.memory.Size() != im.size {
		in.close(ctx)
		return nil, errors.New("make an instance: its start function grows memory differently each time")
	}
	im.adopt(in)
	return in, nil
}

func (g *Guest) limitPages() uint32 { return uint32(g.limits.MemoryBytes / pageBytes) }

// recycle readies an instance for the next call; false drops it.
func (g *Guest) recycle(ctx context.Context, in *instance) bool {
	in.linear.refused = false
	switch {
	case g.mode == fresh:
		in.close(context.WithoutCancel(ctx))
		return false
	case g.mode == pooled:
		return true
	case in.memory.Size() != in.image.size:
		g.growth.grew(ctx, g, in)
		g.drop(ctx, in)
		return false
	case !g.restore(context.WithoutCancel(ctx), in):
		g.drop(ctx, in)
		return false
	}
	g.growth.settled(in.image)
	return true
}

func (g *Guest) drop(ctx context.Context, in *instance) {
	g.dropped.Add(1)
	in.close(context.WithoutCancel(ctx))
}

// restore puts the image back, up to where the guest says that it wrote. It
// answers false if the instance did not survive being asked.
func (g *Guest) restore(ctx context.Context, in *instance) bool {
	im := in.image
	top, err := g.arenaTop(ctx, in)
	if err != nil {
		g.stopTrusting(err.Error())
		return false
	}
	im.restore(in, top)
	in.partial = top < im.size
	if g.resets.Add(1)%checkEvery == 1 {
		in.lookUp() // gives back the stacks that deep calls have grown
		g.check(in, top)
	}
	return true
}

// check compares what was not restored with the image.
func (g *Guest) check(in *instance, top uint32) {
	if in.image.equalFrom(in, top) {
		return
	}
	g.stopTrusting("memory above it had changed")
	in.image.restore(in, in.image.size)
	in.partial = false
}

// arenaTop is the end of what must be restored: what the guest says as long
// as it is believed, else all.
func (g *Guest) arenaTop(ctx context.Context, in *instance) (uint32, error) {
	all := in.image.size
	if in.function.arenaTop == nil || g.distrust.Load() {
		return all, nil
	}
	ctx, cancel := withDeadline(ctx, g.limits.Deadline)
	defer cancel()
	top, err := in.enter(ctx, newCall(&g.limits, loadTime, g.seed), in.function.arenaTop)
	if err != nil {
		return 0, err
	}
	if uint32(top) > all {
		g.stopTrusting(fmt.Sprintf("%d is beyond the memory", uint32(top)))
		return all, nil
	}
	return uint32(top), nil
}

func (g *Guest) stopTrusting(why string) {
	if g.distrust.CompareAndSwap(false, true) {
		g.logger.Warn(abi.ExportArenaTop+" is not to be believed, restoring all memory after each call from now on: fix the guest's allocator", "digest", g.digest, "reason", why)
	}
}
