//go:build unix

package memory

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// addressSpace is a range of addresses in which one memory grows without
// moving. Only committed bytes can be accessed, and a page takes no memory
// before it is written to.
type addressSpace struct {
	bytes     []byte
	size      uint64
	committed uint64 // bytes from the begin
}

func reserve(size uint64) (*addressSpace, error) {
	a := &addressSpace{size: size}
	var err error
	if a.bytes, err = unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return nil, fmt.Errorf("%w: reserve %s of address space: %w", ErrExhausted, mib(size), err)
	}
	a.preferSmallPages()
	return a, nil
}

// commit makes the first size bytes accessible.
func (a *addressSpace) commit(size uint64) error {
	if size <= a.committed {
		return nil
	}
	if err := unix.Mprotect(a.bytes[a.committed:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("%w: commit %s: %w", ErrExhausted, mib(size), err)
	}
	a.committed = size
	return nil
}

// release unmaps the range.
func (a *addressSpace) release() {
	if err := unix.Munmap(a.bytes); err != nil {
		panic(fmt.Errorf("unmap guest memory: %w", err)) // cannot happen for a range that was mapped
	}
	*a = addressSpace{}
}
