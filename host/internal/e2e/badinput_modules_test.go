package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// latecomer is a kind whose CRD is installed in the middle of a test.
var latecomer = abi.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Latecomer"}

// emptyPlugin returns a plugin whose runs always succeed and write nothing.
func emptyPlugin(name string, controllers ...abi.Controller) []byte {
	m := &abi.Manifest{
		Name: name, Version: "1", Controllers: controllers,
	}
	return pluginWithManifest(abi.EncodeManifest(m))
}

func controllerFor(kind abi.Kind) abi.Controller {
	return abi.Controller{Name: "main", For: kind.All()}
}

// keepingCopies returns a controller that keeps a copy of each object in its annotations.
func keepingCopies(apiVersion, kind string) abi.Controller {
	c := controllerFor(abi.Kind{APIVersion: apiVersion, Kind: kind})
	c.Sections = []abi.Section{{Name: changes.Name, Value: changes.Annotation.Encode()}}
	return c
}

// latecomerController returns a controller for latecomer that writes a condition of
// its own, so that several such controllers do not overlap.
func latecomerController(name, target string) abi.Controller {
	return abi.Controller{Name: name, For: latecomer.All(), Conditions: abi.Conditions{Target: target}}
}

// pluginWithManifest assembles a plugin with any text as its manifest, and what is added.
func pluginWithManifest(manifest []byte, add ...func(*tck.Module)) []byte {
	const manifestAt, resultAt = 1 << 10, 32 << 10
	result := abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess})
	var m tck.Module
	output := m.Import(abi.ImportModule, abi.ImportOutput, []wasm.ValueType{wasm.I32, wasm.I32}, nil)
	write := func(offset int32, text []byte) [][]byte {
		m.Data(offset, text)
		return [][]byte{tck.I32Const(offset), tck.I32Const(int32(len(text))), tck.Call(output), tck.I32Const(0)}
	}
	m.Memory(1)
	m.ExportMemory(abi.ExportMemory)
	m.Export(abi.ExportMarker, m.Func(nil, nil, nil))
	m.Export(abi.ExportDescribe, m.Func(nil, []wasm.ValueType{wasm.I32}, nil, write(manifestAt, manifest)...))
	m.Export(abi.ExportReconcile, m.Func([]wasm.ValueType{wasm.I32}, []wasm.ValueType{wasm.I32}, nil, write(resultAt, result)...))
	for _, f := range add {
		f(&m)
	}
	return m.Bytes()
}

// conformanceGuest returns a guest of the conformance kit.
func conformanceGuest(t *testing.T, name string) []byte {
	t.Helper()
	c, ok := tck.CaseOf(name)
	if !ok {
		t.Fatalf("the conformance kit has no guest %q", name)
	}
	return c.Wasm()
}

// The following functions write the file of a plugin at a path.

// writeEmptyPlugin returns a function that writes a correct plugin whose name is
// that of the file.
func writeEmptyPlugin(controllers ...abi.Controller) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		replaceFile(t, path, emptyPlugin(strings.TrimSuffix(filepath.Base(path), ".wasm"), controllers...))
	}
}

// writeConformanceGuest returns a function that writes a guest of the conformance
// kit.
func writeConformanceGuest(name string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		replaceFile(t, path, conformanceGuest(t, name))
	}
}

func writeDirectory(t *testing.T, path string) { must(t, os.Mkdir(path, 0o755)) }

func writeDanglingLink(t *testing.T, path string) { must(t, os.Symlink("nowhere.wasm.tmp", path)) }

// writeLinkOut writes a link to a file elsewhere that could be used, a module or a policy.
func writeLinkOut(t *testing.T, path string) {
	elsewhere := filepath.Join(t.TempDir(), filepath.Base(path))
	text := []byte("apiVersion: thole.dev/v1alpha1\n")
	if name, module := strings.CutSuffix(filepath.Base(path), ".wasm"); module {
		text = emptyPlugin(name, latecomerController("main", "LinkOut"))
	}
	must(t, os.WriteFile(elsewhere, text, 0o644))
	must(t, os.Symlink(elsewhere, path))
}

func writePipe(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o644)) }

func writeOversized(t *testing.T, path string) {
	must(t, os.WriteFile(path+".tmp", nil, 0o644))
	must(t, os.Truncate(path+".tmp", 16<<20+1))
	must(t, os.Rename(path+".tmp", path))
}

// install writes the plugin into the directory.
func (b badPlugin) install(t *testing.T, d directory) {
	t.Helper()
	if b.policy != "" { // before the module, which could run without it
		writeFile(t, d.path, b.name+".yaml", b.policy)
	}
	if b.writePolicy != nil {
		b.writePolicy(t, filepath.Join(d.path, b.name+".yaml"))
	}
	write := b.write
	if write == nil {
		write = writeConformanceGuest(b.name)
	}
	write(t, filepath.Join(d.path, b.name+".wasm"))
}

// manyMistakes are 5,000 fields that no policy has.
func manyMistakes() string {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "field%d: 1\n", i)
	}
	return text.String()
}
