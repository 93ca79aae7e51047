package meter

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// TestRemaindersAmongManyValues runs divisions and remainders among more values than a processor has
// registers, in the engine's compiler and in its interpreter (wazero#2508).
func TestRemaindersAmongManyValues(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		binary := amongManyValues(rand.New(rand.NewPCG(seed, 0)))
		want := runner{slice: 1000, limit: 1 << 40, interpret: true}.run(t, binary)
		var fuel []int64
		for _, o := range []Options{{}, {remainders: true}} {
			rewritten, _ := rewrite(t, binary, o)
			got := runner{slice: 1000, limit: 1 << 40}.run(t, rewritten)
			if want.err != nil || got.err != nil || got.results[0] != want.results[0] {
				t.Errorf("seed %d: the compiled code returns %v, %v, want %v, %v", seed, got.results, got.err, want.results, want.err)
			}
			fuel = append(fuel, got.fuel)
		}
		if fuel[0] != fuel[1] {
			t.Errorf("seed %d: it costs %d of fuel without helpers, and %d with them", seed, fuel[0], fuel[1])
		}
	}
}

// amongManyValues returns a module whose function run calculates with 40 values of each type.
func amongManyValues(random *rand.Rand) []byte {
	const values, operations = 40, 400
	var c code
	for i := range uint32(values) {
		c.i32(random.Int32())
		c.op(wasm.OpLocalSet, i)
		c.i64(int64(random.Uint64()))
		c.op(wasm.OpLocalSet, values+i)
	}
	any32 := func() uint32 { return random.Uint32N(values) }
	for range operations {
		wide := random.IntN(2) == 1
		first, op := uint32(0), wasm.OpI32DivS
		if wide {
			first, op = values, wasm.OpI64DivS
		}
		op += wasm.Opcode(random.IntN(4)) // div_s, div_u, rem_s, rem_u
		if random.IntN(3) == 0 {
			op = wasm.OpI32Mul
			if wide {
				op = wasm.OpI64Mul
			}
		}
		c.get(first + any32())
		c.get(first + any32())
		switch { // by an odd number
		case op.IsDivision() && wide:
			c.i64(1)
			c.op(wasm.OpI64Or)
		case op.IsDivision():
			c.i32(1)
			c.op(wasm.OpI32Or)
		}
		c.op(op)
		c.op(wasm.OpLocalSet, first+any32())
	}
	c.i64(0)
	for i := range uint32(values) {
		c.get(i)
		c.op(wasm.OpI64ExtendI32U)
		c.ops(wasm.OpI64Add)
		c.i64(31)
		c.ops(wasm.OpI64Mul)
		c.get(values + i)
		c.ops(wasm.OpI64Add)
	}
	m := &tck.Module{}
	locals := make([]wasm.ValueType, 2*values)
	for i := range locals {
		locals[i] = wasm.I32
		if i >= values {
			locals[i] = wasm.I64
		}
	}
	m.Export("run", m.Func(nil, []wasm.ValueType{wasm.I64}, locals, c))
	return m.Bytes()
}

// TestRemaindersOfAllNumbers: the helpers return what the instructions do, and trap as they do.
func TestRemaindersOfAllNumbers(t *testing.T) {
	numbers := []int64{0, 1, -1, 2, -2, 3, 7, -7, 1000, math.MaxInt32, math.MinInt32, math.MaxUint32, math.MaxInt64, math.MinInt64, math.MinInt64 + 1}
	for _, op := range []wasm.Opcode{wasm.OpI32RemS, wasm.OpI32RemU, wasm.OpI64RemS, wasm.OpI64RemU} {
		for _, a := range numbers {
			for _, b := range numbers {
				var c code
				of := wasm.I64
				if op <= wasm.OpI32RemU {
					of = wasm.I32
					c.i32(int32(a))
					c.i32(int32(b))
				} else {
					c.i64(a)
					c.i64(b)
				}
				c.op(op)
				m := &tck.Module{}
				m.Export("run", m.Func(nil, []wasm.ValueType{of}, nil, c))
				want := runner{interpret: true}.run(t, m.Bytes())
				rewritten, _ := rewrite(t, m.Bytes(), Options{remainders: true})
				got := runner{slice: 1000, limit: 1 << 40, interpret: true}.run(t, rewritten)
				if !slices.Equal(got.results, want.results) || trapOf(got.err) != trapOf(want.err) {
					t.Errorf("%#x of %d and %d: got %v, %v, want %v, %v", op, a, b, got.results, got.err, want.results, want.err)
				}
			}
		}
	}
}
