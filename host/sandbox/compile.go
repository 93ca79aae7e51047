package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/thole-dev/thole/host/internal/digest"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// This file gets the native code of a plugin: from the cache on disk, or from
// the module, which is verified, rewritten and compiled. Only [prepare] reads a
// module, in the compiler's process if there is a program for it.

// Streams are the standard streams of a process.
type Streams = native.Streams

// Compiler is the program that [Config.Compiler] names: see [native.Compiler].
func Compiler(ctx context.Context, args []string, std Streams) int {
	return native.Compiler(ctx, prepare, args, std)
}

// moduleSummary is what the host needs of a module's structure once it is
// compiled.
type moduleSummary struct {
	Minimum       uint32   `json:"minimum"`                 // pages of memory that it declares
	Beside        uint64   `json:"beside,omitempty"`        // bytes that an instance takes besides its memory, in whole pages
	Globals       []uint32 `json:"globals,omitempty"`       // mutable numbers, exported under [module.GlobalExport]
	StandardGo    bool     `json:"standardGo,omitempty"`    // compiled by the standard Go compiler
	NotResettable string   `json:"notResettable,omitempty"` // why restoring memory and globals is not enough; "" if it is
}

// moduleReport describes a module. The cache keeps it besides the code, so that
// the host has it of a module that was compiled before.
type moduleReport struct {
	Summary moduleSummary `json:"summary"`
	// Module is nil if the file is not a module, or if a description of it is
	// too large.
	Module  *ModuleInfo   `json:"module,omitempty"`
	Refused *prepareError `json:"refused,omitempty"` // nil: the module was accepted
}

// prepareError is why a module is not compiled.
type prepareError struct {
	Step   string `json:"step"`
	Reason string `json:"reason"`
	Advice string `json:"advice,omitempty"`
}

func (r *prepareError) Error() string { return r.Reason }

// prepareOptions is what preparing a module depends on.
type prepareOptions struct {
	MemoryBytes uint64        `json:"memoryBytes"` // the plugin's limit
	ModuleBytes int           `json:"moduleBytes"` // the same
	Metering    meter.Options `json:"metering"`
	Contract    contract      `json:"contract"`
}

var _ native.Prepare = prepare

// prepare verifies a module against the ABI and returns the module to compile.
func prepare(wasm []byte, options json.RawMessage) (rewritten, text []byte) {
	var o prepareOptions
	var report moduleReport
	err := json.Unmarshal(options, &o)
	if err == nil {
		rewritten, err = o.rewrite(wasm, &report)
	}
	if err != nil {
		rewritten, report.Refused = nil, prepareErrorOf(err)
	}
	text, err = json.Marshal(report)
	if err != nil || len(text) > native.MaxReport {
		report.Module = nil
		text, _ = json.Marshal(report) // never fails: it has numbers and strings
	}
	return rewritten, text
}

// rewrite adds what it finds to the report.
func (o prepareOptions) rewrite(wasm []byte, report *moduleReport) ([]byte, error) {
	m, err := module.ParseWithin(wasm, o.ModuleBytes)
	if err != nil {
		return nil, &prepareError{Step: StepParse, Reason: err.Error(), Advice: parseAdvice(err)}
	}
	report.Summary, report.Module = summaryOf(m), inspectModule(m, o.Contract)
	if err = verify(m, o.MemoryBytes, o.Contract); err != nil {
		return nil, err
	}
	o.Metering.Exports = m.GlobalExports()
	rewritten, _, err := meter.Rewrite(m, o.Metering)
	return rewritten, err
}

// prepareErrorOf returns the prepareError that an error is, or one of the step
// that comes after reading the module.
func prepareErrorOf(err error) *prepareError {
	if r, ok := errors.AsType[*prepareError](err); ok {
		return r
	}
	return &prepareError{Step: StepVerify, Reason: err.Error()}
}

func parseAdvice(err error) string {
	switch {
	case errors.Is(err, module.ErrNotWasm):
		return "build the plugin with the SDK"
	case module.Damaged(err):
		return "copy or build the file again, under another name, and rename it into place when it is whole"
	}
	return ""
}

// goSection is in every module that the standard Go linker writes, also with
// -ldflags="-s -w", and in no module of TinyGo. A module that forges it only
// loses its own reset.
const goSection = "go:buildid"

func summaryOf(m *module.Module) moduleSummary {
	out := moduleSummary{Globals: m.MutableNumbers(), StandardGo: m.HasCustom(goSection), NotResettable: m.Resettable(), Beside: m.InstanceBytes() / pageBytes * pageBytes}
	if len(m.Memories) > 0 {
		out.Minimum = m.Memories[0].Min
	}
	return out
}

// rewriteVersion changes when the same module is verified, rewritten or
// described in another way than before, so that cached code is not used any
// more; see also [meter.Options.Key].
const rewriteVersion = 7

// cacheKey returns a key of what compiled code depends on besides the machine:
// the file, the engine, the rewriter, and the functions that the file was
// verified against.
func (g *Guest) cacheKey() string {
	key := sha256.New()
	fmt.Fprintln(key, hex.EncodeToString(g.digest[:]), native.EngineVersion, rewriteVersion, g.sandbox.metering.Key())
	if g.limits.ModuleBytes != module.MaxSize { // what was compiled within a larger limit may not be within this one
		fmt.Fprintln(key, "moduleBytes", g.limits.ModuleBytes)
	}
	for _, e := range g.sandbox.contract.exports() {
		fmt.Fprintln(key, e.name, e.typ, e.required)
	}
	functions := g.sandbox.contract.functions()
	for _, symbol := range slices.Sorted(maps.Keys(functions)) {
		fmt.Fprintln(key, symbol, functions[symbol])
	}
	return hex.EncodeToString(key.Sum(nil))
}

// findOrCompile returns the guest's native code from the cache on disk, or else
// compiles it. The report is set also if the module is refused, as far as it was
// read.
func (g *Guest) findOrCompile(ctx context.Context, p Plugin) (native.Module, moduleReport, error) {
	n, report, ok := g.find(ctx)
	if !ok {
		return g.compile(ctx, p)
	}
	if err := verifyMinimum(report.Summary.Minimum, g.limits.MemoryBytes); err != nil {
		n.Close(ctx)
		return native.Module{}, report, g.loadError(StepVerify, err)
	}
	return n, report, nil
}

func (g *Guest) find(ctx context.Context) (n native.Module, report moduleReport, ok bool) {
	n, text, err := g.sandbox.store.Find(ctx, g.cacheKey())
	if err == nil {
		if err = json.Unmarshal(text, &report); err == nil {
			return n, report, true
		}
		n.Close(ctx)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		g.logger.Warn(cachedCodeUnusable, "error", err)
	}
	return native.Module{}, moduleReport{}, false
}

const cachedCodeUnusable = "cached native code cannot be used, compiling the plugin again"

// compile verifies, rewrites and compiles a module, in its turn.
func (g *Guest) compile(ctx context.Context, p Plugin) (native.Module, moduleReport, error) {
	options, _ := json.Marshal(prepareOptions{g.limits.MemoryBytes, g.limits.ModuleBytes, g.sandbox.metering, g.sandbox.contract}) // never fails: it has numbers
	n, text, err := g.sandbox.store.Compile(ctx, native.Job{
		Key: g.cacheKey(), Size: max(p.Size, int64(len(p.Wasm))), Options: options,
		Read: func() ([]byte, error) { return g.read(p.Wasm) },
	})
	var report moduleReport
	if len(text) > 0 {
		if invalid := json.Unmarshal(text, &report); invalid != nil && (err == nil || errors.Is(err, native.ErrRefused)) {
			n.Close(ctx)
			err = fmt.Errorf("read the compiler's report: %w", invalid)
		}
	}
	_, unread := errors.AsType[*LoadError](err)
	switch {
	case err == nil:
		return n, report, nil
	case errors.Is(err, native.ErrRefused) && report.Refused != nil:
		err = g.loadError(report.Refused.Step, report.Refused)
	case !unread:
		err = g.loadError(StepCompile, err)
	}
	return native.Module{}, report, err
}

// read returns the module, from the guest's source if wasm is nil.
func (g *Guest) read(wasm []byte) (_ []byte, err error) {
	if wasm == nil && g.source != nil {
		if wasm, err = g.source(); err == nil && digest.Of(wasm) != g.digest {
			err = errors.New("the file has changed since")
		}
	}
	if err != nil {
		return nil, g.loadError(StepRead, err)
	}
	return wasm, nil
}

// reloadCode loads code that was unloaded: from its entry in the cache, or from
// the module if the entry was damaged.
func (g *Guest) reloadCode(unloaded native.Module) (native.Module, error) {
	ctx := context.Background()
	n, err := g.sandbox.store.Reload(ctx, unloaded)
	if err == nil {
		return n, nil
	}
	g.logger.Warn(cachedCodeUnusable, "error", err)
	n, _, err = g.compile(ctx, Plugin{})
	if err != nil {
		return native.Module{}, fmt.Errorf("%w; its code was freed while it was idle: put the file with the digest %x back, or a new version", err, g.digest)
	}
	unloaded.Close(ctx)
	return n, nil
}
