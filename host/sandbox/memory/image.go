package memory

import "bytes"

// Image is what a memory was at one time. It is immutable.
type Image struct {
	size   uint64 // of the memory, in bytes
	pieces []piece
}

// ImageOf copies a memory, apart from what is zero.
func ImageOf(memory []byte) *Image {
	return &Image{size: uint64(len(memory)), pieces: pieces(memory)}
}

// Size is that of the memory, in bytes.
func (im *Image) Size() uint64 { return im.size }

// Bytes is how much memory the image itself takes.
func (im *Image) Bytes() (n uint64) {
	for _, p := range im.pieces {
		n += uint64(len(p.data))
	}
	return n
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

// restore writes only where something changed: most of a piece are constants.
func (p piece) restore(memory []byte) {
	memory = memory[p.at:p.end()]
	for at := 0; at < len(memory); at += chunk {
		if have, want := part(memory, at), part(p.data, at); !bytes.Equal(have, want) {
			copy(have, want)
		}
	}
}
