package meter

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

func TestRewriteRefusesReservedNamesAndTooManyChecks(t *testing.T) {
	for _, c := range []struct {
		name, want string
		build      func(m *tck.Module)
	}{
		{"import from the reserved module", `module name "thole" is reserved`, func(m *tck.Module) { m.Import("thole", "tick", i64s, i64s) }},
		{"export of the fuel", `reserved prefix "thole."`, func(m *tck.Module) { m.Global(1); m.ExportGlobal(FuelExport, 0) }},
		{"export of a global that is to be restored", `reserved prefix "thole."`, func(m *tck.Module) { m.Global(1); m.ExportGlobal(module.GlobalExport(0), 0) }},
		{"too many checks", "function 1: too large: it needs 4203 checks, the limit is 4096", func(m *tck.Module) {
			f := m.Func(nil, nil, nil, idle(370))
			entry(m, bytes.Repeat(tck.Call(f), 42_020))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &tck.Module{}
			c.build(m)
			if _, _, err := Rewrite(parse(t, m.Bytes()), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

// TestRewriteBoundsItsOutput has loops, which checks make seven times as large.
func TestRewriteBoundsItsOutput(t *testing.T) {
	m := &tck.Module{}
	body := bytes.Repeat(slices.Concat(tck.Loop, tck.End), 2000)
	for range 900 {
		m.Func(nil, nil, nil, body)
	}
	if _, _, err := Rewrite(parse(t, m.Bytes()), Options{}); !errors.Is(err, module.ErrGrows) {
		t.Errorf("error = %v", err)
	}
}

// TestRewriteAppendsToEachIndexSpace: what is added comes behind the module's
// own, and the indices of functions are adjusted.
func TestRewriteAppendsToEachIndexSpace(t *testing.T) {
	m := &tck.Module{}
	imported := m.Import("env", "same", i32s, i32s)
	m.Memory(1)
	m.Global(3)
	f := m.Func(i32s, i32s, nil, tck.LocalGet(0), tck.Call(imported))
	m.Table(2)
	m.Elements(0, imported, f)
	m.Export("run", m.Func(nil, i32s, nil, tck.I32Const(0), tck.I32Const(0), tck.CallIndirect(m.Type(i32s, i32s))))
	m.Start(m.Func(nil, nil, nil, tck.I32Const(1), tck.Call(f), tck.Drop))
	m.Names(map[tck.Func]string{f: "f"})
	before := parse(t, m.Bytes())
	out, report := rewrite(t, m.Bytes(), Options{Exports: []wasm.Export{{Name: "g", Kind: wasm.KindGlobal, Index: 0}}})
	after := parse(t, out)

	if want := (wasm.Import{Module: "thole", Name: "tick", Kind: wasm.KindFunction, Type: tickType}); len(after.Imports) != 2 || after.Imports[1] != want {
		t.Errorf("imports = %v", after.Imports)
	}
	if !slices.Equal(after.Functions[2:5], before.Functions[1:]) {
		t.Errorf("functions = %v", after.Functions)
	}
	for name, want := range map[string]wasm.Export{
		"run":              {Name: "run", Kind: wasm.KindFunction, Index: 3},
		FuelExport:         {Name: FuelExport, Kind: wasm.KindGlobal, Index: 1},
		module.StartExport: {Name: module.StartExport, Kind: wasm.KindFunction, Index: 4},
		"g":                {Name: "g", Kind: wasm.KindGlobal, Index: 0},
	} {
		if e, _ := after.ExportOf(name); e != want {
			t.Errorf("export = %v, want %v", e, want)
		}
	}
	if !after.Escaped[0] || after.Escaped[1] || !after.Escaped[2] {
		t.Errorf("escaped = %v", after.Escaped)
	}
	if report.Checks != 2 || report.Bound <= 0 {
		t.Errorf("report = %+v", report)
	}
}

func TestAddedFrame(t *testing.T) {
	for frame, want := range map[string]bool{"thole.tick": true, "thole.meter.refuel": true, "thole.meter.bulk": true, "main.tick": false, "$3": false} {
		if AddedFrame(frame) != want {
			t.Errorf("%s: added = %v", frame, !want)
		}
	}
}

func TestKeyDiffersByOptions(t *testing.T) {
	keys := []string{Options{}.Key(), Options{Unchecked: true}.Key(), Options{limits: limits{segment: 1}}.Key()}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 3 {
		t.Errorf("keys = %q", keys)
	}
	if (Options{}).Key() != (Options{limits: defaultLimits}).Key() {
		t.Error("the zero value and the defaults have different keys")
	}
}
