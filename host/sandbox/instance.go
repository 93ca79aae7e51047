package sandbox

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/wasi"
	"github.com/thole-dev/thole/host/sanitize"
)

// instance is one instantiated module. It must be used by one goroutine at a
// time: the engine's functions are not safe for concurrent use.
type instance struct {
	code    *native.Code // which it uses until it is closed
	module  api.Module
	memory  api.Memory
	fuel    api.MutableGlobal
	linear  *memory.Linear      // behind memory
	globals []api.MutableGlobal // in the order of Guest.globals
	top     uint64              // the first of globals before any of its code has run
	image   *image              // that it is reset to; nil if it is not reset
	used    time.Time           // when its last call ended
	dirty   bool                // whether it has state of calls, all in one namespace
	served  string              // that namespace

	reconcile api.Function // looked up once, as that allocates a stack for it
	stack     nativeStack  // of reconcile
}

// instanceConfig has an empty source of random numbers, which is never read:
// making the engine's own takes a fifth of the time that an instance takes.
var instanceConfig = wazero.NewModuleConfig().WithName("").WithStartFunctions().
	WithRandSource(strings.NewReader(""))

// instantiate makes an instance with at least that many pages. None of its code has
// run yet.
func (g *Guest) instantiate(ctx context.Context, c *call, pages uint32) (*instance, error) {
	ctx = withCall(ctx, c)
	caller := memoryCaller{ctx, c}
	linear, err := g.memory.Linear(uint64(g.minimum)*pageBytes, g.limits.MemoryBytes, g.beside, caller)
	if err != nil {
		return nil, err
	}
	defer linear.EndCall()
	ctx = experimental.WithMemoryAllocator(ctx, linear)
	n, err := g.acquireCode(ctx, c)
	if errors.Is(err, deadline.ErrPassed) { // which is the call's, though its code has not begun
		err = failure(contextEnded(err), c, linear)
	}
	if err != nil {
		linear.Free()
		return nil, err
	}
	m, err := n.Instantiate(ctx, instanceConfig)
	if err != nil {
		err = failure(err, c, linear)
		g.code.Release()
		linear.Free()
		return nil, err
	}
	in := &instance{code: g.code, module: m, memory: m.Memory(), fuel: fuelGlobal(m), linear: linear}
	if err := in.growTo(pages); err != nil {
		in.close(ctx)
		return nil, err
	}
	for _, index := range g.globals {
		in.globals = append(in.globals, m.ExportedGlobal(module.GlobalExport(index)).(api.MutableGlobal))
	}
	if len(in.globals) > 0 {
		in.top = in.globals[0].Get()
	}
	in.lookUpReconcile()
	return in, nil
}

// startInstance makes an instance that is ready for its first call, in an
// execution slot. It returns what describe wrote, also if a later step failed.
func (g *Guest) startInstance(ctx context.Context, pages uint32) (*instance, []byte, error) {
	ctx, task, err := g.acquireSlot(ctx)
	if err != nil {
		return nil, nil, g.loadError(StepInstantiate, err)
	}
	defer task.Release()
	ctx, cancel := deadline.With(ctx, g.limits.Deadline)
	defer cancel()
	c := newCall(&g.limits, loadTime, g.digest)
	if g.manifest == nil { // later instances would repeat it for each call
		c.log = g.logLine
	}
	in, err := g.instantiate(ctx, c, pages)
	if err != nil {
		return nil, nil, g.loadError(StepInstantiate, err)
	}
	manifest, err := g.initialize(ctx, in, c)
	g.reportLimits(c, in.linear)
	if err != nil {
		in.close(ctx)
		return nil, manifest, err
	}
	return in, manifest, nil
}

// initialize runs the start function, _initialize, describe and warm, and returns
// what describe wrote.
func (g *Guest) initialize(ctx context.Context, in *instance, c *call) (manifest []byte, err error) {
	if _, err := in.runExport(ctx, c, module.StartExport); err != nil {
		return nil, g.loadError(StepInstantiate, err)
	}
	if _, err := in.runExport(ctx, c, abi.ExportInitialize); err != nil {
		return nil, g.loadError(StepInitialize, err)
	}
	c.output = nil
	code, err := in.runExport(ctx, c, abi.ExportDescribe)
	switch {
	case err != nil:
		return nil, g.loadError(StepDescribe, err)
	case code != 0:
		fault := newFault(c, abi.ClassABI, fmt.Sprintf("it returned %d, not 0", code))
		fault.Printed = c.printed()
		return nil, g.loadError(StepDescribe, fault)
	case len(c.output) == 0:
		return nil, g.loadError(StepDescribe, errors.New("it wrote no manifest: pass it to output before it returns 0"))
	}
	manifest, c.output = c.output, nil
	if _, err := in.runExport(ctx, c, abi.ExportWarm); err != nil {
		return manifest, g.loadError(StepWarm, err)
	}
	return manifest, nil
}

// maxQuote bounds what is kept of a guest's stdout and stderr, in bytes.
const maxQuote = 512

// printed returns what a guest has printed, for an error without a trap.
func (c *call) printed() string {
	for _, t := range []*wasi.Tail{&c.process.Stderr, &c.process.Stdout} {
		if text := t.Bytes(); text != nil {
			return sanitize.Truncate(strings.TrimSpace(string(text)), maxQuote)
		}
	}
	return ""
}

// lookUpReconcile looks up reconcile, with a new stack.
func (in *instance) lookUpReconcile() {
	in.reconcile = in.module.ExportedFunction(abi.ExportReconcile)
	in.stack = nativeStackOf(in.reconcile)
	_ = in.linear.HoldStack(0) // never fails: less always fits
}

// function returns a function that takes the length of its input. One that is called less
// often than reconcile is looked up each time, so that an idle instance keeps no stack for it.
func (in *instance) function(export string) api.Function {
	if export == abi.ExportReconcile {
		return in.reconcile
	}
	return in.module.ExportedFunction(export)
}

// growTo grows the memory to at least that many pages, unless the module's own
// maximum is less.
func (in *instance) growTo(pages uint32) error {
	if have := in.memory.Size() / pageBytes; have < pages {
		in.memory.Grow(pages - have)
		in.linear.Touch()
	}
	return in.linear.Refused()
}

// enter runs an exported function. This is the only way into guest code. The error is
// a [*Fault], or wraps ctx's cause.
func (in *instance) enter(ctx context.Context, c *call, f api.Function, args ...uint64) (int32, error) {
	if ctx.Err() != nil {
		return 0, in.failure(contextEnded(context.Cause(ctx)), c)
	}
	var stack [1]uint64 // functions of thole/v1 have at most one parameter and one result
	copy(stack[:], args)
	ctx = withCall(ctx, c)
	in.linear.BeginCall(memoryCaller{ctx, c})
	defer in.linear.EndCall()
	if c.stack = in.stack; f != in.reconcile {
		c.stack = nativeStackOf(f)
	}
	c.fuel.begin(in.fuel, in.linear)
	err := f.CallWithStack(ctx, stack[:])
	c.fuel.end()
	if err != nil {
		return 0, in.failure(err, c)
	}
	return api.DecodeI32(stack[0]), nil
}

// runExport runs an exported function, or returns 0 if there is none of that
// name.
func (in *instance) runExport(ctx context.Context, c *call, name string) (int32, error) {
	f := in.module.ExportedFunction(name)
	if f == nil {
		return 0, nil
	}
	return in.enter(ctx, c, f)
}

func (in *instance) close(ctx context.Context) {
	_ = in.module.Close(ctx)
	in.linear.Free()
	if in.code != nil {
		in.code.Release()
		in.code = nil
	}
}

// maxStack bounds the engine's stack of a call, in bytes. The engine doubles a
// stack up to some 80 MB, which is out of proportion to the memory that a plugin
// may have, and nothing can pause the copying. The size is checked at ticks
// (RATIONALE.md, "Why is the stack limited at ticks?").
const maxStack = 2 << 20

// maxIdleStack bounds the stack of an idle instance.
const maxIdleStack = 256 << 10

// nativeStack is the stack that the engine keeps for a function which the host
// calls.
type nativeStack struct {
	bytes   reflect.Value
	initial int // their number before the first call
}

// nativeStackOf reads a private field of the engine's function: there is no
// other way to learn the size. TestNativeStackIsBounded fails for an engine that
// keeps the stack elsewhere.
func nativeStackOf(f api.Function) nativeStack {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nativeStack{}
	}
	field := v.Elem().FieldByName("stack")
	if field.Kind() != reflect.Slice {
		return nativeStack{}
	}
	return nativeStack{field, field.Len()}
}

// size returns the current size in bytes.
func (s nativeStack) size() int {
	if !s.bytes.IsValid() {
		return 0
	}
	return s.bytes.Len()
}

// grown returns by how much it is larger than for a call that does not nest, in bytes.
func (s nativeStack) grown() uint64 { return uint64(s.size() - s.initial) }
