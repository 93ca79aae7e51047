package meter

import (
	"bytes"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

// TestHostileModulesKeepThePromises checks modules that try to run far without
// a check. Their function run ends after some time, or never.
func TestHostileModulesKeepThePromises(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, c := range []struct {
		name  string
		build func(m *tck.Module)
	}{
		{"loop", func(m *tck.Module) { entry(m, tck.Loop, tck.Branch(0), tck.End) }},
		{"loop that does nothing", func(m *tck.Module) { entry(m, tck.Loop, tck.Loop, tck.End, tck.Branch(0), tck.End) }},
		{"recursion without a loop", exponential},
		{"doubling of depth 60", func(m *tck.Module) { doubling(m, tck.Call) }},
		{"doubling of depth 60 through a table", throughTable},
		{"doubling above loops", doublingAboveLoops},
		{"recursion with a heavy end", func(m *tck.Module) { unwinding(m, 500) }},
		{"recursion with a light end", func(m *tck.Module) { unwinding(m, 1) }},
		{"recursion with no end", func(m *tck.Module) { unwinding(m, 0) }},
		{"recursion of two through a table", indirectRecursion},
		{"recursion in a loop", recursionInLoop},
		{"straight line", func(m *tck.Module) { entry(m, idle(20_000)) }},
		{"many call sites", manyCalls},
		{"branch tables", branchTables},
		{"checks in one arm", arms},
		{"deep blocks", func(m *tck.Module) {
			entry(m, bytes.Repeat(tck.Block, 5000), idle(10), tck.Branch(2500), bytes.Repeat(tck.End, 5000))
		}},
		{"deep loops", deepLoops},
		{"loops in a row", func(m *tck.Module) { entry(m, bytes.Repeat(slices.Concat(tck.Loop, idle(9), tck.End, idle(11)), 1000)) }},
		{"long ends of callees", longEnds},
		{"long starts of callees", longStarts},
		{"long callees through a table", func(m *tck.Module) { longThroughTable(m, idle(60)) }},
		{"long ends through a table", func(m *tck.Module) { longThroughTable(m, tck.Loop, tck.End, idle(60)) }},
		{"recursion behind a table", recursionBehindTable},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &tck.Module{}
			c.build(m)
			for _, l := range []limits{defaultLimits, {100, 100, 50, 100}, {1000, 10_000, 500, 1000}, {10_000, 1000, 5, 10_000}} {
				checkBound(t, t, m.Bytes(), l)
				checkSame(t, t, m.Bytes(), l)
			}
		})
	}
}

// entry adds the function run.
func entry(m *tck.Module, body ...[]byte) { m.Export("run", m.Func(nil, nil, nil, body...)) }

// idle returns n instructions that do nothing.
func idle(n int) []byte { return bytes.Repeat(tck.Nop, n) }

// exponential calls itself twice until a depth of 40.
func exponential(m *tck.Module) {
	self := tck.Func(0)
	m.Func(i32s, nil, nil,
		tck.LocalGet(0), tck.I32Eqz, tck.If, tck.Return, tck.End,
		tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.Call(self),
		tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.Call(self))
	entry(m, tck.I32Const(40), tck.Call(self))
}

// doubling is 60 functions, each of which calls the next one twice.
func doubling(m *tck.Module, call func(tck.Func) []byte) {
	next := m.Func(nil, nil, nil, idle(3))
	for range 60 {
		next = m.Func(nil, nil, nil, call(next), idle(1), call(next))
	}
	entry(m, call(next))
}

func throughTable(m *tck.Module) {
	m.Table(61)
	typ := m.Type(nil, nil)
	for i := range tck.Func(61) {
		m.Elements(int32(i), i)
	}
	doubling(m, func(f tck.Func) []byte { return slices.Concat(tck.I32Const(int32(f)), tck.CallIndirect(typ)) })
}

// doublingAboveLoops has a check in each leaf, so that the paths between two
// checks are short, but what would have to be paid in advance has no bound.
func doublingAboveLoops(m *tck.Module) {
	next := m.Func(nil, nil, nil, idle(3), tck.Loop, tck.End, idle(3))
	for range 60 {
		next = m.Func(nil, nil, nil, tck.Call(next), idle(1), tck.Call(next))
	}
	entry(m, tck.Call(next))
}

// unwinding recurses deeply, and then runs instructions after each call that
// returns.
func unwinding(m *tck.Module, end int) {
	self := tck.Func(0)
	m.Func(i32s, nil, nil,
		tck.LocalGet(0), tck.If,
		tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.Call(self),
		tck.End, idle(end))
	entry(m, tck.I32Const(20_000/int32(end+1)+1000), tck.Call(self))
}

func indirectRecursion(m *tck.Module) {
	m.Table(2)
	m.Elements(0, 0, 1)
	typ := m.Type(i32s, nil)
	for next := range int32(2) {
		m.Func(i32s, nil, nil,
			tck.LocalGet(0), tck.If,
			tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.I32Const(1-next), tck.CallIndirect(typ), idle(5),
			tck.End, idle(2))
	}
	entry(m, tck.I32Const(3000), tck.Call(0))
}

// recursionInLoop calls itself from a loop only: the loop's check is enough
// while the calls nest, but not while they return.
func recursionInLoop(m *tck.Module) {
	self := tck.Func(0)
	m.Func(i32s, nil, nil,
		tck.Block, tck.LocalGet(0), tck.I32Eqz, tck.BranchIf(0),
		tck.Loop, tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.Call(self), tck.End,
		tck.End, idle(40))
	entry(m, tck.I32Const(3000), tck.Call(self))
}

func manyCalls(m *tck.Module) {
	leaf := m.Func(nil, nil, nil, idle(90))
	entry(m, bytes.Repeat(tck.Call(leaf), 1000))
}

// branchTables jump into the middle of nested blocks.
func branchTables(m *tck.Module) {
	depths := make([]uint32, 2000)
	for i := range depths {
		depths[i] = uint32(i*7) % 50
	}
	m.Export("run", m.Func(nil, nil, i32s,
		tck.Loop,
		bytes.Repeat(tck.Block, 50),
		tck.LocalGet(0), tck.BranchTable(depths...),
		bytes.Repeat(slices.Concat(tck.End, idle(20)), 50),
		tck.LocalGet(0), tck.I32Const(1), tck.I32Add, tck.LocalTee(0), tck.I32Const(2000), tck.I32Ne, tck.BranchIf(0),
		tck.End))
}

// arms have a check on one path only, and then code that is paid on both.
func arms(m *tck.Module) {
	arm := func(which int32) []byte {
		return slices.Concat(tck.I32Const(which), tck.If, tck.Loop, tck.End, tck.Else, idle(30), tck.End, idle(20))
	}
	f := m.Func(nil, nil, nil, arm(0), arm(1), arm(0), arm(0))
	entry(m, bytes.Repeat(slices.Concat(arm(1), arm(0), tck.Call(f), arm(0)), 100))
}

func deepLoops(m *tck.Module) {
	const depth = 8
	var body [][]byte
	for i := range uint32(depth) {
		body = append(body, tck.I32Const(0), tck.LocalSet(i), tck.Loop, idle(5))
	}
	for i := range uint32(depth) {
		i = depth - 1 - i
		body = append(body, tck.LocalGet(i), tck.I32Const(1), tck.I32Add, tck.LocalTee(i), tck.I32Const(4), tck.I32Ne, tck.BranchIf(0), tck.End)
	}
	m.Export("run", m.Func(nil, nil, slices.Repeat(i32s, depth), body...))
}

// longStarts is a chain of functions that each run far until their first check.
func longStarts(m *tck.Module) {
	next := m.Func(nil, nil, nil, idle(900), tck.Loop, tck.End)
	for range 50 {
		next = m.Func(nil, nil, nil, idle(70), tck.Call(next), tck.Loop, tck.End)
	}
	entry(m, tck.Call(next))
}

// longThroughTable calls such a function often.
func longThroughTable(m *tck.Module, body ...[]byte) {
	m.Table(1)
	m.Elements(0, 0)
	m.Func(nil, nil, nil, body...)
	typ := m.Type(nil, nil)
	m.Export("run", m.Func(nil, i32s, nil, bytes.Repeat(slices.Concat(tck.I32Const(0), tck.CallIndirect(typ)), 300), tck.I32Const(1)))
}

// recursionBehindTable has a cycle that the walk enters by a signature.
func recursionBehindTable(m *tck.Module) {
	m.Table(1)
	m.Elements(0, 1)
	typ := m.Type(i32s, nil)
	entry(m, tck.I32Const(3000), tck.I32Const(0), tck.CallIndirect(typ), idle(30))
	m.Func(i32s, nil, nil,
		tck.LocalGet(0), tck.If,
		tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.I32Const(0), tck.CallIndirect(typ), idle(5),
		tck.End, idle(2))
}

// longEnds is a chain of functions that each run far between their last check
// and their return.
func longEnds(m *tck.Module) {
	next := m.Func(nil, nil, nil, tck.Loop, tck.End, idle(900))
	for range 50 {
		next = m.Func(nil, nil, nil, idle(30), tck.Call(next), idle(400))
	}
	entry(m, tck.Call(next))
}
