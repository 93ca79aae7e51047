package sandbox

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// TestInspectAgreesWithLoad for every guest of the conformance kit, including those
// that are refused at each step.
func TestInspectAgreesWithLoad(t *testing.T) {
	s := newSandbox(t, Config{})
	for _, c := range tck.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			p := Plugin{Name: c.Name, Wasm: c.Wasm(), Limits: Limits{MemoryBytes: 16 << 20, Deadline: time.Minute}}
			g, err := s.Load(t.Context(), p)
			seen := s.Inspect(t.Context(), p)
			if errorText(seen.Err) != errorText(err) {
				t.Errorf("error of Inspect: %v, of Load: %v", seen.Err, err)
			}
			if err != nil {
				return
			}
			defer closeGuest(t, g)
			if seen.Digest != hex.EncodeToString(g.digest[:]) || seen.Manifest.Name != c.Name || seen.Module.Mode != g.mode.String() {
				t.Errorf("Inspect: %+v in mode %s, Load: %x in mode %s", seen, seen.Module.Mode, g.digest, g.mode)
			}
			for _, symbol := range slices.Concat(seen.Module.Imports, seen.Module.Exports) {
				if symbol.Problem != "" {
					t.Errorf("%s.%s: %s", symbol.Module, symbol.Name, symbol.Problem)
				}
			}
		})
	}
	if len(s.guests) > 0 {
		t.Errorf("%d guests are left", len(s.guests))
	}
}

func inspectCase(t *testing.T, name string) Inspection {
	t.Helper()
	return newSandbox(t, Config{}).Inspect(t.Context(), Plugin{Name: name, Wasm: kitCase(t, name).Wasm()})
}

func TestInspectDescribesTheModule(t *testing.T) {
	m := inspectCase(t, "all-exports").Module
	if !slices.Equal(m.Versions, []string{abi.Version}) {
		t.Errorf("versions %q", m.Versions)
	}
	if want := (MemoryInfo{Initial: 128 << 10, Start: 128 << 10, Limit: 64 << 20}); m.Memory != want {
		t.Errorf("memory %+v, want %+v", m.Memory, want)
	}
	var have []string
	for _, e := range m.Exports {
		have = append(have, e.Name+" "+e.Type)
	}
	want := []string{
		"thole_v1 () -> ()", "describe () -> i32", "reconcile (i32) -> i32",
		"_initialize () -> ()", "warm () -> i32",
		"convert (i32) -> i32", "daemon (i32) -> i32", "index (i32) -> i32", "mutate (i32) -> i32", "scan (i32) -> i32", "validate (i32) -> i32", "memory memory",
	}
	if !slices.Equal(have, want) {
		t.Errorf("exports %q, want %q", have, want)
	}
}

func TestInspectReportsEveryProblem(t *testing.T) {
	problems := func(m *ModuleInfo) (out []string) {
		for _, symbol := range slices.Concat(m.Imports, m.Exports) {
			if symbol.Problem != "" {
				out = append(out, symbol.Name+": "+symbol.Problem)
			}
		}
		return out
	}
	for name, want := range map[string]string{
		"unknown-import":         `outptu: import "thole/v1.outptu" is not known`,
		"wrong-import-signature": `log: import "thole/v1.log" has the signature`,
		"missing-marker":         `thole_v1: export "thole_v1" is missing`,
		"missing-export":         `reconcile: export "reconcile" is missing`,
		"wrong-kind":             `reconcile: export "reconcile" is a memory`,
		"huge-memory":            `memory: export "memory" starts with 4096 MiB`,
	} {
		found := problems(inspectCase(t, name).Module)
		if len(found) != 1 || !strings.HasPrefix(found[0], want) {
			t.Errorf("%s: %q, want %q", name, found, want)
		}
	}
}

// TestInspectReturnsTheManifestOfAFailedLoad if describe succeeded.
func TestInspectReturnsTheManifestOfAFailedLoad(t *testing.T) {
	for name, manifest := range map[string]string{
		"warm-traps":          "warm-traps",
		"manifest-other-name": "other-plugin",
	} {
		seen := inspectCase(t, name)
		if seen.Err == nil || seen.Manifest == nil || seen.Manifest.Name != manifest {
			t.Errorf("%s: error %v, manifest %+v", name, seen.Err, seen.Manifest)
		}
	}
	for _, name := range []string{"describe-traps", "manifest-not-json", "manifest-unknown-field"} {
		if seen := inspectCase(t, name); seen.Err == nil || seen.Manifest != nil {
			t.Errorf("%s: error %v, manifest %+v", name, seen.Err, seen.Manifest)
		}
	}
}

// TestInspectOfAnInvalidNameDescribesTheModule, and no code is run.
func TestInspectOfAnInvalidNameDescribesTheModule(t *testing.T) {
	seen := newSandbox(t, Config{}).Inspect(t.Context(), Plugin{Name: "Not_A_Label", Wasm: kitCase(t, "correct").Wasm()})
	if seen.Err == nil || !strings.Contains(seen.Err.Error(), "is not a DNS label") || seen.Manifest != nil || seen.Module == nil {
		t.Errorf("%+v", seen)
	}
}
