package memory

import (
	"math/bits"
	"slices"
	"sync"
)

const (
	// leastSpace is how much is reserved at least: addresses cost nothing, and
	// plugins of different limits can then use each other's.
	leastSpace = 64 << 20
	// mostSpaces is how many unused ones are kept.
	mostSpaces = 16
	// keptResident is how much of each keeps its pages: a new page costs ten
	// times as much as to clear one (see RATIONALE.md).
	keptResident = 256 << 10
)

// spaces are address spaces without an instance, all zero, for the next one
// that needs as much.
type spaces struct {
	mu     sync.Mutex
	free   []*addressSpace // the last one was used last
	closed bool
}

// get answers a space of at least that many bytes, all zero.
func (s *spaces) get(size uint64) (*addressSpace, error) {
	size = max(leastSpace, uint64(1)<<bits.Len64(size-1))
	if a := s.take(size); a != nil {
		return a, nil
	}
	return reserve(size)
}

func (s *spaces) take(size uint64) *addressSpace {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range slices.Backward(s.free) {
		if a.size == size {
			s.free = slices.Delete(s.free, i, i+1)
			return a
		}
	}
	return nil
}

// put takes a space back that nobody uses any more.
func (s *spaces) put(a *addressSpace) {
	a.zero(0, a.committed, keptResident)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		a.release()
		return
	}
	if len(s.free) == mostSpaces {
		s.free[0].release()
		s.free = slices.Delete(s.free, 0, 1)
	}
	s.free = append(s.free, a)
}

// close gives everything back, also what is put later.
func (s *spaces) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.free {
		a.release()
	}
	s.free, s.closed = nil, true
}
