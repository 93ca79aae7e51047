package sandbox

import "github.com/tetratelabs/wazero/experimental"

// linearMemory is an instance's memory. It is allocated here rather than by
// the engine because the limit belongs to the plugin, and so that a refused
// growth is seen: a trap after one is class out-of-memory.
type linearMemory struct {
	data    []byte
	limit   uint64 // bytes
	refused bool   // a growth was refused since the last reset
}

// Allocate is called once, when the module is instantiated.
func (m *linearMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate grows the memory; nil refuses. New bytes are zero: those
// between length and capacity have never been handed out.
func (m *linearMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > uint64(cap(m.data)) {
		grown := make([]byte, size)
		copy(grown, m.data)
		m.data = grown
	}
	m.data = m.data[:size]
	return m.data
}

// Free is called when the instance is closed.
func (m *linearMemory) Free() { m.data = nil }

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
