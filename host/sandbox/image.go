package sandbox

import (
	"bytes"
	"sync/atomic"
)

// image is the state of an instance that is ready for its first call: its
// memory and its mutable globals. For a resettable module (see
// [module.Module.Resettable]) that is all the state there is, so an instance
// that is restored to it cannot tell that there was a call before, and a new
// instance needs nothing but it.
type image struct {
	size    uint32 // bytes of memory
	pieces  []piece
	globals []uint64
	calm    atomic.Bool // a call on it did not grow memory
}

// settle notes a call that did not grow memory. Every call gets here: it only
// writes once.
func (im *image) settle() {
	if !im.calm.Load() {
		im.calm.Store(true)
	}
}

// piece is a part of an image's memory; all between pieces is zero. Pieces
// are in ascending order and do not touch.
type piece struct {
	at   uint64
	data []byte
}

func (p piece) end() uint64 { return p.at + uint64(len(p.data)) }

// chunk is how much is compared at once, and the unit of pieces.
const chunk = 4 << 10

func (in *instance) snapshot() *image {
	out := imageOf(in.linear.data)
	for _, g := range in.globals {
		out.globals = append(out.globals, g.Get())
	}
	return out
}

func imageOf(memory []byte) *image {
	return &image{size: uint32(len(memory)), pieces: pieces(memory)}
}

// pieces copies the chunks that are not zero.
func pieces(memory []byte) (out []piece) {
	for at := 0; at < len(memory); at += chunk {
		end := at
		for end < len(memory) && !zero(part(memory, end)) {
			end += chunk
		}
		if end > at {
			out = append(out, piece{uint64(at), bytes.Clone(memory[at:min(end, len(memory))])})
			at = end
		}
	}
	return out
}

// part is the chunk at an offset.
func part(p []byte, at int) []byte { return p[at:min(at+chunk, len(p))] }

var zeros [chunk]byte

// zero tells whether a chunk has nothing but zeros.
func zero(p []byte) bool { return bytes.Equal(p, zeros[:len(p)]) }

// wipe makes bytes zero, and only reads those that are.
func wipe(p []byte) {
	for at := 0; at < len(p); at += chunk {
		if part := part(p, at); !zero(part) {
			clear(part)
		}
	}
}

// restore puts the image back; memory must not have grown since. At most keep
// bytes of what is zero in it stay resident.
func (im *image) restore(in *instance, keep uint64) {
	for i, g := range in.globals {
		g.Set(im.globals[i])
	}
	at := uint64(0)
	for _, p := range im.pieces {
		keep -= in.linear.space.zero(at, p.at, keep)
		p.restore(in.linear.data)
		at = p.end()
	}
	in.linear.space.zero(at, uint64(im.size), keep)
}

// restore writes only where something changed: most of a piece are constants.
func (p piece) restore(memory []byte) {
	memory = memory[p.at:p.end()]
	for at := 0; at < len(memory); at += chunk {
		if have, want := part(memory, at), part(p.data, at); !bytes.Equal(have, want) {
			copy(have, want)
		}
	}
}

// bytes is how much memory the image itself takes.
func (im *image) bytes() (n uint64) {
	for _, p := range im.pieces {
		n += uint64(len(p.data))
	}
	return n
}

// adopt makes a new instance the image's.
func (im *image) adopt(in *instance) {
	im.restore(in, keptResident)
	in.image = im
}
