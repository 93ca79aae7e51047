//go:build tinygo && gc.leaking

package guest

import "unsafe"

// arenaUnit is the alignment of TinyGo's leaking allocator, and so the size
// of the smallest allocation.
const arenaUnit = 16

// newest keeps the compiler from placing the allocation of arenaTop on the
// stack.
var newest *[arenaUnit]byte

// arenaTop says up to where the call has used memory. TinyGo's -gc=leaking
// hands out addresses in ascending order, whatever their size, and never takes
// one back; stack and globals lie below the heap (--stack-first). So the end
// of a fresh allocation is the end of everything. Another collector makes no
// such promise: the file, and with it the export, is built for this one only.
//
//go:wasmexport arena_top
func arenaTop() int32 {
	newest = new([arenaUnit]byte)
	return int32(uintptr(unsafe.Pointer(newest)) + arenaUnit)
}
