package sandbox

import (
	"errors"
	"fmt"
	"sync"
)

// ErrHostMemory is for what needed more memory than the host has for all
// plugins together ([Config.MemoryBytes]), or than the system gives it. It
// passes when other calls end.
var ErrHostMemory = errors.New("the host's memory for plugins is used up")

// hostMemory is what the guests of a sandbox share: an amount of memory, and
// the address space that they have it in. What counts is what guests were
// given, whether they have written to it or not, and their images: so much
// the process may come to need without being asked again.
//
// A guest that has more than an even share leaves an eighth of it all to the
// others: who takes all there is must not keep them from running.
type hostMemory struct {
	limit    uint64
	dropIdle func() bool // closes one idle instance; false if there is none
	spaces   spaces

	mu      sync.Mutex
	shares  uint64 // guests
	used    uint64 // at most limit
	refused uint64 // requests
}

// share is what one guest has of a host's memory.
type share struct {
	host *hostMemory
	used uint64 // guarded by host.mu
}

// open counts a guest in.
func (h *hostMemory) open() *share {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shares++
	return &share{host: h}
}

// close counts the guest out. It has given everything back.
func (s *share) close() {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.host.shares--
}

// take counts bytes in. Idle instances are dropped for them if need be.
func (s *share) take(n uint64) error {
	for !s.fits(n) {
		if !s.host.dropIdle() {
			return s.refuse(n)
		}
	}
	return nil
}

func (s *share) fits(n uint64) bool {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if !s.room(n) {
		return false
	}
	s.host.used += n
	s.used += n
	return true
}

// spare tells whether there is room for that much without dropping anything.
func (s *share) spare(n uint64) bool {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	return s.room(n)
}

// room is called with the lock held.
func (s *share) room(n uint64) bool {
	left := uint64(0)
	if s.greedy(n) {
		left = s.host.limit / 8
	}
	return n+left <= s.host.limit-s.host.used
}

// greedy tells whether that many bytes more are more than an even share.
func (s *share) greedy(n uint64) bool { return s.used+n > s.host.limit/s.host.shares }

func (s *share) give(n uint64) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.host.used -= n
	s.used -= n
}

func (s *share) refuse(n uint64) error {
	h := s.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused++
	return &shortage{
		greedy: s.greedy(n),
		text: fmt.Sprintf("%s of %s are in use, %s of them by this plugin, and %s more are needed: raise guestMemoryMiB in the host's configuration, or run less at once",
			mib(h.used), mib(h.limit), mib(s.used), mib(n)),
	}
}

// shortage is an [ErrHostMemory].
type shortage struct {
	greedy bool // the guest wanted more than an even share
	text   string
}

func (s *shortage) Error() string { return ErrHostMemory.Error() + ": " + s.text }
func (s *shortage) Unwrap() error { return ErrHostMemory }

// MemoryStats are the numbers of the memory that guests share.
type MemoryStats struct {
	LimitBytes uint64 // [Config.MemoryBytes], its default filled in
	UsedBytes  uint64 // memory of all instances, and images
	Refused    uint64 // growths and new instances, since the start
}

// Memory reads the numbers.
func (s *Sandbox) Memory() MemoryStats {
	h := &s.memory
	h.mu.Lock()
	defer h.mu.Unlock()
	return MemoryStats{LimitBytes: h.limit, UsedBytes: h.used, Refused: h.refused}
}

// mib is a number of bytes for people.
func mib(n uint64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
