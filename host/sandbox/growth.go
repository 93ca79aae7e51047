package sandbox

import (
	"context"
	"sync"
)

// growthsToEnlarge is how many calls must grow memory until new instances
// start with more.
const growthsToEnlarge = 8

// growth decides how much memory the instances of a guest start with. An
// instance that grew is dropped, as memory cannot shrink: a plugin whose calls
// keep growing would get a new one for each. So its image is taken again with
// as much memory as these calls ended with, half of the limit at most; if that
// does not help at all, the first image comes back for good.
type growth struct {
	mu      sync.Mutex
	first   *image // before the first enlargement; nil until then
	latest  *image // what the counts are about
	growths int    // calls that grew since latest
	most    uint64 // bytes that a call ended with, since latest
	given   bool   // up
}

// grew notes a call that did, and enlarges the image when it is time. The
// lock is held meanwhile: the calls that wait for it have grown as well.
func (w *growth) grew(ctx context.Context, g *Guest, in *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.given || in.image != g.image.Load() {
		return
	}
	if w.latest == nil {
		w.latest = in.image
	}
	w.growths++
	w.most = max(w.most, in.linear.Size())
	if w.growths < growthsToEnlarge {
		return
	}
	if w.first != nil && !w.latest.calm.Load() {
		w.given = true
		w.use(g, w.first)
		return
	}
	w.enlarge(ctx, g)
}

func (w *growth) enlarge(ctx context.Context, g *Guest) {
	w.growths = 0
	size := min(w.most, g.limits.MemoryBytes/2) / pageBytes * pageBytes
	if size <= w.latest.memory.Size() {
		return
	}
	in, _, err := g.boot(context.WithoutCancel(ctx), uint32(size/pageBytes))
	if err != nil {
		w.given = true
		g.logger.Warn("cannot start instances with more memory, going on with less", "bytes", size, "error", err)
		return
	}
	defer in.close(context.WithoutCancel(ctx))
	if w.first == nil {
		w.first = w.latest
	}
	in.takeImage()
	if w.use(g, in.image) {
		w.latest, w.most = in.image, 0
	}
}

// use makes new instances start from an image.
func (w *growth) use(g *Guest, im *image) bool {
	if err := g.setImage(im); err != nil {
		w.given = true
		g.logger.Warn("cannot change how much memory instances start with", "bytes", im.memory.Size(), "error", err)
	}
	return !w.given
}

// startPages is how many pages an instance of a module starts with that
// declares minimum. Allocators such as TinyGo's double their memory when they
// grow: only from limit/2^k can they reach the limit instead of failing
// between its half and it.
func (l Limits) startPages(minimum uint32) uint32 {
	if minimum == 0 {
		return 0
	}
	pages := uint32(l.MemoryBytes / pageBytes)
	for pages/2 >= minimum && pages%2 == 0 {
		pages /= 2
	}
	if pages >= 2*minimum {
		return minimum
	}
	return pages
}
