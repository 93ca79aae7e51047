package tck

import "github.com/thole-dev/thole/abi"

func loadCases() []Case {
	return []Case{
		{
			Name: "not-wasm", Stage: StageLoad,
			Explain: "the file holds something else",
			Wasm:    func() []byte { return []byte("apiVersion: v1\nkind: ConfigMap\n") },
		},
		{
			Name: "empty-file", Stage: StageLoad,
			Explain: "the file is empty, as while it is being copied",
			Wasm:    func() []byte { return nil },
		},
		{
			Name: "truncated", Stage: StageLoad,
			Explain: "the second half of the file is missing",
			Wasm:    func() []byte { wasm := correct("truncated"); return wasm[:len(wasm)/2] },
		},
		{
			Name: "missing-marker", Stage: StageLoad, Mentions: []string{abi.ExportMarker},
			Explain: "no export says which ABI version the guest speaks",
			Wasm:    missingMarker,
		},
		{
			Name: "other-version", Stage: StageLoad, Mentions: []string{abi.ExportMarker, "thole_v2"},
			Explain: "the guest speaks another version of the ABI",
			Wasm:    otherVersion,
		},
		{
			Name: "missing-export", Stage: StageLoad, Mentions: []string{abi.ExportReconcile},
			Explain: "reconcile is not exported",
			Wasm:    func() []byte { return newGuest("missing-export").finishWithout() },
		},
		{
			Name: "wrong-signature", Stage: StageLoad, Mentions: []string{abi.ExportReconcile},
			Explain: "reconcile takes an i64",
			Wasm:    wrongSignature,
		},
		{
			Name: "wrong-kind", Stage: StageLoad, Mentions: []string{abi.ExportReconcile},
			Explain: "reconcile is exported, but is the memory",
			Wasm:    wrongKind,
		},
		{
			Name: "wrong-import-signature", Stage: StageLoad, Mentions: []string{abi.ImportLog},
			Explain: "log is imported without its level",
			Wasm:    importing("wrong-import-signature", abi.ImportModule, abi.ImportLog, pointer),
		},
		{
			Name: "unknown-import", Stage: StageLoad, Mentions: []string{"outptu"},
			Explain: "a function of thole/v1 that does not exist",
			Wasm:    importing("unknown-import", abi.ImportModule, "outptu", pointer),
		},
		{
			Name: "unknown-import-module", Stage: StageLoad, Mentions: []string{"env", "abort"},
			Explain: "an import from a module that no host serves",
			Wasm:    importing("unknown-import-module", "env", "abort", noTypes),
		},
		{
			Name: "memory-not-exported", Stage: StageLoad, Mentions: []string{abi.ExportMemory},
			Explain: "the host cannot reach the guest's memory",
			Wasm:    memoryNotExported,
		},
		{
			Name: "huge-memory", Stage: StageLoad, Mentions: []string{abi.ExportMemory},
			Explain: "4 GiB of memory from the start",
			Wasm:    hugeMemory,
		},
		{
			Name: "count-bomb", Stage: StageLoad,
			Explain: "ten bytes that claim four billion functions",
			Wasm:    func() []byte { return []byte("\x00asm\x01\x00\x00\x00\x03\x06\xff\xff\xff\xff\x0f\x00") },
		},
		{
			Name: "initialize-traps", Stage: StageLoad, Mentions: []string{abi.ExportInitialize},
			Explain: "the guest cannot even start",
			Wasm:    trapping("initialize-traps", abi.ExportInitialize, noTypes, noTypes),
		},
		{
			Name: "start-traps", Stage: StageLoad,
			Explain: "the start section's function traps",
			Wasm:    startTraps,
		},
		{
			Name: "warm-traps", Stage: StageLoad, Mentions: []string{abi.ExportWarm},
			Explain: "warm, which runs no author code, traps",
			Wasm:    trapping("warm-traps", abi.ExportWarm, noTypes, i32Only),
		},
	}
}

func missingMarker() []byte {
	g := newGuest("missing-marker")
	g.exported[abi.ExportMarker] = true
	return g.finish(nil, g.ok())
}

func otherVersion() []byte {
	g := newGuest("other-version")
	g.export("thole_v2", g.Func(noTypes, noTypes, nil))
	g.exported[abi.ExportMarker] = true
	return g.finish(nil, g.ok())
}

func wrongSignature() []byte {
	g := newGuest("wrong-signature")
	g.export(abi.ExportReconcile, g.Func([]Type{I64}, i32Only, nil, I32Const(0)))
	return g.finishWithout()
}

func wrongKind() []byte {
	g := newGuest("wrong-kind")
	g.ExportMemory(abi.ExportReconcile)
	return g.finishWithout()
}

func importing(name, module, function string, params []Type) func() []byte {
	return func() []byte {
		g := newGuest(name)
		g.Import(module, function, params, noTypes)
		return g.finish(nil, g.ok())
	}
}

func memoryNotExported() []byte {
	g := newGuest("memory-not-exported")
	g.Memory(pages)
	return g.finish(nil, g.ok())
}

func hugeMemory() []byte {
	g := newGuest("huge-memory")
	g.Memory(1 << 16)
	g.ExportMemory(abi.ExportMemory)
	return g.finish(nil, g.ok())
}

// trapping is a guest one of whose functions traps.
func trapping(name, export string, params, results []Type) func() []byte {
	return func() []byte {
		g := newGuest(name)
		g.export(export, g.Func(params, results, nil, Unreachable))
		return g.finish(nil, g.ok())
	}
}

func startTraps() []byte {
	g := newGuest("start-traps")
	g.Start(g.Func(noTypes, noTypes, nil, Unreachable))
	return g.finish(nil, g.ok())
}
