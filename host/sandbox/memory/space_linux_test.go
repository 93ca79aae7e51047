package memory

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident returns how many pages of a memory are resident.
func resident(p []byte) (n int) {
	page := os.Getpagesize()
	for len(p) > 0 {
		var pages residency
		part := p[:min(len(p), len(pages)*page)]
		readResidency(part, &pages)
		for i := range len(part) / page {
			n += int(pages[i] & 1)
		}
		p = p[len(part):]
	}
	return n
}

func TestGrowthDoesNotMoveMemory(t *testing.T) {
	a := reserved(t, 64<<20, 128<<10)
	at := unsafe.SliceData(a.bytes)
	if err := a.commit(64 << 20); err != nil {
		t.Fatal(err)
	}
	if unsafe.SliceData(a.bytes) != at {
		t.Error("the memory moved")
	}
	if n := resident(a.bytes); n != 0 {
		t.Errorf("%d untouched pages are resident", n)
	}
}

func TestZeroKeepsAtMostTheGivenBytesResident(t *testing.T) {
	a := reserved(t, 8<<20, 8<<20)
	page := os.Getpagesize()
	touch := func(from, to int) {
		for at := from; at < to; at += page {
			a.bytes[at] = 1
		}
	}
	touch(1<<20, 3<<20)
	touch(5<<20, 6<<20)
	if kept := a.zero(0, 8<<20, 1<<40); kept != 3<<20 || resident(a.bytes) != 3<<20/page {
		t.Errorf("kept %d bytes, %d pages are resident; want all that were touched", kept, resident(a.bytes))
	}
	if kept := a.zero(0, 8<<20, 1<<20); kept != 1<<20 || resident(a.bytes) != 1<<20/page {
		t.Errorf("kept %d bytes, %d pages are resident; want 1 MiB", kept, resident(a.bytes))
	}
	if kept := a.zero(0, 8<<20, 0); kept != 0 || resident(a.bytes) != 0 {
		t.Errorf("kept %d bytes, %d pages are resident; want none", kept, resident(a.bytes))
	}
}

// TestZeroOfLockedMemory: pages that cannot be given back are cleared.
func TestZeroOfLockedMemory(t *testing.T) {
	a := reserved(t, 1<<20, 1<<20)
	if err := unix.Mlock(a.bytes[:64<<10]); err != nil {
		t.Skip("memory cannot be locked here: ", err)
	}
	a.bytes[5], a.bytes[100<<10] = 1, 1
	a.zero(0, 1<<20, 0)
	if a.bytes[5] != 0 || a.bytes[100<<10] != 0 {
		t.Error("locked memory is not cleared")
	}
}

// TestRestoreTrimsNowAndThen: what a call touched stays resident for the next
// one, for trimEvery restores.
func TestRestoreTrimsNowAndThen(t *testing.T) {
	m := linear(t, 128<<10, 64<<20)
	m.data[0] = 1
	if m.Reallocate(1<<20) == nil {
		t.Fatal(m.Refused())
	}
	im := m.Image()
	bytesIn := func() uint64 { return uint64(resident(m.data) * os.Getpagesize()) }
	for i := range m.data {
		m.data[i] = 1
	}
	m.Restore(im)
	if n := bytesIn(); n != m.Size() {
		t.Errorf("%d bytes are resident after a call, want the %d that were touched", n, m.Size())
	}
	for range trimEvery {
		m.Restore(im)
	}
	if n := bytesIn(); n > im.Bytes()+cheapToRead {
		t.Errorf("%d bytes stay resident, the image has %d", n, im.Bytes())
	}
}
