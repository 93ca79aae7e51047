package sandbox

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

const (
	i32 = module.I32
	i64 = module.I64
)

func signature(params []module.ValueType, results ...module.ValueType) module.FuncType {
	return module.Signature(params, results)
}

func params(types ...module.ValueType) []module.ValueType { return types }

// exported is a function that a guest may export.
type exported struct {
	name     string
	typ      module.FuncType
	required bool
}

var exports = []exported{
	{abi.ExportMarker, signature(params()), true},
	{abi.ExportDescribe, signature(params(), i32), true},
	{abi.ExportReconcile, signature(params(i32), i32), true},
	{abi.ExportInitialize, signature(params()), false},
	{abi.ExportWarm, signature(params(), i32), false},
}

// hostFunction is a function that a guest may import. Parameters and result
// are on the stack, as in [api.GoModuleFunction].
type hostFunction struct {
	name string
	typ  module.FuncType
	run  func(ctx context.Context, c *call, memory api.Memory, stack []uint64)
}

// hostModule is an import module.
type hostModule struct {
	name      string
	functions []hostFunction
}

// hostModules are all that a guest can import from.
func hostModules() []hostModule {
	return []hostModule{
		{abi.ImportModule, tholeFunctions},
		{wasi.ImportModule, systemFunctions()},
	}
}

// offer makes them importable in a runtime.
func offer(ctx context.Context, r wazero.Runtime) error {
	for _, m := range hostModules() {
		if err := m.instantiate(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return instantiateTick(ctx, r)
}

func valueTypes(packed string) []api.ValueType { return []api.ValueType(packed) }
