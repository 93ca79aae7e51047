package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// Inspection is what is known of a file, as far as a load of it comes.
type Inspection struct {
	Digest string // SHA-256 of the file, in hex
	// Err is why [Sandbox.Load] would refuse the plugin, nil if it would not.
	Err error
	// Module is nil for a file that is no module.
	Module *ModuleInfo
	// Manifest is nil if describe did not write a sound one. It is that of
	// another plugin if its name is not the file's, which Err then says.
	Manifest *abi.Manifest
}

// ModuleInfo is what the structure of a module says; no code of it was run.
type ModuleInfo struct {
	Versions  []string // of the ABI, as its markers say: "thole/v1"
	Producers []module.Producer
	Imports   []Symbol // all
	Exports   []Symbol // those that the ABI knows, absent ones too
	Memory    MemoryInfo
	Mode      string // of its instances: reset, pooled or fresh
	ModeWhy   string // why it is not reset; "" if it is
}

// Symbol is an import, or an export of the ABI.
type Symbol struct {
	Module   string // of an import
	Name     string
	Type     string // "(i32) -> i32" for a function, else its kind; "" if absent
	Required bool   // of an export
	Problem  string // why the plugin is refused for it; "" if it is not
}

// MemoryInfo is about the linear memory, in bytes.
type MemoryInfo struct {
	Initial uint64 // that the module declares
	Start   uint64 // that an instance starts with
	Maximum uint64 // that the module declares; 0: none
	Limit   uint64 // of the plugin
}

// Inspect tells all that is known of a plugin and whether [Sandbox.Load] would
// load it, by the same steps: guest code runs as far as the load runs it, with
// its limits. Nothing is left behind.
func (s *Sandbox) Inspect(ctx context.Context, p Plugin) Inspection {
	digest := sha256.Sum256(p.Wasm)
	out := Inspection{Digest: hex.EncodeToString(digest[:])}
	if m, err := module.Parse(p.Wasm); err == nil {
		out.Module = inspectModule(m, p)
	}
	ctx, cancel := deadline.With(ctx, s.config.LoadTimeout)
	defer cancel()
	g, err := s.prepare(p)
	if err != nil {
		out.Err = err
		return out
	}
	defer g.free(context.WithoutCancel(ctx))
	out.Err = g.start(ctx, p)
	out.Manifest = g.manifest
	return out
}

func inspectModule(m *module.Module, p Plugin) *ModuleInfo {
	limits := p.Limits.WithDefaults()
	out := &ModuleInfo{
		Versions:  markers(m),
		Producers: m.Producers(),
		Memory:    inspectMemory(m, limits),
	}
	for _, in := range m.Imports {
		out.Imports = append(out.Imports, inspectImport(in))
	}
	for _, e := range exports {
		out.Exports = append(out.Exports, inspectExport(m, e))
	}
	out.Exports = append(out.Exports, inspectMemoryExport(m, limits))
	o := outlineOf(m)
	mode := modeOf(o, p.Isolate)
	out.Mode, out.ModeWhy = mode.String(), modeWhy(o, mode)
	return out
}

func modeWhy(o outline, mode mode) string {
	switch mode {
	case pooled:
		return "it was compiled by standard Go, whose heap takes longer to restore than most reconciles run"
	case fresh:
		return o.Sticky
	case reset:
	}
	return ""
}

var versionPattern = regexp.MustCompile(`^thole_(v[0-9]+)$`)

func markers(m *module.Module) (versions []string) {
	for _, e := range m.Exports {
		if match := versionPattern.FindStringSubmatch(e.Name); match != nil {
			versions = append(versions, "thole/"+match[1])
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

func inspectImport(in module.Import) Symbol {
	out := Symbol{Module: in.Module, Name: in.Name, Type: in.Kind.String(), Problem: text(verifyImport(in))}
	if in.Kind == module.Function {
		out.Type = in.Type.String()
	}
	return out
}

func inspectExport(m *module.Module, want exported) Symbol {
	problem := verifyExport(m, want)
	if want.name == abi.ExportMarker {
		problem = verifyMarker(m)
	}
	return Symbol{Name: want.name, Type: exportType(m, want.name), Required: want.required, Problem: text(problem)}
}

func inspectMemoryExport(m *module.Module, limits Limits) Symbol {
	return Symbol{Name: abi.ExportMemory, Type: exportType(m, abi.ExportMemory), Required: true, Problem: text(verifyMemory(m, limits))}
}

func exportType(m *module.Module, name string) string {
	e, ok := m.ExportOf(name)
	switch {
	case !ok:
		return ""
	case e.Kind == module.Function:
		return m.Functions[e.Index].String()
	}
	return e.Kind.String()
}

func inspectMemory(m *module.Module, limits Limits) MemoryInfo {
	out := MemoryInfo{Limit: limits.MemoryBytes}
	if len(m.Memories) == 0 {
		return out
	}
	declared := m.Memories[0]
	out.Initial = uint64(declared.Min) * pageBytes
	out.Start = uint64(limits.startPages(declared.Min)) * pageBytes
	if declared.HasMax {
		out.Maximum = uint64(declared.Max) * pageBytes
	}
	return out
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Functions lists what guests can import, as "module.name", in order.
func Functions() []string {
	var all []string
	for name := range served {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
