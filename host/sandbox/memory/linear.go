// Package memory gives guests their linear memory.
//
// A [Budget] is the memory that all guests of a host have together; each guest
// has an [Account] of it. A [Linear] is the memory of one instance: it grows
// within a range of addresses of its own, so that growing copies nothing, and
// never beyond its limit and the budget. An [Image] is the content of a memory
// at one time, and [Linear.Restore] restores it for little more than the cost of
// what was changed.
//
// budget.go has the budget, reclaim.go how it is shared, linear.go memories and images, space.go the ranges
// of addresses, and zero_linux.go how they are cleared.
package memory

import (
	"bytes"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
)

// Linear is the memory of an instance. It is allocated here rather than by the
// engine because its limits are the plugin's and the host's, because the reason
// for a refused growth must be known, and because the engine copies a memory to
// grow it. It must be used by one goroutine at a time.
type Linear struct {
	account  *Account
	space    *addressSpace
	data     []byte        // the guest's memory: the begin of space
	held     atomic.Uint64 // bytes of the account: those of data, and what it has shrunk by since the last trim
	limit    uint64        // bytes
	beside   uint64        // bytes of the account that are not in held
	stack    atomic.Uint64 // the same, of the engine's stack
	shrunk   bool          // whether the engine does not have the size of data yet
	refused  error         // why the last growth was refused
	restored int           // how many times Restore was called
	caller   Caller        // of the call in progress; nil between calls

	// Guarded by account.budget.mu.
	running   Caller // as caller, for the goroutines that reclaim memory
	reclaimed uint64 // bytes for which the call in progress was ended
}

var (
	_ experimental.MemoryAllocator = (*Linear)(nil)
	_ experimental.LinearMemory    = (*Linear)(nil)
)

// Linear returns a memory of size bytes that can grow to limit, with a call in
// progress. beside is what the instance takes besides, which the account pays as
// long. The error is an [ErrExhausted].
func (a *Account) Linear(size, limit, beside uint64, c Caller) (*Linear, error) {
	if err := a.Reserve(beside, c); err != nil {
		return nil, err
	}
	m := &Linear{account: a, limit: limit, beside: beside}
	a.add(m)
	m.BeginCall(c)
	var err error
	if m.space, err = a.budget.spaces.get(limit); err != nil {
		a.forget(m)
		a.Release(beside)
		return nil, err
	}
	if err := m.grow(size); err != nil {
		m.Free()
		return nil, err
	}
	m.Touch()
	return m, nil
}

// untouched is how much of a memory, from its begin, may be without pages when a
// call begins, in bytes. The kernel makes and clears a page when it is used for
// the first time: this bounds how long it works for a guest between two ticks
// (host/sandbox/meter/RATIONALE.md).
const untouched = 1 << 20

// Touch uses each page of the memory beyond the first untouched bytes, so that
// it is there.
func (m *Linear) Touch() {
	for at := uint64(untouched); at < m.Size(); at += chunk {
		atomic.OrUint32((*uint32)(unsafe.Pointer(&m.data[at])), 0) // writes what is there
	}
}

// Allocate is called by the engine once, when it instantiates the module.
func (m *Linear) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate grows the memory to size bytes, of which the new ones are zero. It
// returns nil to refuse. The engine's first call asks for the initial size,
// which is there already. After [Linear.Restore] it returns the smaller memory
// instead, which the engine takes as it takes any other.
func (m *Linear) Reallocate(size uint64) []byte {
	if m.shrunk {
		m.shrunk = false
		return m.data
	}
	if m.refused = m.grow(size); m.refused != nil {
		return nil
	}
	return m.data
}

func (m *Linear) grow(size uint64) error {
	if size > m.limit {
		return fmt.Errorf("memory of %s is more than the plugin's limit of %s", mib(size), mib(m.limit))
	}
	more := size - min(size, m.held.Load())
	if err := m.account.Reserve(more, m.caller); err != nil {
		return err
	}
	if err := m.space.commit(size); err != nil {
		m.account.Release(more)
		return err
	}
	m.held.Add(more)
	m.data = m.space.bytes[:size]
	return nil
}

// Size returns the current size in bytes.
func (m *Linear) Size() uint64 { return uint64(len(m.data)) }

// Held returns how much the instance takes of its account, in bytes. It is more than
// the size if the memory has shrunk, because its pages are kept for the next growth.
func (m *Linear) Held() uint64 { return m.held.Load() + m.beside + m.stack.Load() }

// HoldStack counts that many bytes of a stack as memory of the instance, in place of
// those that were counted before. The error is an [ErrExhausted], and changes nothing.
func (m *Linear) HoldStack(n uint64) error {
	have := m.stack.Load()
	if n > have {
		if err := m.account.Reserve(n-have, m.caller); err != nil {
			return err
		}
	}
	m.stack.Store(n)
	if n < have {
		m.account.Release(have - n)
	}
	return nil
}

// Shrunk reports whether the engine has to be made to call [Linear.Reallocate]
// once, which gives it the memory as it is since [Linear.Restore].
func (m *Linear) Shrunk() bool { return m.shrunk }

// Refused returns why the last growth was refused, or nil if it was not or if
// there was none since [Linear.BeginCall].
func (m *Linear) Refused() error { return m.refused }

// BeginCall must be called at the begin of each call. Until [Linear.EndCall] is
// called, growths may wait by c, and c may be ended for the memory.
func (m *Linear) BeginCall(c Caller) {
	m.refused = nil
	m.setCaller(c)
}

// EndCall must be called at the end of each call.
func (m *Linear) EndCall() { m.setCaller(nil) }

// Free releases the memory. It may be called again: the engine calls it when an
// instance is closed, but not for a module that it closed during a call, nor
// for one that it could not instantiate.
func (m *Linear) Free() {
	if m.space == nil {
		return
	}
	m.EndCall()
	m.account.Release(m.held.Swap(0) + m.beside + m.stack.Swap(0))
	m.account.forget(m)
	m.account.budget.spaces.put(m.space)
	m.space, m.data = nil, nil
}

// Image returns a copy of the memory's content.
func (m *Linear) Image() *Image { return ImageOf(m.data) }

// trimEvery is how many restores keep the pages that calls have used, until they
// are given back to the system. Otherwise one large call would make all later
// restores slow. The next call faults in what it needs.
const trimEvery = 64

// Restore makes the size and the content of the memory those of the image, whatever
// was written. The memory must have at least the image's size. See [Linear.Shrunk].
func (m *Linear) Restore(im *Image) {
	keep := uint64(math.MaxUint64)
	if m.restored++; m.restored%trimEvery == 0 {
		keep = 0
	}
	m.restore(im, keep)
}

// RestoreNew is [Linear.Restore] for a new memory, which may have pages that
// another one has used.
func (m *Linear) RestoreNew(im *Image) { m.restore(im, keptResident) }

// RestoreAndTrim is [Linear.Restore] that gives back all pages that the image
// does not need.
func (m *Linear) RestoreAndTrim(im *Image) { m.restore(im, 0) }

// restore keeps at most keep bytes resident of what is zero in the image.
func (m *Linear) restore(im *Image, keep uint64) {
	at, left := uint64(0), keep
	for _, p := range im.pieces {
		left -= m.space.zero(at, p.at, left)
		p.restore(m.data)
		at = p.end()
	}
	m.space.zero(at, m.held.Load(), left)
	m.shrunk = m.Size() > im.size
	m.data = m.data[:im.size]
	if keep == 0 {
		m.account.Release(m.held.Swap(im.size) - im.size)
	}
	if keep < math.MaxUint64 {
		m.Touch()
	}
}

// Image is the content of a memory at one time. It is immutable.
type Image struct {
	size   uint64 // of the memory, in bytes
	pieces []piece
}

// ImageOf returns a copy of a memory, without its zeros.
func ImageOf(memory []byte) *Image {
	return &Image{size: uint64(len(memory)), pieces: nonZero(memory)}
}

// Size returns the size of the memory in bytes.
func (im *Image) Size() uint64 { return im.size }

// Bytes returns how much memory the image itself takes.
func (im *Image) Bytes() (n uint64) {
	for _, p := range im.pieces {
		n += uint64(len(p.data))
	}
	return n
}

// piece is a part of an image; everything between pieces is zero. Pieces are in
// ascending order and do not touch.
type piece struct {
	at   uint64
	data []byte
}

func (p piece) end() uint64 { return p.at + uint64(len(p.data)) }

// chunk is how much is compared at once, and the unit of pieces, in bytes.
const chunk = 4 << 10

// nonZero returns copies of the chunks that are not zero.
func nonZero(memory []byte) (out []piece) {
	for at := 0; at < len(memory); at += chunk {
		end := at
		for end < len(memory) && !isZero(chunkAt(memory, end)) {
			end += chunk
		}
		if end > at {
			out = append(out, piece{uint64(at), bytes.Clone(memory[at:min(end, len(memory))])})
			at = end
		}
	}
	return out
}

func chunkAt(p []byte, at int) []byte { return p[at:min(at+chunk, len(p))] }

var zeros [chunk]byte

func isZero(chunk []byte) bool { return bytes.Equal(chunk, zeros[:len(chunk)]) }

// wipe clears bytes. Chunks that are zero are only read, so that pages that
// were never written to take no memory.
func wipe(p []byte) {
	for at := 0; at < len(p); at += chunk {
		if c := chunkAt(p, at); !isZero(c) {
			clear(c)
		}
	}
}

// restore copies the piece into memory. Chunks that have not changed are only
// read: most of a piece are constants.
func (p piece) restore(memory []byte) {
	memory = memory[p.at:p.end()]
	for at := 0; at < len(memory); at += chunk {
		if have, want := chunkAt(memory, at), chunkAt(p.data, at); !bytes.Equal(have, want) {
			copy(have, want)
		}
	}
}
