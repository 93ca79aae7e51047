package tck

import (
	"errors"
	"fmt"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/abi/webhooks"
)

// The exports and imports of thole/v1 with their signatures.
var (
	contractExports = []struct {
		name     string
		typ      wasm.FuncType
		required bool
	}{
		{abi.ExportMarker, wasm.Signature(noTypes), true},
		{abi.ExportDescribe, wasm.Signature(noTypes, i32), true},
		{abi.ExportReconcile, wasm.Signature(i32Only, i32), true},
		{abi.ExportInitialize, wasm.Signature(noTypes), false},
		{abi.ExportWarm, wasm.Signature(noTypes, i32), false},
		{functionindexes.Export, wasm.Signature(i32Only, i32), false},
		{daemon.Export, wasm.Signature(i32Only, i32), false},
		{webhooks.ExportValidate, wasm.Signature(i32Only, i32), false},
		{webhooks.ExportMutate, wasm.Signature(i32Only, i32), false},
		{webhooks.ExportConvert, wasm.Signature(i32Only, i32), false},
		{scans.Export, wasm.Signature(i32Only, i32), false},
	}
	contractImports = map[string]wasm.FuncType{
		abi.ImportInput:  wasm.Signature(ptrLen),
		abi.ImportOutput: wasm.Signature(ptrLen),
		abi.ImportLog:    wasm.Signature(levelPtrLen),
		abi.ImportGet:    wasm.Signature(ptrLen, i64),
		abi.ImportList:   wasm.Signature(ptrLen, i64),

		functionindexes.Import: wasm.Signature(ptrLen, i64),
		http.Import:            wasm.Signature(ptrLen, i64),
	}
)

// Check checks a guest without running it: whether it is WebAssembly, exports
// what thole/v1 requires with the right signatures, and imports only what
// thole/v1 and WASI offer. The error joins all deviations.
func Check(binary []byte) error {
	found, err := inspect(binary)
	if err != nil {
		return fmt.Errorf("read module: %w", err)
	}
	var errs []error
	if found.exports[abi.ExportMemory] != aMemory {
		errs = append(errs, fmt.Errorf("export %q is missing: export memory 0 under this name", abi.ExportMemory))
	}
	for _, want := range contractExports {
		have, ok := found.exports[want.name]
		switch {
		case !ok && want.required:
			errs = append(errs, fmt.Errorf("export %q is missing: export a function %s under this name", want.name, want.typ))
		case ok && have != want.typ.String():
			errs = append(errs, fmt.Errorf("export %q is %s, not %s", want.name, have, want.typ))
		}
	}
	for _, in := range found.imports {
		errs = append(errs, checkImport(in))
	}
	return errors.Join(errs...)
}

func checkImport(in wasm.Import) error {
	if in.Module == wasi {
		return nil
	}
	if in.Module != abi.ImportModule {
		return fmt.Errorf("import %s.%s: a guest can import from %s and %s only", in.Module, in.Name, abi.ImportModule, wasi)
	}
	want, ok := contractImports[in.Name]
	switch {
	case !ok:
		return fmt.Errorf("import %s.%s: there is no such function", in.Module, in.Name)
	case in.Kind != wasm.KindFunction:
		return fmt.Errorf("import %s.%s is a %s, not a function", in.Module, in.Name, in.Kind)
	case in.Type != want:
		return fmt.Errorf("import %s.%s is %s, not %s", in.Module, in.Name, in.Type, want)
	}
	return nil
}

// inspected is what [Check] needs of a module.
type inspected struct {
	types   []wasm.FuncType
	imports []wasm.Import
	funcs   []wasm.FuncType   // of the whole function index space
	exports map[string]string // what each name is: a signature, or as in aMemory
}

const aMemory = "a memory" // as [wasm.KindMemory] is described

// inspect reads the sections that declare imports and exports. Unlike a host it
// applies no limits, and it does not read code.
func inspect(binary []byte) (*inspected, error) {
	r := wasm.NewReader(binary)
	if string(r.Bytes(uint32(len(wasm.Header)))) != wasm.Header {
		return nil, errors.New("not a WebAssembly 1 module")
	}
	out := &inspected{exports: map[string]string{}}
	for r.Len() > 0 {
		id := wasm.SectionID(r.Byte())
		body := r.Sub(r.U32())
		out.section(id, body)
		r.Fail(body.Err())
	}
	return out, r.Err()
}

func (in *inspected) section(id wasm.SectionID, r *wasm.Reader) {
	each := func(what string, size int, read func()) {
		for range r.Count(what, size, r.Len()) {
			read()
		}
	}
	switch id {
	case wasm.TypeSection:
		each("types", 3, func() { in.types = append(in.types, r.FuncType()) })
	case wasm.ImportSection:
		each("imports", 4, func() { in.addImport(r) })
	case wasm.FunctionSection:
		each("functions", 1, func() { in.funcs = append(in.funcs, in.typeAt(r)) })
	case wasm.ExportSection:
		each("exports", 3, func() { in.addExport(r) })
	default:
	}
}

func (in *inspected) addImport(r *wasm.Reader) {
	i := wasm.Import{Module: r.Name(), Name: r.Name(), Kind: wasm.Kind(r.Byte())}
	switch i.Kind {
	case wasm.KindFunction:
		i.Type = in.typeAt(r)
		in.funcs = append(in.funcs, i.Type)
	case wasm.KindTable:
		r.Table()
	case wasm.KindMemory:
		r.Limits()
	default:
		r.Global()
	}
	in.imports = append(in.imports, i)
}

func (in *inspected) typeAt(r *wasm.Reader) wasm.FuncType {
	index := r.U32()
	if uint64(index) >= uint64(len(in.types)) {
		r.Failf("malformed: there is no type %d", index)
		return wasm.FuncType{}
	}
	return in.types[index]
}

func (in *inspected) addExport(r *wasm.Reader) {
	name, kind, index := r.Name(), wasm.Kind(r.Byte()), r.U32()
	in.exports[name] = "a " + kind.String()
	if kind == wasm.KindFunction && uint64(index) < uint64(len(in.funcs)) {
		in.exports[name] = in.funcs[index].String()
	}
}
