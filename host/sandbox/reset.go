package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
)

// This file has what happens to an instance between two calls: by its mode it is
// reset to an image, kept as it is, or closed. It also decides how much memory
// new instances start with.

// mode is what happens to an instance between two calls.
type mode int

const (
	// modeReset restores memory and globals to the image.
	modeReset mode = iota
	// modePooled keeps the state: for modules of the standard Go compiler.
	modePooled
	// modeFresh makes a new instance for every call: for modules with state
	// that cannot be restored.
	modeFresh
)

func (m mode) String() string { return [...]string{"reset", "pooled", "fresh"}[m] }

func modeOf(s moduleSummary, isolate bool) mode {
	switch {
	case s.StandardGo && !isolate:
		return modePooled
	case s.NotResettable != "":
		return modeFresh
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
	// sufficed is whether a call that started from the image did not grow its
	// memory.
	sufficed atomic.Bool
}

// noteSufficed notes a call that did not grow its memory. As every call comes
// here, it writes only once.
func (im *image) noteSufficed() {
	if !im.sufficed.Load() {
		im.sufficed.Store(true)
	}
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
// written (abi/RATIONALE.md). The memory must not have grown.
func (in *instance) restore() {
	in.restoreGlobals()
	in.linear.Restore(in.image.memory)
}

func (in *instance) restoreGlobals() {
	for i, g := range in.globals {
		g.Set(in.image.globals[i])
	}
}

// currentInstance returns an instance for a call: the one that the pool gave if
// it has the guest's current image, else a new one.
func (g *Guest) currentInstance(ctx context.Context, in *instance) (*instance, error) {
	im := g.image.Load()
	if in != nil && in.image == im {
		return in, nil
	}
	if in != nil {
		g.drop(ctx, in)
	}
	return g.newInstance(ctx, im)
}

// newInstance makes an instance from an image, or from the module if im is nil.
func (g *Guest) newInstance(ctx context.Context, im *image) (*instance, error) {
	g.created.Add(1)
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
	if in.linear.Size() != im.memory.Size() {
		in.close(ctx)
		return nil, errors.New("make an instance: its start function grows memory differently each time")
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
	if in.stack.size() > maxIdleStack {
		in.lookUpReconcile()
	}
	switch {
	case g.mode == modeFresh:
		in.close(context.WithoutCancel(ctx))
		return false
	case g.mode == modePooled:
	case in.linear.Size() != in.image.memory.Size():
		taskOf(ctx).Release() // because noteGrowth waits for other calls that have grown
		g.growth.noteGrowth(ctx, g, in)
		g.drop(ctx, in)
		return false
	default:
		in.restore()
		taskOf(ctx).Release()
		in.image.noteSufficed()
	}
	in.used = time.Now()
	return true
}

// setImage makes im the image that new instances start from. Images count as
// memory of the guest.
func (g *Guest) setImage(im *image) error {
	if err := g.memory.Reserve(im.memory.Bytes()); err != nil {
		return err
	}
	if old := g.image.Swap(im); old != nil {
		g.memory.Release(old.memory.Bytes())
	}
	return nil
}

// growthsToEnlarge is how many calls must grow their memory until new instances
// start with more.
const growthsToEnlarge = 8

// growth decides how much memory the instances of a guest start with. An
// instance that has grown is dropped, because memory cannot shrink: a plugin
// whose calls keep growing would need a new instance for each. So the image is
// taken again with as much memory as these calls ended with, but at most half of
// the limit. If no call suffices with that, the first image is used for good.
type growth struct {
	mu       sync.Mutex
	first    *image // before the first enlargement; nil until then
	growths  int    // calls that have grown since the guest's image was taken
	largest  uint64 // memory that such a call ended with, in bytes
	disabled bool   // whether the image is not enlarged any more
}

// noteGrowth notes that a call has grown the memory of an instance, and enlarges
// the image after growthsToEnlarge of them. The lock is held meanwhile: the calls
// that wait for it have grown as well.
func (w *growth) noteGrowth(ctx context.Context, g *Guest, in *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.disabled || in.image != g.image.Load() {
		return
	}
	w.growths++
	w.largest = max(w.largest, in.linear.Size())
	if w.growths < growthsToEnlarge {
		return
	}
	if w.first != nil && !in.image.sufficed.Load() {
		w.disabled = true
		w.setImage(g, w.first)
		return
	}
	w.enlarge(ctx, g, in.image)
}

// enlarge replaces the image from, which is the guest's.
func (w *growth) enlarge(ctx context.Context, g *Guest, from *image) {
	w.growths = 0
	size := min(w.largest, g.limits.MemoryBytes/2) / pageBytes * pageBytes
	if size <= from.memory.Size() {
		return
	}
	in, _, err := g.startInstance(context.WithoutCancel(ctx), uint32(size/pageBytes))
	if err != nil {
		w.disabled = true
		g.logger.Warn("cannot start instances with more memory, keeping the previous size", "bytes", size, "error", err)
		return
	}
	defer in.close(context.WithoutCancel(ctx))
	if w.first == nil {
		w.first = from
	}
	in.takeImage()
	if w.setImage(g, in.image) {
		w.largest = 0
	}
}

// setImage reports whether new instances start from the image.
func (w *growth) setImage(g *Guest, im *image) bool {
	if err := g.setImage(im); err != nil {
		w.disabled = true
		g.logger.Warn("cannot change the memory that instances start with, keeping the previous size", "bytes", im.memory.Size(), "error", err)
	}
	return !w.disabled
}
