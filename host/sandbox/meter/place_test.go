package meter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// TestPlacesOfChecks lists the checks of each function as "offset:amount". A
// function that its callers pay for has none. A return costs one; the begin and
// the end of a block cost nothing.
func TestPlacesOfChecks(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(m *tck.Module)
		want  string
	}{
		{"exported", func(m *tck.Module) { entry(m, idle(3)) }, "0:4"},
		{"not called", func(m *tck.Module) { m.Func(nil, nil, nil, idle(3)) }, "-"},
		{"callee is paid by the caller", func(m *tck.Module) {
			entry(m, tck.Call(m.Func(nil, nil, nil, idle(3))))
		}, "- | 0:6"},
		{"long callee pays for itself", func(m *tck.Module) {
			entry(m, tck.Call(m.Func(nil, nil, nil, idle(300))))
		}, "0:301 | 0:2"},
		{"imported callee", func(m *tck.Module) {
			entry(m, tck.Call(m.Import("env", "same", nil, nil)))
		}, "0:102"},
		{"loop", func(m *tck.Module) {
			entry(m, idle(3), tck.Loop, idle(5), tck.I32Const(0), tck.BranchIf(0), tck.End, idle(2))
		}, "0:6 5:7"},
		{"loop in a loop", func(m *tck.Module) {
			entry(m, tck.Loop, idle(1), tck.Loop, idle(5), tck.End, idle(1), tck.End)
		}, "0:1 2:2 5:5"},
		{"the longer arm", func(m *tck.Module) {
			entry(m, tck.I32Const(1), tck.If, idle(2), tck.Else, idle(9), tck.End, idle(1))
		}, "0:13"},
		{"one arm or none", func(m *tck.Module) {
			entry(m, tck.I32Const(1), tck.If, idle(2), tck.End)
		}, "0:5"},
		{"what cannot be reached", func(m *tck.Module) {
			entry(m, tck.Block, tck.Branch(0), idle(50), tck.Loop, idle(50), tck.End, tck.End, idle(1))
		}, "0:3"},
		{"branch over code", func(m *tck.Module) {
			entry(m, tck.Block, tck.I32Const(1), tck.BranchIf(0), idle(9), tck.Return, tck.End, idle(1))
		}, "0:13"},
		{"long straight line", func(m *tck.Module) { entry(m, idle(4500)) }, "0:2000 2000:2000 4000:501"},
		{"long arm", func(m *tck.Module) {
			entry(m, idle(1000), tck.I32Const(1), tck.If, idle(2000), tck.End, idle(500))
		}, "0:2000 2002:1002 3005:501"},
		{"calls itself", func(m *tck.Module) { m.Func(nil, nil, nil, idle(3), tck.Call(0)) }, "0:20 5:1"},
		{"each calls the other", func(m *tck.Module) {
			m.Func(nil, nil, nil, tck.Call(1))
			m.Func(nil, nil, nil, tck.Call(0))
		}, "0:35 2:1 | -"},
		{"small copy", func(m *tck.Module) {
			m.Memory(1)
			entry(m, tck.I32Const(0), tck.I32Const(8), tck.I32Const(80), tck.MemoryCopy)
		}, "0:15"},
		{"copy of any length", func(m *tck.Module) {
			m.Memory(1)
			m.Export("run", m.Func(i32s, nil, nil, tck.I32Const(0), tck.I32Const(8), tck.LocalGet(0), tck.MemoryCopy))
		}, "0:197"},
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

func places(t *testing.T, m *module.Module) string {
	t.Helper()
	p := newPlan(m, defaultLimits)
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
