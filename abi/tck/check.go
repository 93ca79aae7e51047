package tck

import (
	"errors"
	"fmt"

	"github.com/thole-dev/thole/abi"
)

func fail(format string, args ...any) error { return fmt.Errorf(format, args...) }

// required and optional exports of thole/v1, with their signatures in the
// notation of signature.
var (
	required = map[string]string{
		abi.ExportMarker:    "() -> ()",
		abi.ExportDescribe:  "() -> (i32)",
		abi.ExportReconcile: "(i32) -> (i32)",
	}
	optional = map[string]string{
		abi.ExportInitialize: "() -> ()",
		abi.ExportWarm:       "() -> (i32)",
	}
	imports = map[string]string{
		abi.ImportInput:  "(i32, i32) -> ()",
		abi.ImportOutput: "(i32, i32) -> ()",
		abi.ImportLog:    "(i32, i32, i32) -> ()",
		abi.ImportGet:    "(i32, i32) -> (i64)",
		abi.ImportList:   "(i32, i32) -> (i64)",
	}
)

// Check looks at a guest without running it: whether it is WebAssembly,
// exports what thole/v1 requires with the right signatures, and imports only
// what thole/v1 and WASI offer. It tells every deviation, joined.
func Check(wasm []byte) error {
	found, err := inspect(wasm)
	if err != nil {
		return fail("read module: %w", err)
	}
	var errs []error
	if !found.memory {
		errs = append(errs, fail("export %q is missing: export memory 0 under this name", abi.ExportMemory))
	}
	for _, name := range []string{abi.ExportMarker, abi.ExportDescribe, abi.ExportReconcile} {
		errs = append(errs, checkExport(found, name, required[name], true))
	}
	for _, name := range []string{abi.ExportInitialize, abi.ExportWarm} {
		errs = append(errs, checkExport(found, name, optional[name], false))
	}
	for _, in := range found.imports {
		errs = append(errs, checkImport(in))
	}
	return errors.Join(errs...)
}

func checkExport(found *inspected, name, want string, required bool) error {
	have, ok := found.exports[name]
	switch {
	case !ok && required:
		return fail("export %q is missing: a function %s", name, want)
	case ok && have != want:
		return fail("export %q is %s, not %s", name, have, want)
	}
	return nil
}

func checkImport(in inspectedImport) error {
	if in.module == wasi {
		return nil
	}
	if in.module != abi.ImportModule {
		return fail("import %s.%s: only %s and %s are served", in.module, in.name, abi.ImportModule, wasi)
	}
	want, ok := imports[in.name]
	switch {
	case !ok:
		return fail("import %s.%s: there is no such function", in.module, in.name)
	case in.signature != want:
		return fail("import %s.%s is %s, not %s", in.module, in.name, in.signature, want)
	}
	return nil
}
