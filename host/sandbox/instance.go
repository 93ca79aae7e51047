package sandbox

import (
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// instance is one instantiated module. It is used by one goroutine at a time:
// the engine's functions are not safe for concurrent use.
type instance struct {
	module   api.Module
	memory   api.Memory
	linear   *linearMemory
	globals  []api.MutableGlobal // as in blueprint.globals
	image    *image              // what it is restored to; nil if it is not
	partial  bool                // restored below arena_top only
	function functions
}

// functions are looked up once: a lookup allocates a stack for the function.
type functions struct{ reconcile, arenaTop api.Function }

// blueprint is what instances of a generation are made from. It is immutable.
type blueprint struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	limits   Limits
	globals  []uint32 // mutable globals, exported under [module.GlobalExport]
	seed     [32]byte // of the random bytes that are read while loading
	minimum  uint32   // pages of memory that the module declares
}

// instantiate makes an instance with at least that many pages. The start
// section, if there is one, runs.
func (b *blueprint) instantiate(ctx context.Context, c *call, pages uint32) (*instance, error) {
	linear := &linearMemory{limit: b.limits.MemoryBytes}
	ctx = experimental.WithMemoryAllocator(withCall(ctx, c), linear)
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	m, err := b.runtime.InstantiateModule(ctx, b.compiled, config)
	if err != nil {
		return nil, failure(err, c, linear)
	}
	in := &instance{module: m, memory: m.Memory(), linear: linear}
	if have := in.pages(); have < pages {
		in.memory.Grow(pages - have) // refused only by the module's own maximum
	}
	for _, index := range b.globals {
		in.globals = append(in.globals, m.ExportedGlobal(module.GlobalExport(index)).(api.MutableGlobal))
	}
	in.lookUp()
	return in, nil
}

func (in *instance) lookUp() {
	in.function.reconcile = in.module.ExportedFunction(abi.ExportReconcile)
	in.function.arenaTop = in.module.ExportedFunction(abi.ExportArenaTop)
}

func (in *instance) pages() uint32 { return in.memory.Size() / pageBytes }

// enter runs an exported function: the only way into guest code apart from
// the start section. What goes wrong is a [*Fault], or ctx's cause.
func (in *instance) enter(ctx context.Context, c *call, f api.Function, args ...uint64) (int32, error) {
	var stack [1]uint64 // thole/v1 has at most one parameter and one result
	copy(stack[:], args)
	if err := f.CallWithStack(withCall(ctx, c), stack[:]); err != nil {
		return 0, in.failure(ctx, err, c)
	}
	return api.DecodeI32(stack[0]), nil
}

// run is enter for a function that may not be there; ok says whether it is.
func (in *instance) run(ctx context.Context, c *call, name string) (result int32, ok bool, err error) {
	f := in.module.ExportedFunction(name)
	if f == nil {
		return 0, false, nil
	}
	result, err = in.enter(ctx, c, f)
	return result, true, err
}

func (in *instance) close(ctx context.Context) { _ = in.module.Close(ctx) }

// broke is the fault of a call that returned against the contract.
func (in *instance) broke(c *call, message string) error {
	return broken{&Fault{
		Class:       abi.ClassABI,
		Message:     message,
		Stdout:      c.stdout.bytes(),
		Stderr:      c.stderr.bytes(),
		MemoryBytes: uint64(len(in.linear.data)),
	}}
}
