package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"sync"
)

// ErrExhausted is the error for memory beyond the budget of all guests, or
// beyond what the system gives. It passes when other calls end.
var ErrExhausted = errors.New("the host's memory for plugins is used up")

// Budget is the memory that the guests of a host have together, and the address
// space in which they have it. It counts what guests were given, whether they
// have written to it or not, and their images: this much the process may come
// to need without a further request. It is safe for concurrent use.
//
// A guest always gets an even share of what the images leave. It may have more
// than that while nobody else needs it, must leave an eighth of the budget to the
// others, and gives back what others need for their shares (reclaim.go).
type Budget struct {
	limit    uint64
	dropIdle func(sharing bool) bool
	spaces   spaces

	mu         sync.Mutex
	accounts   map[*Account]struct{} // open ones
	used       uint64                // bytes, at most limit
	images     uint64                // bytes of used
	refused    uint64                // requests
	owed       uint64                // bytes that guests within their shares wait for
	reclaiming uint64                // bytes of calls that are being ended for them
	released   chan struct{}         // closed when memory is released; nil if nobody waits
}

// NewBudget returns a budget of that many bytes. dropIdle is called, without a
// lock held, when a request does not fit: it releases the memory of one idle
// instance and reports whether there was one. sharing is whether the request is
// within an even share. For one that is not, an instance should stay that was used
// a moment ago, unless its own guest has more than an even share.
func NewBudget(limit uint64, dropIdle func(sharing bool) bool) *Budget {
	return &Budget{limit: limit, dropIdle: dropIdle, accounts: map[*Account]struct{}{}}
}

// Close unmaps the address space that is not in use, now and whenever more of
// it is released.
func (b *Budget) Close() { b.spaces.close() }

// Stats describes the memory of all guests at one time.
type Stats struct {
	LimitBytes uint64 // the budget
	UsedBytes  uint64 // memory of all instances, and images
	Refused    uint64 // growths and new instances since the start
	Accounts   int    // guests
}

// Stats returns the state of the budget.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{LimitBytes: b.limit, UsedBytes: b.used, Refused: b.refused, Accounts: len(b.accounts)}
}

// Account is what one guest uses of a budget.
type Account struct {
	budget *Budget

	// Guarded by budget.mu.
	used    uint64               // bytes
	image   uint64               // bytes of used
	linears map[*Linear]struct{} // those that are not freed
}

// Account opens the account of a guest.
func (b *Budget) Account() *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &Account{budget: b, linears: map[*Linear]struct{}{}}
	b.accounts[a] = struct{}{}
	return a
}

// Close closes the account. Everything must have been released.
func (a *Account) Close() {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	delete(a.budget.accounts, a)
}

// ReserveImage adds the bytes of an image to the account. The images of all guests
// have at most half of the budget. The error is an [ErrExhausted].
func (a *Account) ReserveImage(n uint64) error {
	for !a.tryReserveImage(n) {
		if !a.budget.dropIdle(true) {
			return a.refuse(n)
		}
	}
	return nil
}

func (a *Account) tryReserveImage(n uint64) bool {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.limit-b.used || b.images+n > b.limit/2 {
		return false
	}
	b.images += n
	b.used += n
	a.image += n
	a.used += n
	return true
}

// ReleaseImage removes what [Account.ReserveImage] has added.
func (a *Account) ReleaseImage() {
	a.budget.mu.Lock()
	n := a.image
	a.image = 0
	a.budget.images -= n
	a.budget.mu.Unlock()
	a.Release(n)
}

// Reserve adds bytes to the account. If need be idle instances are dropped for
// them, and if they are within an even share calls of guests are ended that have
// more; without a caller it does not wait for that. The error is an [ErrExhausted].
func (a *Account) Reserve(n uint64, c Caller) error {
	for n > 0 && !a.tryReserve(n) {
		if !a.budget.dropIdle(a.shares(n)) {
			return a.reclaim(n, c)
		}
	}
	return nil
}

func (a *Account) tryReserve(n uint64) bool {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if !a.fits(n) {
		return false
	}
	a.budget.used += n
	a.used += n
	return true
}

// Fits reports whether that many bytes can be reserved without dropping an idle
// instance.
func (a *Account) Fits(n uint64) bool {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.fits(n)
}

// fits must be called with the lock held.
func (a *Account) fits(n uint64) bool {
	left := uint64(0)
	if a.excess(n) > 0 {
		left = a.budget.limit/8 + a.budget.owed
	}
	return n+left <= a.budget.limit-a.budget.used
}

// excess returns by how much the account would have more than an even share with
// that many bytes more. It must be called with the lock held.
func (a *Account) excess(n uint64) uint64 {
	share := (a.budget.limit - a.budget.images) / uint64(len(a.budget.accounts))
	have := a.used - a.image + n
	return have - min(have, share)
}

// shares reports whether the account would have at most an even share with that
// many bytes more.
func (a *Account) shares(n uint64) bool {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.excess(n) == 0
}

// ExceedsEvenShare reports whether the account has more than an even share.
func (a *Account) ExceedsEvenShare() bool { return !a.shares(0) }

// Release removes bytes from the account that [Account.Reserve] has added.
func (a *Account) Release(n uint64) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	a.used -= n
	if b.released != nil && n > 0 {
		close(b.released)
		b.released = nil
	}
}

func (a *Account) refuse(n uint64) error {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused++
	return &exhaustedError{
		exceedsEvenShare: a.excess(n) > 0,
		text: fmt.Sprintf("%s of %s are in use, %s of them by this plugin, and %s more are needed: raise guestMemoryMiB in the host's configuration, or run less at once",
			mib(b.used), mib(b.limit), mib(a.used), mib(n)),
	}
}

// exhaustedError is an [ErrExhausted] of the budget.
type exhaustedError struct {
	exceedsEvenShare bool
	text             string
}

func (e *exhaustedError) Error() string { return ErrExhausted.Error() + ": " + e.text }
func (e *exhaustedError) Unwrap() error { return ErrExhausted }

// ExceedsEvenShare reports whether err is the refusal of a request by which a
// guest would have had more than an even share.
func ExceedsEvenShare(err error) bool {
	e, ok := errors.AsType[*exhaustedError](err)
	return ok && e.exceedsEvenShare
}

// mib formats a number of bytes for people.
func mib(n uint64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// DefaultLimit returns the budget for a host whose configuration has none: half
// of what the process may have, which is the smallest limit of its control
// groups or the machine's memory. root is the file system.
func DefaultLimit(root fs.FS) uint64 {
	limit := min(cgroupMemory(root), machineMemory(root))
	if limit == math.MaxUint64 {
		return unknownMemory
	}
	return limit / 2
}

// unknownMemory is the default where the system does not state what it has.
const unknownMemory = 1 << 30

// cgroupMemory returns the smallest limit of the process's memory control
// groups, in bytes, or MaxUint64 if there is none.
func cgroupMemory(root fs.FS) uint64 {
	limit := uint64(math.MaxUint64)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path; version 2 has no controllers (cgroups(7)).
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[1] == "":
			limit = min(limit, groupLimit(root, "sys/fs/cgroup", fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			limit = min(limit, groupLimit(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return limit
}

// groupLimit returns the smallest limit of a group and of the groups around it.
// In a container the path may be one of the machine's, of which only the end is
// mounted, so that files which do not exist are skipped.
func groupLimit(root fs.FS, mount, group, file string) uint64 {
	smallest := uint64(math.MaxUint64)
	for at := path.Join("/", group); ; at = path.Dir(at) {
		text, err := fs.ReadFile(root, path.Join(mount, at, file))
		if limit, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil { // "max" is no limit
			smallest = min(smallest, limit)
		}
		if at == "/" {
			return smallest
		}
	}
}

// machineMemory returns the machine's memory in bytes, or MaxUint64 if that is
// not known.
func machineMemory(root fs.FS) uint64 {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 54); err == nil {
				return kib << 10
			}
		}
	}
	return math.MaxUint64
}
