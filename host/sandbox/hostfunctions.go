package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/schedule"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// This file has the functions that guests import, each with its signature: what
// can be imported and what runs are one list.

// HostCalls serves what a guest reads and logs during a reconcile. Its methods
// are called on the goroutine of [Guest.Reconcile], one at a time.
type HostCalls interface {
	// Get serves a get: the message is an encoded [abi.GetCall]. The code is negative
	// for a failure ([abi.CodeNotFound] and so on); any other code is ignored,
	// and reply is what the guest reads. ctx ends at the call's deadline and
	// must be honoured: nothing else stops a host function.
	Get(ctx context.Context, call ReadCall) (reply Reply, code int64)
	// List serves a list in the same way: the message is an encoded [abi.ListCall].
	List(ctx context.Context, call ReadCall) (reply Reply, code int64)
	// Import serves the import of a capability in the same way. One that waits may block until the deadline.
	Import(ctx context.Context, name string, call ReadCall) (reply Reply, code int64)
	// Log receives a message of the guest. The level is one of [abi.LogDebug]
	// to [abi.LogError]. The message may contain any bytes and is the method's
	// to keep.
	Log(level int32, message []byte)
}

// hostFunction is a function that a guest may import. Parameters and result are
// on the stack, as in [api.GoModuleFunction].
type hostFunction struct {
	module, name string
	typ          wasm.FuncType
	run          func(ctx context.Context, c *call, memory api.Memory, stack []uint64)
}

// hostFunctions lists the functions that guests may import, without those of capabilities.
var hostFunctions = append(systemFunctions(), []hostFunction{
	{abi.ImportModule, abi.ImportInput, wasm.Signature(params(i32, i32)), input},
	{abi.ImportModule, abi.ImportOutput, wasm.Signature(params(i32, i32)), output},
	{abi.ImportModule, abi.ImportLog, wasm.Signature(params(i32, i32, i32)), logMessage},
	{abi.ImportModule, abi.ImportGet, wasm.Signature(params(i32, i32), i64), capability(abi.ImportGet, abi.MaxCall, (*schedule.Task).Block, HostCalls.Get)},
	{abi.ImportModule, abi.ImportList, wasm.Signature(params(i32, i32), i64), capability(abi.ImportList, abi.MaxCall, (*schedule.Task).Block, HostCalls.List)},
}...)

// systemFunctions returns the functions of package wasi.
func systemFunctions() (out []hostFunction) {
	for _, f := range wasi.Functions {
		out = append(out, hostFunction{wasi.ImportModule, f.Name, f.Type(), func(_ context.Context, c *call, memory api.Memory, stack []uint64) {
			f.Call(&c.process, memory, stack)
			c.chargeSystemCall()
		}})
	}
	return out
}

// functions returns the functions that guests may import.
func (c Config) functions() []hostFunction {
	all := slices.Clip(hostFunctions)
	for _, of := range c.Capabilities {
		for _, in := range of.Imports {
			all = append(all, in.function())
		}
	}
	return all
}

// function returns the function that a guest imports.
func (in Import) function() hostFunction {
	wait := (*schedule.Task).Block
	if in.Waits > 0 {
		wait = (*schedule.Task).Leave
	}
	serve := func(h HostCalls, ctx context.Context, call ReadCall) (Reply, int64) {
		return h.Import(ctx, in.Name, call)
	}
	return hostFunction{abi.ImportModule, in.Name, importType, capability(in.Name, in.MaxMessage, wait, serve)}
}

// importType is the type of what capabilities answer.
var importType = wasm.Signature(params(i32, i32), i64)

// addHostModules makes everything that modules import available in a runtime.
func (c Config) addHostModules(ctx context.Context, r wazero.Runtime) error {
	functions := c.functions()
	for _, name := range []string{abi.ImportModule, wasi.ImportModule} {
		builder := r.NewHostModuleBuilder(name)
		for _, f := range functions {
			if f.module == name {
				f.addTo(builder)
			}
		}
		if _, err := builder.Instantiate(ctx); err != nil {
			return fmt.Errorf("add host module %s: %w", name, err)
		}
	}
	return addTick(ctx, r)
}

func (f *hostFunction) addTo(builder wazero.HostModuleBuilder) {
	run := f.run
	builder.NewFunctionBuilder().WithGoModuleFunction(
		api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
			c := callOf(ctx)
			run(ctx, c, guest.Memory(), stack)
			c.payHostCost(ctx)
		}), []api.ValueType(f.typ.Params), []api.ValueType(f.typ.Results)).Export(f.name)
}

// guestBytes returns a range of guest memory. It is not a copy: bytes that are
// kept after the host function has returned must be copied, because the guest
// changes them.
func guestBytes(memory api.Memory, function string, ptr, length uint64) []byte {
	p, ok := memory.Read(uint32(ptr), uint32(length))
	if !ok {
		violate("%s: %d bytes at %d are outside of the memory of %d bytes", function, uint32(length), uint32(ptr), memory.Size())
	}
	return p
}

// inputChunk is how much is copied before the guest pays for it, and is at a tick
// if it cannot.
const inputChunk = 1 << 20

// input copies the next bytes of the request, or of the last reply.
func input(ctx context.Context, c *call, memory api.Memory, stack []uint64) {
	p := guestBytes(memory, abi.ImportInput, stack[0], stack[1])
	if len(p) > c.input.left {
		violate("input: %d bytes asked for, %d are left", len(p), c.input.left)
	}
	for len(p) > inputChunk {
		c.input.read(p[:inputChunk])
		c.hostCost += copyCost(inputChunk)
		c.payHostCost(ctx)
		p = p[inputChunk:]
	}
	c.input.read(p)
	c.hostCost += copyCost(len(p))
}

// output appends to the result.
func output(_ context.Context, c *call, memory api.Memory, stack []uint64) {
	p := guestBytes(memory, abi.ImportOutput, stack[0], stack[1])
	if len(p) > c.limits.OutputBytes-len(c.output) {
		c.noteLimit(LimitOutput)
		violate("output: more than the limit of %d bytes: write a smaller result", c.limits.OutputBytes)
	}
	c.output = append(c.outputWithRoom(len(p)), p...)
	c.hostCost += copyCost(len(p))
}

// logOverhead is what a message counts besides its bytes, so that the number of
// empty messages is bounded too.
const logOverhead = 64

func logMessage(_ context.Context, c *call, memory api.Memory, stack []uint64) {
	p := guestBytes(memory, abi.ImportLog, stack[1], stack[2])
	size := len(p) + logOverhead
	if size > c.limits.LogBytes-c.logged {
		c.noteLimit(LimitLog)
		return
	}
	c.logged += size
	c.hostCost += logCost + copyCost(len(p))
	level := min(max(api.DecodeI32(stack[0]), abi.LogDebug), abi.LogError)
	c.log(level, bytes.Clone(p))
}

// capability is a host function that sends a message of at most so many bytes to the
// host. The reply becomes the input, and its length or a negative code the result. block
// lets the call wait for the reply.
func capability(name string, most int, block func(*schedule.Task), serve func(HostCalls, context.Context, ReadCall) (Reply, int64)) func(context.Context, *call, api.Memory, []uint64) {
	return func(ctx context.Context, c *call, memory api.Memory, stack []uint64) {
		message := guestBytes(memory, name, stack[0], stack[1])
		c.input = inputText{}
		if c.hostCalls++; c.hostCalls > c.limits.HostCalls {
			c.noteLimit(LimitHostCalls)
			violate("%s: more than the limit of %d host calls: read less in one run", name, c.limits.HostCalls)
		}
		if c.host == nil || slices.Contains(c.denied, name) {
			stack[0] = api.EncodeI64(abi.CodeDenied)
			return
		}
		if len(message) > most {
			stack[0] = api.EncodeI64(abi.CodeInvalid)
			return
		}
		block(c.task)
		reply, code := serve(c.host, ctx, ReadCall{
			Message: bytes.Clone(message), MaxReply: c.limits.ReplyBytes, Pay: func(comparisons int) { c.pay(ctx, comparisons) },
		})
		if ctx.Err() != nil {
			panic(contextEnded(context.Cause(ctx)))
		}
		if err := deadline.Pause(ctx, c.task.Unblock); err != nil {
			panic(contextEnded(err))
		}
		c.hostCost += hostCallCost + copyCost(len(message))
		stack[0] = api.EncodeI64(c.setReply(reply, code))
	}
}

// setReply makes a reply the input, and returns the result of the host function.
func (c *call) setReply(reply Reply, code int64) int64 {
	if code >= 0 && reply.Size > c.limits.ReplyBytes {
		code = abi.CodeTooLarge
	}
	if code == abi.CodeTooLarge {
		c.noteLimit(LimitReply)
	}
	if code < 0 {
		return code
	}
	c.input.set(reply)
	return int64(reply.Size)
}
