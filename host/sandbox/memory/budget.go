package memory

import (
	"errors"
	"fmt"
	"sync"
)

// ErrExhausted is for what needed more memory than there is for all guests
// together, or than the system gives. It passes when other calls end.
var ErrExhausted = errors.New("the host's memory for plugins is used up")

// Budget is what the guests of a host share: an amount of memory, and the
// address space that they have it in. What counts is what guests were given,
// whether they have written to it or not, and their images: so much the
// process may come to need without being asked again. It is safe for
// concurrent use.
//
// A guest that has more than an even share leaves an eighth of it all to the
// others: who takes all there is must not keep them from running.
type Budget struct {
	limit    uint64
	dropIdle func() bool
	spaces   spaces

	mu      sync.Mutex
	shares  uint64 // guests
	used    uint64 // at most limit
	refused uint64 // requests
}

// NewBudget is a budget of that many bytes. dropIdle is called, without a
// lock, when there is no room: it gives back what one idle instance has, and
// says whether there was one.
func NewBudget(limit uint64, dropIdle func() bool) *Budget {
	return &Budget{limit: limit, dropIdle: dropIdle}
}

// Close unmaps the address space that nobody uses, now and whenever some is
// given back.
func (b *Budget) Close() { b.spaces.close() }

// Stats are the numbers of the memory that guests share.
type Stats struct {
	LimitBytes uint64 // of the budget
	UsedBytes  uint64 // memory of all instances, and images
	Refused    uint64 // growths and new instances, since the start
	Shares     int    // guests
}

// Stats reads the numbers.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{LimitBytes: b.limit, UsedBytes: b.used, Refused: b.refused, Shares: int(b.shares)}
}

// Share is what one guest has of a budget.
type Share struct {
	budget *Budget
	used   uint64 // guarded by budget.mu
}

// Share counts a guest in.
func (b *Budget) Share() *Share {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares++
	return &Share{budget: b}
}

// Close counts the guest out. It has given everything back.
func (s *Share) Close() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.shares--
}

// Take counts bytes in. Idle instances are dropped for them if need be. The
// error is an [ErrExhausted].
func (s *Share) Take(n uint64) error {
	for !s.fits(n) {
		if !s.budget.dropIdle() {
			return s.refuse(n)
		}
	}
	return nil
}

func (s *Share) fits(n uint64) bool {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if !s.room(n) {
		return false
	}
	s.budget.used += n
	s.used += n
	return true
}

// Spare tells whether there is room for that much without dropping anything.
func (s *Share) Spare(n uint64) bool {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.room(n)
}

// room is called with the lock held.
func (s *Share) room(n uint64) bool {
	left := uint64(0)
	if s.greedy(n) {
		left = s.budget.limit / 8
	}
	return n+left <= s.budget.limit-s.budget.used
}

// greedy tells whether that many bytes more are more than an even share.
func (s *Share) greedy(n uint64) bool { return s.used+n > s.budget.limit/s.budget.shares }

// Give counts bytes out that [Share.Take] counted in.
func (s *Share) Give(n uint64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.used -= n
	s.used -= n
}

func (s *Share) refuse(n uint64) error {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused++
	return &shortage{
		greedy: s.greedy(n),
		text: fmt.Sprintf("%s of %s are in use, %s of them by this plugin, and %s more are needed: raise guestMemoryMiB in the host's configuration, or run less at once",
			mib(b.used), mib(b.limit), mib(s.used), mib(n)),
	}
}

// shortage is an [ErrExhausted].
type shortage struct {
	greedy bool
	text   string
}

func (s *shortage) Error() string { return ErrExhausted.Error() + ": " + s.text }
func (s *shortage) Unwrap() error { return ErrExhausted }

// Greedy tells whether an error is of a guest that wanted more than an even
// share.
func Greedy(err error) bool {
	s, ok := errors.AsType[*shortage](err)
	return ok && s.greedy
}

// mib is a number of bytes for people.
func mib(n uint64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
