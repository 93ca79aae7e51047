package sandbox

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// This file has the contract with guests, as far as a module shows it: exports,
// imports and memory. What can be imported is listed where it is implemented
// (hostfunctions.go).

const (
	i32 = wasm.I32
	i64 = wasm.I64
)

func params(types ...wasm.ValueType) []wasm.ValueType { return types }

// contractExports lists the functions that a guest exports.
var contractExports = []contractExport{
	{abi.ExportMarker, wasm.Signature(params()), true},
	{abi.ExportDescribe, wasm.Signature(params(), i32), true},
	{abi.ExportReconcile, wasm.Signature(params(i32), i32), true},
	{abi.ExportInitialize, wasm.Signature(params()), false},
	{abi.ExportWarm, wasm.Signature(params(), i32), false},
}

type contractExport struct {
	name     string
	typ      wasm.FuncType
	required bool
}

// contract is what capabilities add to the functions of guests and of the host, by their names.
type contract struct {
	Exports []string `json:"exports,omitempty"` // (len i32) -> i32
	Imports []string `json:"imports,omitempty"` // of [abi.ImportModule], of type importType
}

// exports returns the functions that a guest exports.
func (c contract) exports() []contractExport {
	all := slices.Clip(contractExports)
	for _, name := range c.Exports {
		all = append(all, contractExport{name, wasm.Signature(params(i32), i32), false})
	}
	return all
}

// functions returns the signature of each function that can be imported, by "module.name".
func (c contract) functions() map[string]wasm.FuncType {
	all := map[string]wasm.FuncType{}
	for _, f := range hostFunctions {
		all[f.module+"."+f.name] = f.typ
	}
	for _, name := range c.Imports {
		all[abi.ImportModule+"."+name] = importType
	}
	return all
}

// verify checks a module against thole/v1 without running any of it. It returns
// the first deviation, in the order in which a user would correct them.
func verify(m *module.Module, memoryBytes uint64, with contract) error {
	for _, e := range with.exports() {
		if err := verifyExport(m, e); err != nil {
			return err
		}
	}
	functions := with.functions()
	for _, in := range m.Imports {
		if err := verifyImport(in, functions); err != nil {
			return err
		}
	}
	return verifyMemory(m, memoryBytes)
}

// markerPattern matches the markers of all versions of the ABI.
var markerPattern = regexp.MustCompile(`^thole_v[0-9]+$`)

// markers returns the markers that a module exports.
func markers(m *module.Module) (names []string) {
	for _, e := range m.Exports {
		if markerPattern.MatchString(e.Name) {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// markerMissing returns the error for a module without the marker of this
// version.
func markerMissing(m *module.Module) error {
	if others := markers(m); len(others) > 0 {
		return fmt.Errorf("export %q is missing, %q is there: the module was built for another version of the ABI than this host's, which is %s; build it with an SDK for that version",
			abi.ExportMarker, others[0], abi.Version)
	}
	return fmt.Errorf("export %q is missing: the module is not a Thole plugin, or was built without -buildmode=c-shared; build it with the SDK", abi.ExportMarker)
}

func verifyExport(m *module.Module, want contractExport) error {
	have, ok := m.ExportOf(want.name)
	switch {
	case !ok && want.name == abi.ExportMarker:
		return markerMissing(m)
	case !ok && want.required:
		return fmt.Errorf("export %q is missing: export a function %s under this name", want.name, want.typ)
	case !ok:
		return nil
	case have.Kind != wasm.KindFunction:
		return fmt.Errorf("export %q is a %s: export a function %s under this name", want.name, have.Kind, want.typ)
	}
	if typ := m.Functions[have.Index]; typ != want.typ {
		return fmt.Errorf("export %q has the signature %s: %s wants %s", want.name, typ, abi.Version, want.typ)
	}
	return nil
}

func verifyImport(in wasm.Import, functions map[string]wasm.FuncType) error {
	symbol := in.Module + "." + in.Name
	if in.Kind != wasm.KindFunction {
		return fmt.Errorf("import %q is a %s: only functions can be imported, guests own their memory", symbol, in.Kind)
	}
	want, ok := functions[symbol]
	switch {
	case !ok:
		return fmt.Errorf("import %q is not known to this host: %s", symbol, importHint(symbol, in.Module, slices.Sorted(maps.Keys(functions))))
	case want != in.Type:
		return fmt.Errorf("import %q has the signature %s: %s has %s", symbol, in.Type, in.Module, want)
	}
	return nil
}

// Functions returns the functions that guests can import, without those of capabilities, as "module.name", in
// order.
func Functions() []string { return slices.Sorted(maps.Keys(contract{}.functions())) }

// importHint returns what to do about an import that does not exist.
func importHint(symbol, importModule string, functions []string) string {
	if strings.HasPrefix(importModule, "thole/") && importModule != abi.ImportModule {
		return fmt.Sprintf("the plugin was built for another version of the ABI than this host's, which is %s; build it with an SDK for that version", abi.Version)
	}
	var names []string
	for _, known := range functions {
		if name, ok := strings.CutPrefix(known, importModule+"."); ok {
			names = append(names, name)
		}
	}
	if near, ok := rawjson.Nearest(strings.TrimPrefix(symbol, importModule+"."), names); ok {
		return fmt.Sprintf("did you mean %q?", importModule+"."+near)
	}
	if importModule == abi.ImportModule {
		return "the plugin needs a newer host, or one with the capability that has the function"
	}
	return fmt.Sprintf("a plugin can import from %s and %s only; build for target wasip1 without other host bindings", abi.ImportModule, wasi.ImportModule)
}

func verifyMemory(m *module.Module, limit uint64) error {
	have, ok := m.ExportOf(abi.ExportMemory)
	if !ok || have.Kind != wasm.KindMemory || len(m.Memories) == 0 {
		return fmt.Errorf("export %q is missing: export the linear memory under this name", abi.ExportMemory)
	}
	return verifyMinimum(m.Memories[0].Min, limit)
}

func verifyMinimum(pages uint32, limit uint64) error {
	if minimum := uint64(pages) * pageBytes; minimum > limit {
		return fmt.Errorf("export %q starts with %d MiB, the plugin's limit is %d MiB: build with less initial memory, or raise limits.memoryMiB in the plugin's policy or the host's configuration",
			abi.ExportMemory, minimum>>20, limit>>20)
	}
	return nil
}
