package sandbox

import (
	"fmt"

	"github.com/tetratelabs/wazero/experimental"
)

// linearMemory is an instance's memory. It is allocated here rather than by
// the engine because the limits belong to the plugin and to the host, because
// a growth that is refused must be seen, and because the engine's way to grow
// copies all there is.
type linearMemory struct {
	share   *share
	space   *addressSpace
	data    []byte // what the guest has: the beginning of space
	limit   uint64 // bytes
	refused error  // why the last growth was, if one was since the call began
}

// newMemory makes a memory of that many bytes that can grow to limit. The
// error is, or wraps, [ErrHostMemory].
func (s *share) newMemory(size, limit uint64) (*linearMemory, error) {
	m := &linearMemory{share: s, limit: limit}
	var err error
	if m.space, err = s.host.spaces.get(limit); err != nil {
		return nil, err
	}
	if err := m.grow(size); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// Allocate is called once, when the module is instantiated.
func (m *linearMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate grows the memory, whose new bytes are zero; nil refuses. The
// first call asks for what there is from the beginning.
func (m *linearMemory) Reallocate(size uint64) []byte {
	if m.refused = m.grow(size); m.refused != nil {
		return nil
	}
	return m.data
}

func (m *linearMemory) grow(size uint64) error {
	if size > m.limit {
		return fmt.Errorf("memory of %s is more than the plugin's limit of %s", mib(size), mib(m.limit))
	}
	more := size - uint64(len(m.data))
	if err := m.share.take(more); err != nil {
		return err
	}
	if err := m.space.commit(size); err != nil {
		m.share.give(more)
		return err
	}
	m.data = m.space.bytes[:size]
	return nil
}

// Free is called when the instance is closed, by the engine or by
// [instance.close]: the engine does not call it for a module that it closed
// during a call, nor for one that it could not instantiate.
func (m *linearMemory) Free() {
	if m.space == nil {
		return
	}
	m.share.give(uint64(len(m.data)))
	m.share.host.spaces.put(m.space)
	m.space, m.data = nil, nil
}

// startPages is how many pages an instance starts with, at least minimum.
// Allocators such as TinyGo's double their memory when they grow: only from
// limit/2^k can they reach the limit instead of failing between its half and
// it.
func startPages(minimum, limit uint32) uint32 {
	if minimum == 0 {
		return 0
	}
	pages := limit
	for pages/2 >= minimum && pages%2 == 0 {
		pages /= 2
	}
	if pages >= 2*minimum {
		return minimum
	}
	return pages
}
