package memory

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// strategy is a way to restore a memory. make returns the memory and how to
// restore it.
type strategy struct {
	name string
	make func(b *testing.B, size int, image []byte) (memory []byte, reset func())
}

// strategies are the one of the sandbox and its alternatives (RATIONALE.md). The
// first one does nothing: its time is that of writing to the memory.
var strategies = []strategy{
	{"none", func(b *testing.B, size int, _ []byte) ([]byte, func()) {
		return reserved(b, uint64(size), uint64(size)).bytes, func() {}
	}},
	{"sandbox", func(b *testing.B, size int, image []byte) ([]byte, func()) {
		m := linear(b, uint64(size), uint64(size))
		copy(m.data, image)
		im := m.Image()
		m.RestoreAndTrim(im)
		return m.data, func() { m.Restore(im) }
	}},
	{"copy", func(b *testing.B, size int, image []byte) ([]byte, func()) {
		memory := reserved(b, uint64(size), uint64(size)).bytes
		return memory, func() { clear(memory[copy(memory, image):]) }
	}},
	{"compare", func(b *testing.B, size int, image []byte) ([]byte, func()) {
		a := reserved(b, uint64(size), uint64(size))
		whole := piece{data: make([]byte, size)}
		copy(whole.data, image)
		return a.bytes, func() { whole.restore(a.bytes) }
	}},
	{"give-back", func(b *testing.B, size int, image []byte) ([]byte, func()) {
		fd, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = unix.Close(fd) })
		if err := unix.Ftruncate(fd, int64(size)); err != nil {
			b.Fatal(err)
		}
		if _, err := unix.Pwrite(fd, image, 0); err != nil {
			b.Fatal(err)
		}
		memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = unix.Munmap(memory) })
		return memory, func() { giveBack(memory) }
	}},
}

// BenchmarkReset writes to a part of a memory, as an allocator does that goes
// upwards, and restores it to an image of 96 KiB and zeros.
func BenchmarkReset(b *testing.B) {
	image := make([]byte, 96<<10)
	for i := range image {
		image[i] = byte(i) | 1
	}
	for _, size := range []int{128 << 10, 1 << 20, 16 << 20, 64 << 20} {
		for _, percent := range []int{1, 10, 100} {
			for _, c := range strategies {
				b.Run(fmt.Sprintf("%s/memory=%dKiB/written=%d%%", c.name, size>>10, percent), func(b *testing.B) {
					memory, reset := c.make(b, size, image)
					call := func() {
						dirty(memory, len(image), size/100*percent)
						reset()
					}
					call() // the first call has the page faults of new memory
					for b.Loop() {
						call()
					}
				})
			}
		}
	}
}

// dirty changes one byte in each cache line of length bytes, from the end of the
// image on and then from the begin, and in two pages at the begin.
func dirty(memory []byte, from, length int) {
	memory[3*chunk]++
	memory[5*chunk]++
	for i := 0; i < length; i += 64 {
		memory[(from+i)%len(memory)]++
	}
}
