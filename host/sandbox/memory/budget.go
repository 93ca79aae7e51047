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
// A guest that has more than an even share must leave an eighth of the budget
// to the others: otherwise a guest that takes all there is would keep them from
// running.
type Budget struct {
	limit    uint64
	dropIdle func() bool
	spaces   spaces

	mu       sync.Mutex
	accounts uint64 // open ones
	used     uint64 // bytes, at most limit
	refused  uint64 // requests
}

// NewBudget returns a budget of that many bytes. dropIdle is called, without a
// lock held, when a request does not fit: it releases the memory of one idle
// instance and reports whether there was one.
func NewBudget(limit uint64, dropIdle func() bool) *Budget {
	return &Budget{limit: limit, dropIdle: dropIdle}
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
	return Stats{LimitBytes: b.limit, UsedBytes: b.used, Refused: b.refused, Accounts: int(b.accounts)}
}

// Account is what one guest uses of a budget.
type Account struct {
	budget *Budget
	used   uint64 // bytes; guarded by budget.mu
}

// Account opens the account of a guest.
func (b *Budget) Account() *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts++
	return &Account{budget: b}
}

// Close closes the account. Everything must have been released.
func (a *Account) Close() {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.budget.accounts--
}

// Reserve adds bytes to the account. Idle instances are dropped for them if
// need be. The error is an [ErrExhausted].
func (a *Account) Reserve(n uint64) error {
	for !a.tryReserve(n) {
		if !a.budget.dropIdle() {
			return a.refuse(n)
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
	if a.exceedsEvenShare(n) {
		left = a.budget.limit / 8
	}
	return n+left <= a.budget.limit-a.budget.used
}

// exceedsEvenShare reports whether the account would have more than an even
// share with that many bytes more. It must be called with the lock held.
func (a *Account) exceedsEvenShare(n uint64) bool {
	return a.used+n > a.budget.limit/a.budget.accounts
}

// Release removes bytes from the account that [Account.Reserve] has added.
func (a *Account) Release(n uint64) {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.budget.used -= n
	a.used -= n
}

func (a *Account) refuse(n uint64) error {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused++
	return &exhaustedError{
		exceedsEvenShare: a.exceedsEvenShare(n),
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
