package sandbox

import (
	"bytes"
)

// image is the state of an instance that is ready for its first call: its
// memory and its mutable globals. For a resettable module (see
// [module.Module.Resettable]) that is all the state there is, so an instance
// that is restored to it cannot tell that there was a call before, and a new
// instance needs nothing but it.
type image struct {
	memory  []byte // without the zeros at its end
	size    uint32 // bytes of memory, with them
	globals []uint64
}

func (in *instance) snapshot() *image {
	memory, _ := in.memory.Read(0, in.memory.Size())
	out := &image{
		memory:  bytes.Clone(bytes.TrimRight(memory, "\x00")),
		size:    in.memory.Size(),
		globals: make([]uint64, len(in.globals)),
	}
	for i, g := range in.globals {
		out.globals[i] = g.Get()
	}
	return out
}

// restore puts the image back below top; memory must not have grown since.
func (im *image) restore(in *instance, top uint32) {
	for i, g := range in.globals {
		g.Set(im.globals[i])
	}
	memory, _ := in.memory.Read(0, min(top, im.size))
	clear(memory[copy(memory, im.memory):])
}

// equalFrom tells whether memory from top on is as in the image.
func (im *image) equalFrom(in *instance, top uint32) bool {
	memory, _ := in.memory.Read(0, im.size)
	split := max(int(top), len(im.memory))
	if int(top) < len(im.memory) && !bytes.Equal(memory[top:len(im.memory)], im.memory[top:]) {
		return false
	}
	return allZero(memory[min(split, len(memory)):])
}

var zeros [4096]byte

func allZero(p []byte) bool {
	for len(p) > len(zeros) {
		if !bytes.Equal(p[:len(zeros)], zeros[:]) {
			return false
		}
		p = p[len(zeros):]
	}
	return bytes.Equal(p, zeros[:len(p)])
}

// adopt makes a new instance the image's.
func (im *image) adopt(in *instance) {
	if have := in.memory.Size(); have < im.size {
		in.memory.Grow((im.size - have) / pageBytes)
	}
	im.restore(in, im.size)
	in.image = im
}
