package memory

import (
	"fmt"
	"math"

	"github.com/tetratelabs/wazero/experimental"
)

// Linear is an instance's memory. It is allocated here rather than by the
// engine because the limits belong to the plugin and to the host, because a
// growth that is refused must be seen, and because the engine's way to grow
// copies all there is. It is used by one goroutine at a time.
type Linear struct {
	share    *Share
	space    *addressSpace
	data     []byte // what the guest has: the beginning of space
	limit    uint64 // bytes
	refused  error
	restored int // times
}

var (
	_ experimental.MemoryAllocator = (*Linear)(nil)
	_ experimental.LinearMemory    = (*Linear)(nil)
)

// Linear makes a memory of that many bytes, at most limit, to which it can
// grow. The error is an [ErrExhausted].
func (s *Share) Linear(size, limit uint64) (*Linear, error) {
	m := &Linear{share: s, limit: limit}
	var err error
	if m.space, err = s.budget.spaces.get(limit); err != nil {
		return nil, err
	}
	if err := m.grow(size); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// Allocate is called once, when the module is instantiated.
func (m *Linear) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate grows the memory, whose new bytes are zero; nil refuses. The
// first call asks for what there is from the beginning.
func (m *Linear) Reallocate(size uint64) []byte {
	if m.refused = m.grow(size); m.refused != nil {
		return nil
	}
	return m.data
}

func (m *Linear) grow(size uint64) error {
	if size > m.limit {
		return fmt.Errorf("memory of %s is more than the plugin's limit of %s", mib(size), mib(m.limit))
	}
	more := size - m.Size()
	if err := m.share.Take(more); err != nil {
		return err
	}
	if err := m.space.commit(size); err != nil {
		m.share.Give(more)
		return err
	}
	m.data = m.space.bytes[:size]
	return nil
}

// Size is in bytes, now.
func (m *Linear) Size() uint64 { return uint64(len(m.data)) }

// Refused is why the last growth was refused, nil if it was not or if there
// was none since [Linear.Begin].
func (m *Linear) Refused() error { return m.refused }

// Begin is for the beginning of a call.
func (m *Linear) Begin() { m.refused = nil }

// Free gives the memory back; it may be called again. The engine does so when
// an instance is closed, but not for a module that it closed during a call,
// nor for one that it could not instantiate.
func (m *Linear) Free() {
	if m.space == nil {
		return
	}
	m.share.Give(m.Size())
	m.share.budget.spaces.put(m.space)
	m.space, m.data = nil, nil
}

// Image is what the memory is now.
func (m *Linear) Image() *Image { return ImageOf(m.data) }

// tidyEvery is how many times a memory is restored until the pages are given
// back that the calls needed. Else one large call would make each later
// restore longer. The next call gets anew what it needs.
const tidyEvery = 64

// Restore makes the memory what it was when the image was taken, all of it,
// whatever was written. It has the image's size: it must not have grown.
func (m *Linear) Restore(im *Image) {
	keep := uint64(math.MaxUint64)
	if m.restored++; m.restored%tidyEvery == 0 {
		keep = 0
	}
	m.restore(im, keep)
}

// Adopt is Restore for a new memory, which may come with pages that another
// one has left.
func (m *Linear) Adopt(im *Image) { m.restore(im, keptResident) }

// Tidy is Restore which keeps no page that the image does not need.
func (m *Linear) Tidy(im *Image) { m.restore(im, 0) }

// restore keeps at most keep bytes of what is zero in the image resident.
func (m *Linear) restore(im *Image, keep uint64) {
	at := uint64(0)
	for _, p := range im.pieces {
		keep -= m.space.zero(at, p.at, keep)
		p.restore(m.data)
		at = p.end()
	}
	m.space.zero(at, im.size, keep)
}
