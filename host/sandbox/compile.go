package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// This file gets the native code of a plugin: from the cache on disk, or from
// the module, which is verified, rewritten and compiled.

// Compiler is the program that [Config.Compiler] names: see [native.Compiler].
func Compiler(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) int {
	return native.Compiler(ctx, args, stdin, stderr)
}

// moduleSummary is what the host needs of a module's structure once it is
// compiled. The cache keeps it besides the code, so that a module which was
// accepted before is not parsed again.
type moduleSummary struct {
	Minimum       uint32   `json:"minimum"`                 // pages of memory that it declares
	Beside        uint64   `json:"beside,omitempty"`        // bytes that an instance takes besides its memory, in whole pages
	Globals       []uint32 `json:"globals,omitempty"`       // mutable numbers, exported under [module.GlobalExport]
	StandardGo    bool     `json:"standardGo,omitempty"`    // compiled by the standard Go compiler
	NotResettable string   `json:"notResettable,omitempty"` // why restoring memory and globals is not enough; "" if it is
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
// summarised in another way than before, so that cached code is not used any
// more; see also [meter.Options.Key].
const rewriteVersion = 5

// cacheKey returns a key of what compiled code depends on besides the machine:
// the file, the engine, the rewriter, and the functions that the file was
// verified against.
func (g *Guest) cacheKey() string {
	key := sha256.New()
	fmt.Fprintln(key, hex.EncodeToString(g.digest[:]), native.EngineVersion, rewriteVersion, g.sandbox.metering.Key())
	for _, e := range contractExports {
		fmt.Fprintln(key, e.name, e.typ, e.required)
	}
	for _, symbol := range Functions() {
		fmt.Fprintln(key, symbol, importable[symbol])
	}
	return hex.EncodeToString(key.Sum(nil))
}

// findOrCompile returns the guest's native code from the cache on disk, or else
// compiles it. wasm may be nil if the guest has a source.
func (g *Guest) findOrCompile(ctx context.Context, wasm []byte) (native.Module, moduleSummary, error) {
	n, summary, ok := g.find(ctx)
	if !ok {
		return g.compile(ctx, wasm)
	}
	if err := verifyMinimum(summary.Minimum, g.limits); err != nil {
		n.Close(ctx)
		return native.Module{}, moduleSummary{}, g.loadError(StepVerify, err)
	}
	return n, summary, nil
}

func (g *Guest) find(ctx context.Context) (n native.Module, summary moduleSummary, ok bool) {
	n, metadata, err := g.sandbox.store.Find(ctx, g.cacheKey())
	if err == nil {
		if err = json.Unmarshal(metadata, &summary); err == nil {
			return n, summary, true
		}
		n.Close(ctx)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		g.logger.Warn(cachedCodeUnusable, "error", err)
	}
	return native.Module{}, moduleSummary{}, false
}

const cachedCodeUnusable = "cached native code cannot be used, compiling the plugin again"

// compile verifies, rewrites and compiles a module. Modules are compiled one at
// a time, because that needs much time and memory.
func (g *Guest) compile(ctx context.Context, wasm []byte) (_ native.Module, _ moduleSummary, err error) {
	select {
	case g.sandbox.compiling <- struct{}{}:
		defer func() { <-g.sandbox.compiling }()
	case <-ctx.Done():
		return native.Module{}, moduleSummary{}, g.loadError(StepCompile, fmt.Errorf("wait for other modules: %w", context.Cause(ctx)))
	}
	ctx, cancel := deadline.With(ctx, g.sandbox.config.LoadTimeout)
	defer cancel()
	if wasm == nil && g.source != nil {
		if wasm, err = g.readSource(); err != nil {
			return native.Module{}, moduleSummary{}, g.loadError(StepRead, err)
		}
	}
	wasm, summary, err := g.rewrite(wasm)
	if err != nil {
		return native.Module{}, moduleSummary{}, err
	}
	metadata, _ := json.Marshal(summary) // never fails: it has numbers and strings
	n, err := g.sandbox.store.Compile(ctx, g.cacheKey(), wasm, metadata)
	if err != nil {
		return native.Module{}, moduleSummary{}, g.loadError(StepCompile, err)
	}
	return n, summary, nil
}

func (g *Guest) readSource() ([]byte, error) {
	wasm, err := g.source()
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(wasm) != g.digest {
		return nil, errors.New("the file has changed since")
	}
	return wasm, nil
}

// rewrite verifies a module against the ABI and returns the module to compile.
func (g *Guest) rewrite(wasm []byte) ([]byte, moduleSummary, error) {
	m, err := module.Parse(wasm)
	if err != nil {
		return nil, moduleSummary{}, g.loadError(StepParse, err)
	}
	if err := verify(m, g.limits); err != nil {
		return nil, moduleSummary{}, g.loadError(StepVerify, err)
	}
	options := g.sandbox.metering
	options.Exports = m.GlobalExports()
	wasm, _, err = meter.Rewrite(m, options)
	if err != nil {
		return nil, moduleSummary{}, g.loadError(StepVerify, err)
	}
	return wasm, summaryOf(m), nil
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
	n, _, err = g.compile(ctx, nil)
	if err != nil {
		return native.Module{}, fmt.Errorf("%w; its code was freed while it was idle: put the file with the digest %x back, or a new version", err, g.digest)
	}
	unloaded.Close(ctx)
	return n, nil
}
