package sandbox

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// verify holds a module against thole/v1 without running any of it. The
// first deviation is told; the order is that of what a user would fix first.
func verify(m *module.Module, limits Limits) error {
	if err := verifyMarker(m); err != nil {
		return err
	}
	for _, e := range exports {
		if err := verifyExport(m, e); err != nil {
			return err
		}
	}
	for _, in := range m.Imports {
		if err := verifyImport(in); err != nil {
			return err
		}
	}
	return verifyMemory(m, limits)
}

var markerPattern = regexp.MustCompile(`^thole_v[0-9]+$`)

func verifyMarker(m *module.Module) error {
	if _, ok := m.ExportOf(abi.ExportMarker); ok {
		return nil
	}
	for _, e := range m.Exports {
		if markerPattern.MatchString(e.Name) {
			return fmt.Errorf("export %q is missing, %q is there: the module speaks another version of the ABI than this host, which speaks %s; build it with an SDK for that version",
				abi.ExportMarker, e.Name, abi.Version)
		}
	}
	return fmt.Errorf("export %q is missing: the module is not a Thole plugin, or was built without -buildmode=c-shared; build it with the SDK", abi.ExportMarker)
}

func verifyExport(m *module.Module, want exported) error {
	have, ok := m.ExportOf(want.name)
	switch {
	case !ok && want.required:
		return fmt.Errorf("export %q is missing: export a function %s under this name", want.name, want.typ)
	case !ok:
		return nil
	case have.Kind != module.Function:
		return fmt.Errorf("export %q is a %s: export a function %s under this name", want.name, have.Kind, want.typ)
	}
	if typ := m.Functions[have.Index]; typ != want.typ {
		return fmt.Errorf("export %q has the signature %s: %s wants %s", want.name, typ, abi.Version, want.typ)
	}
	return nil
}

func verifyImport(in module.Import) error {
	symbol := in.Module + "." + in.Name
	if in.Kind != module.Function {
		return fmt.Errorf("import %q is a %s: only functions can be imported, guests own their memory", symbol, in.Kind)
	}
	want, ok := served[symbol]
	switch {
	case !ok:
		return fmt.Errorf("import %q is not known to this host: %s", symbol, importHint(symbol, in.Module))
	case want != in.Type:
		return fmt.Errorf("import %q has the signature %s: %s has %s", symbol, in.Type, in.Module, want)
	}
	return nil
}

// served has the signature of each function that can be imported, by
// "module.name".
var served = func() map[string]module.FuncType {
	all := map[string]module.FuncType{}
	for _, m := range hostModules() {
		for _, f := range m.functions {
			all[m.name+"."+f.name] = f.typ
		}
	}
	return all
}()

func importHint(symbol, importModule string) string {
	if strings.HasPrefix(importModule, "thole/") && importModule != abi.ImportModule {
		return fmt.Sprintf("the plugin was built for another version of the ABI than this host, which speaks %s; build it with an SDK for that version", abi.Version)
	}
	if near := nearest(symbol); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if importModule == abi.ImportModule {
		return "the plugin needs a newer host"
	}
	return fmt.Sprintf("a plugin can import from %s and %s only; build for target wasip1 without other host bindings", abi.ImportModule, wasi.ImportModule)
}

// nearest is the known symbol with the fewest edits, if they are few.
func nearest(symbol string) string {
	const few = 3
	best, edits := "", few+1
	for known := range served {
		if d := distance(symbol, known); d < edits || d == edits && known < best {
			best, edits = known, d
		}
	}
	if edits > few {
		return ""
	}
	return best
}

// distance is Levenshtein's: insertions, deletions and substitutions. Names
// are bounded by the parser.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func verifyMemory(m *module.Module, limits Limits) error {
	have, ok := m.ExportOf(abi.ExportMemory)
	if !ok || have.Kind != module.Memory || len(m.Memories) == 0 {
		return fmt.Errorf("export %q is missing: export the linear memory under this name", abi.ExportMemory)
	}
	return verifyMinimum(m.Memories[0].Min, limits)
}

func verifyMinimum(pages uint32, limits Limits) error {
	if minimum := uint64(pages) * pageBytes; minimum > limits.MemoryBytes {
		return fmt.Errorf("export %q starts with %d MiB, the plugin's limit is %d MiB: build with less initial memory, or raise limits.memoryMiB in the plugin's policy or the host's configuration",
			abi.ExportMemory, minimum>>20, limits.MemoryBytes>>20)
	}
	return nil
}
