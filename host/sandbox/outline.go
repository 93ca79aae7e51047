package sandbox

import (
	"github.com/thole-dev/thole/host/sandbox/module"
)

// outline is what the host needs of a module's structure once it is compiled.
// The cache keeps it beside the code, so that a module which was accepted
// before is not taken apart again.
type outline struct {
	Minimum    uint32   `json:"minimum"`              // pages of memory that it declares
	Globals    []uint32 `json:"globals,omitempty"`    // mutable numbers, exported under [module.GlobalExport]
	Imports    []string `json:"imports,omitempty"`    // "module.name"
	StandardGo bool     `json:"standardGo,omitempty"` // by the standard Go compiler
	Sticky     string   `json:"sticky,omitempty"`     // why restoring memory and globals is not enough; "" if it is
}

func outlineOf(m *module.Module) outline {
	sticky, _ := m.Resettable()
	out := outline{
		StandardGo: m.HasCustom(goSection),
		Sticky:     sticky,
	}
	if len(m.Memories) > 0 {
		out.Minimum = m.Memories[0].Min
	}
	for _, index := range m.MutableGlobals() {
		if m.Globals[index].Type.Number() {
			out.Globals = append(out.Globals, index)
		}
	}
	for _, in := range m.Imports {
		out.Imports = append(out.Imports, in.Module+"."+in.Name)
	}
	return out
}
