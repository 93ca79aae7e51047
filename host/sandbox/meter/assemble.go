package meter

import (
	"encoding/binary"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// code is WebAssembly that is being written.
type code []byte

const (
	opI32Add     = 0x6a
	opI32Sub     = 0x6b
	opI32LtU     = 0x49
	opI32GtU     = 0x4b
	opI32Or      = 0x72
	opI64LtS     = 0x53
	opI64GtU     = 0x56
	opI64Add     = 0x7c
	opI64Sub     = 0x7d
	opI64Mul     = 0x7e
	opI64Shl     = 0x86
	opSelect     = 0x1b
	opI64ShrU    = 0x88
	opI64ExtendU = 0xad
	emptyType    = 0x40
)

func (c *code) op(ops ...byte) { *c = append(*c, ops...) }

func (c *code) index(op module.Opcode, index uint32) {
	*c = binary.AppendUvarint(append(*c, byte(op)), uint64(index))
}

func (c *code) get(local uint32) { c.index(module.OpLocalGet, local) }

func (c *code) set(local uint32) { c.index(module.OpLocalSet, local) }

func (c *code) gets(locals ...uint32) {
	for _, l := range locals {
		c.get(l)
	}
}

func (c *code) i32(v int32) {
	*c = module.AppendSigned(append(*c, byte(module.OpI32Const)), int64(v))
}

func (c *code) i64(v int64) { *c = module.AppendSigned(append(*c, byte(module.OpI64Const)), v) }

// when begins a block that runs if the number on the stack is not zero.
func (c *code) when() { c.op(byte(module.OpIf), emptyType) }

func (c *code) loop() { c.op(byte(module.OpLoop), emptyType) }

func (c *code) otherwise() { c.op(byte(module.OpElse)) }

func (c *code) end() { c.op(byte(module.OpEnd)) }

func (c *code) do(op module.Opcode, a, b uint32) {
	in := module.Instruction{Op: op, A: a, B: b}
	*c = in.Append(*c)
}
