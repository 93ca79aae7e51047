package sandbox

import (
	"sync/atomic"

	"github.com/thole-dev/thole/host/sandbox/memory"
)

// image is the state of an instance that is ready for its first call: its
// memory and its mutable globals. For a resettable module (see
// [module.Module.Resettable]) that is all the state there is, so an instance
// that is restored to it cannot tell that there was a call before, and a new
// instance needs nothing but it.
type image struct {
	memory  *memory.Image
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

// takeImage makes what an instance is now its image.
func (in *instance) takeImage() {
	in.image = &image{memory: in.linear.Image()}
	for _, g := range in.globals {
		in.image.globals = append(in.image.globals, g.Get())
	}
	in.linear.Tidy(in.image.memory) // else what was only read would stay in memory
}

// adopt makes a new instance an image's.
func (in *instance) adopt(im *image) {
	in.image = im
	in.resetGlobals()
	in.linear.Adopt(im.memory)
}

// reset puts the image back: all of it, whatever the guest says of what it
// wrote (abi/RATIONALE.md). Memory must not have grown.
func (in *instance) reset() {
	in.resetGlobals()
	in.linear.Restore(in.image.memory)
}

func (in *instance) resetGlobals() {
	for i, g := range in.globals {
		g.Set(in.image.globals[i])
	}
}
