package meter

import "github.com/thole-dev/thole/host/sandbox/module"

// The unit of fuel is an instruction. What takes the engine longer than a few
// of them costs more.
const (
	hostCallCost  = 100  // a call of an imported function, what it does not included
	refCost       = 20   // ref.func leaves native code
	growTableCost = 1000 // table.grow; a table's size is bounded at load
	byteShift     = 3    // bulk instructions: 8 bytes, or one table element, cost one
	pageCost      = (64 << 10) >> byteShift

	// Bulk instructions up to this size are paid as if they had it; larger
	// ones run in pieces of at most chunkBytes.
	smallBytes    = 1 << 10
	smallElements = smallBytes >> byteShift
	chunkBytes    = 64 << 10
	chunkElements = chunkBytes >> byteShift
)

// costOf is what an instruction costs by itself: a call without its callee,
// a bulk instruction without its length. Those that only mark structure cost
// nothing, as no code is made of them; the end of a function is a return.
func costOf(op module.Opcode) int64 {
	switch op {
	case module.OpBlock, module.OpLoop, module.OpElse, module.OpEnd:
		return 0
	case module.OpRefFunc:
		return refCost
	case module.OpTableGrow:
		return growTableCost
	default:
		return 1
	}
}

const returnCost = 1

// hostCall is the summary of an imported function.
var hostCall = summary{pays: hostCallCost, pre: hostCallCost, thru: hostCallCost, post: none}

// frameCost is what each call of a function on a cycle costs beside its
// instructions. The engine's stack grows by a frame, with room for locals and
// for what the code has on its stack, and has to be stopped from growing in
// time (stack.go in host/sandbox).
func frameCost(b *module.Body) int64 { return 16 + int64(b.Locals)/2 + int64(b.Size())/8 }
