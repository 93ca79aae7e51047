package meter

import (
	"slices"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// length pushes the length of a bulk instruction: a constant or a computed
// number, small or large.
func (b *body) length(most int) {
	b.emit(tck.I32Const(int32(b.number(0, most))))
	if b.one(2) {
		b.emit(tck.I32Const(0), tck.I32Add)
	}
}

func (b *body) bulk() {
	const most = 66_000
	b.emit(tck.I32Const(int32(b.number(0, 4000))))
	switch b.number(0, 2) {
	case 0:
		b.emit(tck.I32Const(int32(b.number(0, 4000))))
		b.length(most)
		b.emit(tck.MemoryCopy)
	case 1:
		b.expr(wasm.I32)
		b.length(most)
		b.emit(tck.MemoryFill)
	case 2:
		b.emit(tck.I32Const(int32(b.number(0, 100))))
		b.length(3000)
		b.emit(tck.MemoryInit(b.segment))
	}
	if b.one(3) {
		b.emit(tck.I32Const(int32(b.number(0, 2))), tck.MemoryGrow, tck.Drop)
	}
	if b.one(20) {
		b.emit(tck.DataDrop(b.segment))
	}
}

func tableCopy(to, from uint32) []byte { return op(wasm.OpTableCopy, to, from) }
func tableFill(table uint32) []byte    { return op(wasm.OpTableFill, table) }

func (b *body) bulkTable() {
	table := uint32(b.number(0, 1))
	b.emit(tck.I32Const(int32(b.number(0, 100))))
	switch b.number(0, 3) {
	case 0:
		b.emit(tck.I32Const(int32(b.number(0, 100))))
		b.length(200)
		b.emit(tableCopy(table, uint32(b.number(0, 1))))
	case 1:
		b.emit(tck.NullFunc)
		b.length(200)
		b.emit(tableFill(table))
	case 2:
		b.emit(tck.I32Const(0))
		b.length(1)
		b.emit(tck.TableInit(0))
	case 3:
		b.emit(tck.Drop, tck.NullFunc)
		b.length(20)
		b.emit(tck.TableGrow, tck.Drop)
	}
}

func (b *body) exprs(ts types) {
	for _, t := range ts {
		b.expr(t)
	}
}

// expr pushes a value.
func (b *body) expr(t wasm.ValueType) {
	if b.left <= 0 {
		b.constant(t)
		return
	}
	choices := []func(wasm.ValueType){b.constant, b.read, b.read, b.global, b.arithmetic, b.arithmetic, b.result, b.choose, b.blockOf}
	choices[b.number(0, len(choices)-1)](t)
}

func (b *body) read(t wasm.ValueType) {
	if i := b.local(t); i >= 0 {
		b.emit(tck.LocalGet(uint32(i)))
		return
	}
	b.constant(t)
}

func (b *body) global(t wasm.ValueType) {
	at := uint32(b.number(0, len(b.globals)-1))
	if b.globals[at] != t {
		at = map[wasm.ValueType]uint32{wasm.I32: 0, wasm.I64: 1}[t]
	}
	b.emit(tck.GlobalGet(at))
}

func (b *body) arithmetic(t wasm.ValueType) {
	if t == wasm.I64 {
		b.exprs(types{t, t})
		b.emit(tck.I64Add)
		return
	}
	b.exprs(types{t, t})
	b.emit([][]byte{tck.I32Add, tck.I32Sub, tck.I32Mul, tck.I32Eq, tck.I32DivS}[b.number(0, 4)])
	if b.one(4) {
		b.emit(tck.I32Const(0xfff), op(i32And), tck.I32Load)
	}
}

const i32And wasm.Opcode = 0x71

// result calls a function that returns one value of that type.
func (b *body) result(t wasm.ValueType) {
	for i, kind := range b.kinds {
		if s := signatures[kind]; slices.Equal(s.results, types{t}) && b.one(2) {
			b.exprs(s.params)
			b.emit(tck.Call(tck.Func(i)))
			return
		}
	}
	b.constant(t)
}

// choose is an if that leaves a value.
func (b *body) choose(t wasm.ValueType) {
	b.expr(wasm.I32)
	b.open(label{types: types{t}}, blockWithResult(wasm.OpIf, t))
	b.statements()
	b.expr(t)
	b.emit(tck.Else)
	b.expr(t)
	b.close()
}

func (b *body) blockOf(t wasm.ValueType) {
	b.open(label{types: types{t}}, blockWithResult(wasm.OpBlock, t))
	b.statements()
	b.expr(t)
	b.close()
}

// blockWithResult begins a block that leaves one value. The format encodes the
// value type as a negative number of seven bits.
func blockWithResult(op wasm.Opcode, t wasm.ValueType) []byte {
	in := wasm.Instruction{Op: op, Value: int64(t) - 0x80}
	return in.Append(nil)
}
