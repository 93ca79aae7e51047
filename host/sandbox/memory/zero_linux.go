package memory

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// On Linux the kernel reports which pages a guest has touched: only those are
// cleared. All other pages are given back, because a page that was swapped out
// looks untouched and holds what the guest wrote.

// cheapToRead is up to how many bytes comparing is faster than asking the
// kernel.
const cheapToRead = 64 << 10

// preferSmallPages keeps the kernel from using 2 MiB for the first byte. On
// kernels without huge pages the call fails, which changes nothing.
func (a *addressSpace) preferSmallPages() { _ = unix.Madvise(a.bytes, unix.MADV_NOHUGEPAGE) }

// zero clears the committed bytes from from to to. At most keep bytes of them
// stay resident, and zero returns about how many do. The rest is given back to
// the system and costs a page fault when it is accessed again.
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

// residency holds for each page, in its lowest bit, whether it is resident
// (mincore(2)).
type residency [4096]byte

// zeroPages is zero for whole pages, at most as many as residency has.
func zeroPages(p []byte, page int, keep uint64) (kept uint64) {
	var pages residency
	readResidency(p, &pages)
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

// readResidency asks the kernel. Where that is not permitted all pages count as
// resident, so that they are compared.
func readResidency(p []byte, pages *residency) {
	_, _, failed := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(unsafe.Pointer(pages)))
	if failed == 0 {
		return
	}
	for i := range pages {
		pages[i] = 1
	}
}

// giveBack discards pages, which makes them zero. In a process that locks its
// memory that is not possible, and they are cleared.
func giveBack(p []byte) {
	if len(p) > 0 && unix.Madvise(p, unix.MADV_DONTNEED) != nil {
		wipe(p)
	}
}
