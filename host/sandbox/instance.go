package sandbox

import (
	"context"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// instance is one instantiated module. It is used by one goroutine at a time:
// the engine's functions are not safe for concurrent use.
type instance struct {
	code    *native.Code // which it uses until it is closed
	module  api.Module
	memory  api.Memory
	fuel    api.MutableGlobal
	linear  *memory.Linear
	globals []api.MutableGlobal // as in blueprint.globals
	image   *image              // what it is restored to; nil if it is not
	used    time.Time           // when its last call ended

	reconcile api.Function // looked up once, as that allocates a stack for it
	stack     nativeStack  // that one
}

// blueprint is what instances of a generation are made from. It is immutable.
type blueprint struct {
	code    *native.Code
	limits  Limits
	globals []uint32 // mutable globals, exported under [module.GlobalExport]
	seed    [32]byte // of the random bytes that are read while loading
	minimum uint32   // pages of memory that the module declares
	memory  *memory.Share
}

// instanceConfig has a source of random numbers that nobody reads: the engine's
// own takes a fifth of the time that an instance takes.
var instanceConfig = wazero.NewModuleConfig().WithName("").WithStartFunctions().
	WithRandSource(strings.NewReader(""))

// instantiate makes an instance with at least that many pages. The start
// section, if there is one, runs.
func (b *blueprint) instantiate(ctx context.Context, c *call, pages uint32) (*instance, error) {
	linear, err := b.memory.Linear(uint64(b.minimum)*pageBytes, b.limits.MemoryBytes)
	if err != nil {
		return nil, err
	}
	ctx = experimental.WithMemoryAllocator(withCall(ctx, c), linear)
	n, err := b.use(ctx, c)
	if err != nil {
		linear.Free()
		return nil, err
	}
	m, err := n.Instantiate(ctx, instanceConfig)
	if err != nil {
		err = failure(err, c, linear)
		b.code.Release()
		linear.Free()
		return nil, err
	}
	in := &instance{code: b.code, module: m, memory: m.Memory(), fuel: tankOf(m), linear: linear}
	c.fuel.settle(int64(in.fuel.Get()))
	if err := in.growTo(pages); err != nil {
		in.close(ctx)
		return nil, err
	}
	for _, index := range b.globals {
		in.globals = append(in.globals, m.ExportedGlobal(module.GlobalExport(index)).(api.MutableGlobal))
	}
	in.lookUp()
	return in, nil
}

func (in *instance) lookUp() {
	in.reconcile = in.module.ExportedFunction(abi.ExportReconcile)
	in.stack = nativeStackOf(in.reconcile)
}

// growTo gives the instance at least that many pages, unless the module's own
// maximum is less.
func (in *instance) growTo(pages uint32) error {
	in.linear.Begin() // its start function may live with less
	if have := in.pages(); have < pages {
		in.memory.Grow(pages - have)
	}
	return in.linear.Refused()
}

func (in *instance) pages() uint32 { return in.memory.Size() / pageBytes }

// enter runs an exported function: the only way into guest code apart from
// the start section. What goes wrong is a [*Fault], or ctx's cause.
func (in *instance) enter(ctx context.Context, c *call, f api.Function, args ...uint64) (int32, error) {
	if ctx.Err() != nil {
		return 0, in.failure(&overrun{context.Cause(ctx)}, c)
	}
	var stack [1]uint64 // thole/v1 has at most one parameter and one result
	copy(stack[:], args)
	in.linear.Begin()
	if c.stack = in.stack; f != in.reconcile {
		c.stack = nativeStackOf(f)
	}
	c.fuel.fill(in.fuel)
	err := f.CallWithStack(withCall(ctx, c), stack[:])
	c.fuel.drain()
	if err != nil {
		return 0, in.failure(err, c)
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

func (in *instance) close(ctx context.Context) {
	_ = in.module.Close(ctx)
	in.linear.Free()
	if in.code != nil {
		in.code.Release()
		in.code = nil
	}
}

// broke is the fault of a call that returned against the contract.
func (in *instance) broke(c *call, message string) error {
	return broken{&Fault{
		Class:       abi.ClassABI,
		Message:     message,
		Stdout:      c.process.Stdout.Bytes(),
		Stderr:      c.process.Stderr.Bytes(),
		MemoryBytes: in.linear.Size(),
		Fuel:        c.fuel.used,
	}}
}
