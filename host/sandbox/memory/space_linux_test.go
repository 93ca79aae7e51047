package memory

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident is how many pages of a memory the process has.
func resident(p []byte) (n int) {
	page := os.Getpagesize()
	for len(p) > 0 {
		var pages residency
		part := p[:min(len(p), len(pages)*page)]
		look(part, &pages)
		for i := range len(part) / page {
			n += int(pages[i] & 1)
		}
		p = p[len(part):]
	}
	return n
}

func TestGrowthStaysWhereItIs(t *testing.T) {
	a := reserved(t, 64<<20, 128<<10)
	at := unsafe.SliceData(a.bytes)
	if err := a.commit(64 << 20); err != nil {
		t.Fatal(err)
	}
	if unsafe.SliceData(a.bytes) != at {
		t.Error("it moved")
	}
	if n := resident(a.bytes); n != 0 {
		t.Errorf("%d pages are in memory that nobody has touched", n)
	}
}

func TestZeroKeepsAndGivesBack(t *testing.T) {
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
		t.Errorf("kept %d bytes, %d pages are in memory; want all that were touched", kept, resident(a.bytes))
	}
	if kept := a.zero(0, 8<<20, 1<<20); kept != 1<<20 || resident(a.bytes) != 1<<20/page {
		t.Errorf("kept %d bytes, %d pages are in memory; want 1 MiB", kept, resident(a.bytes))
	}
	if kept := a.zero(0, 8<<20, 0); kept != 0 || resident(a.bytes) != 0 {
		t.Errorf("kept %d bytes, %d pages are in memory; want none", kept, resident(a.bytes))
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
		t.Error("something is left")
	}
}

// TestResidentMemory: what a call touched stays, for the next one, until it is
// time to give it back.
func TestResidentMemory(t *testing.T) {
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
		t.Errorf("%d bytes are in memory after a call, want the %d that were touched", n, m.Size())
	}
	for range tidyEvery {
		m.Restore(im)
	}
	if n := bytesIn(); n > im.Bytes()+cheapToRead {
		t.Errorf("%d bytes stay in memory, the image has %d", n, im.Bytes())
	}
}
