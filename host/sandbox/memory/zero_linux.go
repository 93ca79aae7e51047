package memory

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel knows which pages a guest has touched: only those are cleared.
// All others are given back, for one that was swapped out looks untouched.

// cheapToRead is how many bytes are compared sooner than the kernel answers.
const cheapToRead = 64 << 10

// preferSmallPages keeps the kernel from giving 2 MiB for the first byte.
// Where it would not anyway the call fails, and nothing is lost.
func (a *addressSpace) preferSmallPages() { _ = unix.Madvise(a.bytes, unix.MADV_NOHUGEPAGE) }

// zero clears the committed bytes from from to to. At most keep bytes of them
// stay in memory, about kept do; the rest is given back, and costs a fault
// when it is touched again.
func (a *addressSpace) zero(from, to, keep uint64) (kept uint64) {
	if to-from <= cheapToRead {
		wipe(a.bytes[from:to])
		return 0
	}
	page := uint64(os.Getpagesize())
	first := min((from+page-1)/page*page, to)
	last := max(to/page*page, first)
	clear(a.bytes[from:first])
	clear(a.bytes[last:to])
	for at := first; at < last; {
		end := min(at+uint64(len(residency{}))*page, last)
		kept += zeroPages(a.bytes[at:end], int(page), keep-kept)
		at = end
	}
	return kept
}

// residency says of each page, in its lowest bit, whether it is in memory.
type residency [4096]byte

// zeroPages is zero for whole pages; kept is how much it left in memory.
func zeroPages(p []byte, page int, keep uint64) (kept uint64) {
	var pages residency
	look(p, &pages)
	for at := 0; at < len(p); {
		resident, end := pages[at/page]&1 != 0, at+page
		for end < len(p) && (pages[end/page]&1 != 0) == resident {
			end += page
		}
		if resident {
			n := int(min(uint64(end-at), keep-kept)) / page * page
			wipe(p[at : at+n])
			kept, at = kept+uint64(n), at+n
		}
		giveBack(p[at:end])
		at = end
	}
	return kept
}

// look asks the kernel. Where it may not be asked all counts as resident, and
// is then compared.
func look(p []byte, pages *residency) {
	_, _, failed := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(unsafe.Pointer(pages)))
	if failed == 0 {
		return
	}
	for i := range pages {
		pages[i] = 1
	}
}

// giveBack makes pages zero by forgetting them.
func giveBack(p []byte) {
	if len(p) > 0 && unix.Madvise(p, unix.MADV_DONTNEED) != nil {
		wipe(p) // of a process that locks its memory
	}
}
