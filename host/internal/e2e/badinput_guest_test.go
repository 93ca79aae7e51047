package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

var latecomer = abi.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Latecomer"}

// plugin assembles one whose reconcile always succeeds and wants nothing.
func plugin(name string, controllers ...abi.Controller) []byte {
	return assembled(abi.EncodeManifest(&abi.Manifest{Name: name, Version: "1", Controllers: controllers}))
}

func controllerFor(kind abi.Kind) abi.Controller { return abi.Controller{Name: "main", For: kind} }

// late is a controller for the kind that comes late, with a condition of its
// own: several of them do not overlap.
func late(name, target string) abi.Controller {
	return abi.Controller{Name: name, For: latecomer, Conditions: abi.Conditions{Target: target}}
}

// assembled is a guest with a manifest of any text.
func assembled(manifest []byte) []byte {
	const at, gap = 1 << 10, 32 << 10
	result := abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess})
	var m tck.Module
	output := m.Import(abi.ImportModule, abi.ImportOutput, []wasm.ValueType{wasm.I32, wasm.I32}, nil)
	says := func(offset int32, text []byte) [][]byte {
		m.Data(offset, text)
		return [][]byte{tck.I32Const(offset), tck.I32Const(int32(len(text))), tck.Call(output), tck.I32Const(0)}
	}
	m.Memory(1)
	m.ExportMemory(abi.ExportMemory)
	m.Export(abi.ExportMarker, m.Func(nil, nil, nil))
	m.Export(abi.ExportDescribe, m.Func(nil, []wasm.ValueType{wasm.I32}, nil, says(at, manifest)...))
	m.Export(abi.ExportReconcile, m.Func([]wasm.ValueType{wasm.I32}, []wasm.ValueType{wasm.I32}, nil, says(gap, result)...))
	return m.Bytes()
}

// putPlugin makes a sound plugin of the file's name.
func putPlugin(controllers ...abi.Controller) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		name := strings.TrimSuffix(filepath.Base(path), ".wasm")
		putBytes(t, path, plugin(name, controllers...))
	}
}

// putKit makes the kit's guest of a name.
func putKit(name string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		c, ok := tck.CaseOf(name)
		if !ok {
			t.Fatalf("the kit has no guest %q", name)
		}
		putBytes(t, path, c.Wasm())
	}
}

// putBytes makes a file that is whole from its first moment on.
func putBytes(t *testing.T, path string, content []byte) {
	t.Helper()
	directory{t, filepath.Dir(path)}.install(strings.TrimSuffix(filepath.Base(path), ".wasm"), content)
}

func putDirectory(t *testing.T, path string) { done(t, os.Mkdir(path, 0o755)) }

func putDanglingLink(t *testing.T, path string) { done(t, os.Symlink("nowhere.wasm.tmp", path)) }

func putPipe(t *testing.T, path string) { done(t, syscall.Mkfifo(path, 0o644)) }

func putLarge(t *testing.T, path string) {
	done(t, os.WriteFile(path+".tmp", nil, 0o644))
	done(t, os.Truncate(path+".tmp", 16<<20+1))
	done(t, os.Rename(path+".tmp", path))
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
