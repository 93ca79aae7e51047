package meter

import (
	"runtime"

	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// This file has the helpers for remainders. The compiler of the engine for arm64 (wazero 1.12.0)
// returns something else for a remainder where there are more values than registers (wazero#2508).
// Divisions are right. With a release that has the fix, this file can go.

// wrongRemainders is whether the engine's compiler makes wrong code of remainders.
const wrongRemainders = runtime.GOARCH == "arm64"

func isRemainder(op wasm.Opcode) bool {
	switch op {
	case wasm.OpI32RemS, wasm.OpI32RemU, wasm.OpI64RemS, wasm.OpI64RemU:
		return true
	default:
		return false
	}
}

// defineRemainder writes the helper for a remainder: what the division leaves. It costs the guest no
// more than the instruction, so that a call has the same fuel on every processor.
func defineRemainder(op wasm.Opcode) module.Defined {
	const dividend, divisor = 0, 1
	division := op - (wasm.OpI32RemS - wasm.OpI32DivS)
	of, equal, multiply, subtract := wasm.I32, wasm.OpI32Eq, wasm.OpI32Mul, wasm.OpI32Sub
	var c code
	number := func(v int32) { c.i32(v) }
	if op >= wasm.OpI64RemS {
		of, equal, multiply, subtract = wasm.I64, wasm.OpI64Eq, wasm.OpI64Mul, wasm.OpI64Sub
		number = func(v int32) { c.i64(int64(v)) }
	}
	if op == wasm.OpI32RemS || op == wasm.OpI64RemS { // the least number by -1 is no number
		c.get(divisor)
		number(-1)
		c.op(equal)
		c.block(wasm.OpIf)
		number(0)
		c.ops(wasm.OpReturn, wasm.OpEnd)
	}
	c.get(dividend, dividend, divisor)
	c.op(division) // traps by zero
	c.get(divisor)
	c.ops(multiply, subtract, wasm.OpEnd)
	return module.Defined{Name: framePrefix + "remainder", Type: wasm.Signature([]wasm.ValueType{of, of}, of), Code: c}
}
