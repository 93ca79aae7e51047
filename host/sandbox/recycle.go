package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/host/sandbox/deadline"
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

func modeOf(o outline, isolate bool) mode {
	switch {
	case o.StandardGo && !isolate:
		return pooled
	case o.Sticky != "":
		return fresh
	}
	return reset
}

// ready makes an instance out of what the pool gave: in if it is still good,
// else a new one.
func (g *Guest) ready(ctx context.Context, in *instance) (*instance, error) {
	im := g.image.Load()
	if in != nil && in.image != im {
		g.drop(ctx, in) // of a smaller image
		in = nil
	}
	if in == nil {
		return g.create(ctx, im)
	}
	return in, nil
}

func (g *Guest) create(ctx context.Context, im *image) (*instance, error) {
	g.created.Add(1)
	if im == nil {
		in, _, err := g.boot(ctx, g.limits.startPages(g.minimum))
		return in, err
	}
	ctx, cancel := deadline.With(ctx, g.limits.Deadline)
	defer cancel()
	in, err := g.instantiate(ctx, newCall(&g.limits, loadTime, g.seed), uint32(im.memory.Size()/pageBytes))
	if err != nil {
		return nil, fmt.Errorf("make an instance: %w", err)
	}
	if in.linear.Size() != im.memory.Size() {
		in.close(ctx)
		return nil, errors.New("make an instance: its start function grows memory differently each time")
	}
	in.adopt(im)
	return in, nil
}

// spareRoom tells whether an instance can be made without dropping one of
// another guest.
func (g *Guest) spareRoom() bool {
	size := uint64(g.limits.startPages(g.minimum)) * pageBytes
	if im := g.image.Load(); im != nil {
		size = im.memory.Size()
	}
	return g.memory.Spare(size)
}

// recycle readies an instance for the next call; false drops it.
func (g *Guest) recycle(ctx context.Context, in *instance) bool {
	if in.stack.size() > keptStack {
		in.lookUp()
	}
	switch {
	case g.mode == fresh:
		in.close(context.WithoutCancel(ctx))
		return false
	case g.mode == pooled:
	case in.linear.Size() != in.image.memory.Size():
		turnOf(ctx).Release() // it waits for those that grow as well
		g.growth.grew(ctx, g, in)
		g.drop(ctx, in)
		return false
	default:
		in.reset()
		turnOf(ctx).Release()
		in.image.settle()
	}
	in.used = time.Now()
	return true
}

func (g *Guest) drop(ctx context.Context, in *instance) {
	g.dropped.Add(1)
	in.close(context.WithoutCancel(ctx))
}

// setImage makes an image the guest's, and forgets the one before. It is
// counted as memory of the host's.
func (g *Guest) setImage(im *image) error {
	if err := g.memory.Take(im.memory.Bytes()); err != nil {
		return err
	}
	if old := g.image.Swap(im); old != nil {
		g.memory.Give(old.memory.Bytes())
	}
	return nil
}
