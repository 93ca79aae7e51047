package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
)

// This file has what happens to an instance between two calls: by its mode it is
// reset to an image, kept as it is, or closed.

// mode is what happens to an instance between two calls.
type mode int

const (
	// modeReset restores memory and globals to the image.
	modeReset mode = iota
	// modePooled keeps the state for the next call in the same namespace, before
	// another one it restores the image: for modules of the standard Go compiler.
	modePooled
	// modeFresh makes a new instance for every call: for modules with state
	// that cannot be restored.
	modeFresh
)

func (m mode) String() string { return [...]string{"reset", "pooled", "fresh"}[m] }

func modeOf(s moduleSummary) mode {
	switch {
	case s.NotResettable != "":
		return modeFresh
	case s.StandardGo:
		return modePooled
	}
	return modeReset
}

// reason returns why a module has this mode, "" for modeReset.
func (m mode) reason(s moduleSummary) string {
	switch m {
	case modePooled:
		return "it was compiled by standard Go, whose heap takes longer to restore than most reconciles run"
	case modeFresh:
		return s.NotResettable
	case modeReset:
	}
	return ""
}

// image is the state of an instance that is ready for its first call: its memory
// and its mutable globals. For a resettable module (see
// [module.Module.Resettable]) there is no other state. An instance that was
// restored to the image cannot tell that there was a call before, and a new
// instance needs nothing but the image.
type image struct {
	memory  *memory.Image
	globals []uint64
}

// takeImage makes the state of an instance its image.
func (in *instance) takeImage() {
	in.image = &image{memory: in.linear.Image()}
	for _, g := range in.globals {
		in.image.globals = append(in.image.globals, g.Get())
	}
	in.linear.RestoreAndTrim(in.image.memory) // pages that were only read would stay resident
}

// initFrom gives a new instance the state of an image.
func (in *instance) initFrom(im *image) {
	in.image = im
	in.restoreGlobals()
	in.linear.RestoreNew(im.memory)
}

// restore restores the image: all of it, whatever the guest claims to have
// written (abi/RATIONALE.md), also the size of the memory. It reports whether that
// was possible; if not, the instance must be dropped.
func (in *instance) restore() bool {
	in.dirty = false
	in.restoreGlobals()
	in.linear.Restore(in.image.memory)
	if in.linear.Shrunk() {
		in.memory.Grow(1) // by which the engine gets the memory anew; fails at the module's own maximum
	}
	return !in.linear.Shrunk()
}

func (in *instance) restoreGlobals() {
	for i, g := range in.globals {
		g.Set(in.image.globals[i])
	}
}

// serves reports whether a call in that namespace can have the instance as it is.
func (in *instance) serves(namespace string) bool { return !in.dirty || in.served == namespace }

// stateOf returns the namespace whose calls may find what a call has left: that of
// the call, unless the plugin is pooled across namespaces.
func (g *Guest) stateOf(call Call) string {
	if g.limits.PoolNamespaces {
		return ""
	}
	return call.Namespace
}

// instanceFor returns an instance for a call in that namespace: the one that the
// pool gave, without what calls in another namespace have left, or a new one.
func (g *Guest) instanceFor(ctx context.Context, in *instance, namespace string) (*instance, error) {
	if in != nil && !in.serves(namespace) && !in.restore() {
		g.drop(ctx, in)
		in = nil
	}
	if in == nil {
		var err error
		if in, err = g.newInstance(ctx); err != nil {
			return nil, err
		}
	}
	in.served = namespace
	return in, nil
}

// newInstance makes an instance from the image, or from the module if there is
// none.
func (g *Guest) newInstance(ctx context.Context) (*instance, error) {
	g.created.Add(1)
	im := g.image
	if im == nil {
		in, _, err := g.startInstance(ctx, g.limits.startPages(g.minimum))
		return in, err
	}
	ctx, cancel := deadline.With(ctx, g.limits.Deadline)
	defer cancel()
	in, err := g.instantiate(ctx, newCall(&g.limits, loadTime, g.digest), uint32(im.memory.Size()/pageBytes))
	if err != nil {
		return nil, fmt.Errorf("make an instance: %w", err)
	}
	in.initFrom(im)
	return in, nil
}

// drop closes an instance that cannot be used again.
func (g *Guest) drop(ctx context.Context, in *instance) {
	g.dropped.Add(1)
	in.close(context.WithoutCancel(ctx))
}

// reset prepares an instance for the next call, and reports whether it can be
// used for one. If not, it was closed. It releases the call's execution slot as
// soon as that is possible.
func (g *Guest) reset(ctx context.Context, in *instance) bool {
	if in.stack.size() > maxIdleStack || in.linear.HoldStack(in.stack.grown()) != nil {
		in.lookUpReconcile()
	}
	switch {
	case g.mode == modeFresh:
		in.close(context.WithoutCancel(ctx))
		return false
	case g.mode == modePooled:
		in.dirty = true
	case !in.restore():
		g.drop(ctx, in)
		return false
	}
	taskOf(ctx).Release()
	in.used = time.Now()
	return true
}

// setImage makes im the image that new instances start from, for as long as the
// guest exists: its size is the same whatever calls there were before, as a guest can
// see it. Images count as memory of the guest.
func (g *Guest) setImage(im *image) error {
	if err := g.memory.ReserveImage(im.memory.Bytes()); err != nil {
		return err
	}
	g.image = im
	return nil
}
