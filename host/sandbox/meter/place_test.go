package meter

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// TestPlacesOfChecks lists the checks of each function as "offset:amount". A
// function that its callers pay for has none. A return and a branch cost two, a
// call eight; the begin and the end of a block cost nothing, and a function one
// for each 32 bytes of its code.
func TestPlacesOfChecks(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(m *tck.Module)
		want  string
	}{
		{"exported", func(m *tck.Module) { entry(m, idle(3)) }, "0:5"},
		{"not called", func(m *tck.Module) { m.Func(nil, nil, nil, idle(3)) }, "-"},
		{"callee is paid by the caller", func(m *tck.Module) {
			entry(m, tck.Call(m.Func(nil, nil, nil, idle(3))))
		}, "- | 0:15"},
		{"long callee pays for itself", func(m *tck.Module) {
			entry(m, tck.Call(m.Func(nil, nil, nil, idle(500))))
		}, "0:517 | 0:10"},
		{"imported callee", func(m *tck.Module) {
			entry(m, tck.Call(m.Import("env", "same", nil, nil)))
		}, "0:110"},
		{"loop", func(m *tck.Module) {
			entry(m, idle(3), tck.Loop, idle(5), tck.I32Const(0), tck.BranchIf(0), tck.End, idle(2))
		}, "0:7 5:8"},
		{"loop in a loop", func(m *tck.Module) {
			entry(m, tck.Loop, idle(1), tck.Loop, idle(5), tck.End, idle(1), tck.End)
		}, "0:2 2:2 5:5"},
		{"the longer arm", func(m *tck.Module) {
			entry(m, tck.I32Const(1), tck.If, idle(2), tck.Else, idle(9), tck.End, idle(1))
		}, "0:15"},
		{"one arm or none", func(m *tck.Module) {
			entry(m, tck.I32Const(1), tck.If, idle(2), tck.End)
		}, "0:7"},
		{"what cannot be reached", func(m *tck.Module) {
			entry(m, tck.Block, tck.Branch(0), idle(50), tck.Loop, idle(50), tck.End, tck.End, idle(1))
		}, "0:8"},
		{"branch over code", func(m *tck.Module) {
			entry(m, tck.Block, tck.I32Const(1), tck.BranchIf(0), idle(9), tck.Return, tck.End, idle(1))
		}, "0:14"},
		{"long straight line", func(m *tck.Module) { entry(m, idle(9000)) }, "0:4000 3719:4000 7719:1283"},
		{"long arm", func(m *tck.Module) {
			entry(m, idle(2000), tck.I32Const(1), tck.If, idle(4000), tck.End, idle(1000))
		}, "0:4000 3783:2221 6005:1002"},
		{"calls itself", func(m *tck.Module) { m.Func(nil, nil, nil, idle(3), tck.Call(0)) }, "0:27 5:2"},
		{"each calls the other", func(m *tck.Module) {
			m.Func(nil, nil, nil, tck.Call(1))
			m.Func(nil, nil, nil, tck.Call(0))
		}, "0:50 2:2 | -"},
		{"call with many values", func(m *tck.Module) {
			entry(m, bytes.Repeat(tck.I32Const(0), 12), tck.Call(m.Func(slices.Repeat(i32s, 12), nil, nil)))
		}, "- | 0:29"},
		{"branch with many values", func(m *tck.Module) {
			many := m.Type(slices.Repeat(i32s, 12), nil)
			entry(m, bytes.Repeat(tck.I32Const(0), 12), tck.LoopOf(many), tck.Branch(0), tck.End)
		}, "0:16 26:6"},
		{"callee with a large frame", func(m *tck.Module) {
			entry(m, tck.Call(m.Func(nil, nil, slices.Repeat(i32s, 5000))))
		}, "0:627 | 0:10"},
		{"small copy", func(m *tck.Module) {
			m.Memory(1)
			entry(m, tck.I32Const(0), tck.I32Const(8), tck.I32Const(80), tck.MemoryCopy)
		}, "0:24"},
		{"copy of any length", func(m *tck.Module) {
			m.Memory(1)
			m.Export("run", m.Func(i32s, nil, nil, tck.I32Const(0), tck.I32Const(8), tck.LocalGet(0), tck.MemoryCopy))
		}, "0:206"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &tck.Module{}
			c.build(m)
			if got := places(t, parse(t, m.Bytes())); got != c.want {
				t.Errorf("checks = %s, want %s", got, c.want)
			}
		})
	}
}

// TestFramesDoNotLengthenRuns: a frame is paid, but is not what runs between two checks.
func TestFramesDoNotLengthenRuns(t *testing.T) {
	m := &tck.Module{}
	entry(m, tck.Call(m.Func(nil, nil, slices.Repeat(i32s, 50_000), idle(150_000))))
	if _, r := rewrite(t, m.Bytes(), Options{}); r.Bound > defaultLimits.run {
		t.Errorf("bound = %d", r.Bound)
	}
}

func places(t *testing.T, m *module.Module) string {
	t.Helper()
	p := newPlan(m, Options{})
	p.place()
	functions := make([]string, len(p.checks))
	for i, checks := range p.checks {
		for _, c := range checks {
			functions[i] += fmt.Sprintf(" %d:%d", c.at, c.amount)
		}
		functions[i] = strings.TrimSpace(functions[i])
		if functions[i] == "" {
			functions[i] = "-"
		}
	}
	return strings.Join(functions, " | ")
}
