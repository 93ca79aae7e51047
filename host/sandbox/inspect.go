package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/digest"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// Inspection describes a file, as far as a load of it succeeds.
type Inspection struct {
	Digest string // SHA-256 of the file, in hex
	// Err is why [Sandbox.Load] would refuse the plugin, or nil.
	Err error
	// Module is nil if the file is not a module.
	Module *ModuleInfo
	// Manifest is nil if describe did not write a valid one. If its name is not
	// the file's, Err is about that.
	Manifest *abi.Manifest
}

// ModuleInfo describes the structure of a module. No code of it was run for it.
type ModuleInfo struct {
	Versions  []string // versions of the ABI that its markers state, as in "thole/v1"
	Producers []module.Producer
	Imports   []Symbol // all of them
	Exports   []Symbol // those that the ABI defines, including absent ones
	Memory    MemoryInfo
	Mode      string // of its instances: reset, pooled or fresh
	ModeWhy   string // why the mode is not reset; "" if it is
}

// Symbol is an import, or an export that the ABI defines.
type Symbol struct {
	Module   string // of an import
	Name     string
	Type     string // "(i32) -> i32" for a function, else its kind; "" if absent
	Required bool   // of an export
	Problem  string // why the plugin is refused for it; "" if it is not
}

// MemoryInfo describes the linear memory, in bytes.
type MemoryInfo struct {
	Initial uint64 // as the module declares it
	Start   uint64 // with which an instance starts
	Maximum uint64 // as the module declares it; 0 if it does not
	Limit   uint64 // of the plugin
}

// Inspect describes a plugin and whether [Sandbox.Load] would load it. It takes
// the same steps: guest code runs as far as the load runs it, with its limits.
// Nothing is left behind.
func (s *Sandbox) Inspect(ctx context.Context, p Plugin) Inspection {
	sum := digest.Of(p.Wasm)
	out := Inspection{Digest: hex.EncodeToString(sum[:])}
	ctx, cancel := deadline.With(ctx, s.config.LoadTimeout)
	defer cancel()
	g, err := s.newGuest(p.Name, sum, p.Source, p.Limits)
	if err != nil {
		out.Err, out.Module = err, s.inspectInvalid(ctx, p, sum)
		return out
	}
	defer g.free(context.WithoutCancel(ctx))
	report, err := g.start(ctx, p)
	out.Err, out.Manifest, out.Module = err, g.manifest, report.describe(g.limits)
	return out
}

// inspectInvalid describes the module of a plugin whose name or limits are
// invalid. No code of it runs.
func (s *Sandbox) inspectInvalid(ctx context.Context, p Plugin, digest [sha256.Size]byte) *ModuleInfo {
	g, err := s.newGuest("invalid", digest, nil, Limits{})
	if err != nil {
		return nil
	}
	defer g.free(context.WithoutCancel(ctx))
	n, report, err := g.findOrCompile(ctx, p)
	if err == nil {
		n.Close(ctx)
	}
	return report.describe(g.limits)
}

// inspectModule describes a module as far as that does not depend on limits.
func inspectModule(m *module.Module, with contract) *ModuleInfo {
	out := &ModuleInfo{Producers: m.Producers()}
	for _, name := range markers(m) {
		out.Versions = append(out.Versions, strings.Replace(name, "_", "/", 1))
	}
	functions := with.functions()
	for _, in := range m.Imports {
		out.Imports = append(out.Imports, inspectImport(in, functions))
	}
	for _, e := range with.exports() {
		out.Exports = append(out.Exports, Symbol{Name: e.name, Type: exportType(m, e.name), Required: e.required, Problem: errorText(verifyExport(m, e))})
	}
	out.Exports = append(out.Exports, Symbol{
		Name: abi.ExportMemory, Type: exportType(m, abi.ExportMemory), Required: true, Problem: errorText(verifyMemory(m, math.MaxUint64)),
	})
	if len(m.Memories) > 0 {
		declared := m.Memories[0]
		out.Memory.Initial = uint64(declared.Min) * pageBytes
		if declared.HasMax {
			out.Memory.Maximum = uint64(declared.Max) * pageBytes
		}
	}
	return out
}

// describe returns the description of the module with what depends on the limits
// of the plugin; nil if there is none.
func (r moduleReport) describe(limits Limits) *ModuleInfo {
	m := r.Module
	if m == nil {
		return nil
	}
	mode := modeOf(r.Summary)
	m.Mode, m.ModeWhy = mode.String(), mode.reason(r.Summary)
	m.Memory.Start = uint64(limits.startPages(r.Summary.Minimum)) * pageBytes
	m.Memory.Limit = limits.MemoryBytes
	if memory := &m.Exports[len(m.Exports)-1]; memory.Problem == "" {
		memory.Problem = errorText(verifyMinimum(r.Summary.Minimum, limits.MemoryBytes))
	}
	return m
}

func inspectImport(in wasm.Import, functions map[string]wasm.FuncType) Symbol {
	out := Symbol{Module: in.Module, Name: in.Name, Type: in.Kind.String(), Problem: errorText(verifyImport(in, functions))}
	if in.Kind == wasm.KindFunction {
		out.Type = in.Type.String()
	}
	return out
}

func exportType(m *module.Module, name string) string {
	e, ok := m.ExportOf(name)
	switch {
	case !ok:
		return ""
	case e.Kind == wasm.KindFunction:
		return m.Functions[e.Index].String()
	}
	return e.Kind.String()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
