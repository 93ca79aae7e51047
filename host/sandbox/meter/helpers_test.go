package meter

import (
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// TestHelpersDoWhatTheirInstructionsDo compares bulk instructions that run in
// chunks with those that run at once: lengths around the sizes of chunks,
// overlaps in both directions, and operands out of bounds at either end.
func TestHelpersDoWhatTheirInstructionsDo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, op := range []struct {
		name  string
		unit  int32 // bytes or elements in a chunk
		size  int32 // of what is written
		froms func(to int32) []int32
		build func(m *tck.Module, to, from, length int32) []byte
	}{
		{"memory.copy", chunkBytes, 4 << 16, near, memoryCopy},
		{"memory.fill", chunkBytes, 4 << 16, few, memoryFill},
		{"memory.init", chunkBytes, 4 << 16, few, memoryInit},
		{"table.copy", chunkElements, 2*chunkElements + 4000, near, tablesCopy},
		{"table.fill", chunkElements, 2*chunkElements + 4000, few, tablesFill},
		{"table.init", chunkElements, 2*chunkElements + 4000, few, tablesInit},
	} {
		t.Run(op.name, func(t *testing.T) {
			for _, to := range []int32{0, 5, op.unit, op.size - 2*op.unit - 1, op.size - 1, op.size, -1} {
				for _, from := range op.froms(to) {
					for _, length := range lengths(op.unit) {
						checkBulk(t, op.build, to, from, length)
					}
				}
			}
		})
	}
}

func lengths(unit int32) []int32 {
	return []int32{0, 1, unit/64 + 1, unit, unit + 1, 2*unit + 1, 3*unit + 7, -1}
}

// near returns sources that overlap with the destination.
func near(to int32) []int32 { return []int32{0, to - 3, to, to + 3, to + 70_000, -1} }

func few(int32) []int32 { return []int32{0, 1, 3 << 16} }

func checkBulk(t *testing.T, build func(*tck.Module, int32, int32, int32) []byte, to, from, length int32) {
	t.Helper()
	m := &tck.Module{}
	plain := build(m, to, from, length)
	metered, _ := rewrite(t, plain, Options{})
	r := runner{limit: 1 << 40, slice: 1 << 40, interpret: len(plain) > 100_000}
	with, without := r.run(t, metered), r.run(t, plain)
	if trapOf(with.err) != trapOf(without.err) || !slices.Equal(with.results, without.results) || !slices.Equal(with.memory, without.memory) {
		t.Errorf("to %d from %d length %d: %v with fuel, %v without", to, from, length, with.err, without.err)
	}
	if with.err == nil && with.fuel < int64(uint32(length))>>byteShift {
		t.Errorf("length %d: %d fuel", length, with.fuel)
	}
}

func memoryOf(m *tck.Module, body ...[]byte) []byte {
	m.Memory(4)
	m.ExportMemory("memory")
	m.Data(0, pattern(100_000))
	m.Export("run", m.Func(nil, nil, nil, body...))
	return m.Bytes()
}

// operands pushes three numbers, of which the last one is not a constant.
func operands(to, from, length int32) []byte {
	return slices.Concat(tck.I32Const(to), tck.I32Const(from), tck.I32Const(length), tck.I32Const(0), tck.I32Add)
}

func memoryCopy(m *tck.Module, to, from, length int32) []byte {
	return memoryOf(m, operands(to, from, length), tck.MemoryCopy)
}

func memoryFill(m *tck.Module, to, from, length int32) []byte {
	return memoryOf(m, operands(to, from, length), tck.MemoryFill)
}

func memoryInit(m *tck.Module, to, from, length int32) []byte {
	return memoryOf(m, operands(to, from, length), tck.MemoryInit(m.Passive(pattern(200_000))))
}

// tableOf has two tables of which every third element is a function. Its
// function look writes into memory, one byte for each element, what they hold.
func tableOf(m *tck.Module, body ...[]byte) []byte {
	const size = 2*chunkElements + 4000
	m.Memory(1)
	m.ExportMemory("memory")
	m.Table(size)
	m.Table(size)
	f := m.Func(nil, nil, nil)
	m.Export("fill", m.Func(nil, nil, types{wasm.I32},
		each(size, slices.Concat(tck.LocalGet(0), tck.RefFunc(f), tableSet(0), tck.LocalGet(0), tck.RefFunc(f), tableSet(1)), 3)))
	look := func(table byte) []byte {
		return slices.Concat(tck.LocalGet(0), tck.LocalGet(0), tableGet(uint32(table)), op(wasm.OpRefIsNull), []byte{0x3a, 0, table}) // i32.store8
	}
	m.Export("look", m.Func(nil, nil, types{wasm.I32}, each(size, look(0), 1)))
	m.Declare(f)
	m.Export("run", m.Func(nil, nil, nil, append([][]byte{tck.Call(f + 1)}, body...)...))
	return m.Bytes()
}

// each runs a body with local 0 counting up to size.
func each(size int32, body []byte, step int32) []byte {
	return slices.Concat(tck.I32Const(0), tck.LocalSet(0), tck.Loop, body,
		tck.LocalGet(0), tck.I32Const(step), tck.I32Add, tck.LocalTee(0), tck.I32Const(size), tck.I32LtU, tck.BranchIf(0), tck.End)
}

func op(code wasm.Opcode, immediates ...uint32) []byte {
	return wasm.AppendOp(nil, code, immediates...)
}

func tableGet(table uint32) []byte { return op(wasm.OpTableGet, table) }
func tableSet(table uint32) []byte { return op(wasm.OpTableSet, table) }

func tablesCopy(m *tck.Module, to, from, length int32) []byte {
	return tableOf(m, operands(to, from, length), tableCopy(0, uint32(to)&1))
}

func tablesFill(m *tck.Module, to, _, length int32) []byte {
	return tableOf(m, tck.I32Const(to), tck.NullFunc, tck.I32Const(length), tck.I32Const(0), tck.I32Add, tableFill(0))
}

func tablesInit(m *tck.Module, to, from, length int32) []byte {
	s := m.PassiveElements(slices.Repeat([]tck.Func{0}, 2*chunkElements)...)
	return tableOf(m, operands(to, from, length), tck.TableInit(s))
}
