package cache

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/thole-dev/thole/host/cache/objects"
)

const (
	// sweepEvery is how often the objects of a kind are looked at. One that was not read
	// in the time of four sweeps, 45 to 60 s, is packed.
	sweepEvery = 15 * time.Second
	// sweepPause is between two slices of a sweep, of about a millisecond each.
	sweepPause = 3 * time.Millisecond
	// returnAfter is how many bytes a sweep frees at least for the memory to be returned
	// to the operating system at once. Go itself would collect it within two minutes, and
	// return it some minutes later.
	returnAfter = 32 << 20
)

// packUnread packs the objects that nobody has read for a while, until ctx is done.
func (s *store) packUnread(ctx context.Context) {
	for elapse(ctx, sweepEvery) {
		s.sweep(ctx)
	}
}

func (s *store) sweep(ctx context.Context) {
	s.mu.Lock()
	w := s.objects.BeginSweep()
	s.mu.Unlock()
	if w == nil {
		return
	}
	for s.nextSlice(w) {
		if !elapse(ctx, sweepPause) {
			return
		}
	}
	w.Judge()
	s.endSweep(w)
	if w.Freed() >= returnAfter {
		debug.FreeOSMemory()
	}
}

func (s *store) endSweep(w *objects.Sweep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects.EndSweep(w)
}

// nextSlice sweeps a part of a snapshot, without a lock.
func (s *store) nextSlice(w *objects.Sweep) (more bool) {
	n := s.open()
	defer s.close(n)
	return w.Next(n.Snapshot)
}

// elapse waits, and reports whether ctx is not done.
func elapse(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
