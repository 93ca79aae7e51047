package sandbox

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// violation ends a call because the guest broke the contract. The engine
// carries it as a panic to the caller of the guest.
type violation struct{ message string }

func (v *violation) Error() string { return v.message }

func violate(format string, args ...any) { panic(&violation{fmt.Sprintf(format, args...)}) }

var tholeFunctions = []hostFunction{
	{abi.ImportInput, signature(params(i32, i32)), input},
	{abi.ImportOutput, signature(params(i32, i32)), output},
	{abi.ImportLog, signature(params(i32, i32, i32)), logLine},
	{abi.ImportGet, signature(params(i32, i32), i64), capability(abi.ImportGet, HostCalls.Get)},
	{abi.ImportList, signature(params(i32, i32), i64), capability(abi.ImportList, HostCalls.List)},
}

// systemFunctions are those of package wasi.
func systemFunctions() (out []hostFunction) {
	for _, f := range wasi.Functions() {
		out = append(out, hostFunction{f.Name, f.Type, func(_ context.Context, c *call, memory api.Memory, stack []uint64) {
			f.Call(&c.process, memory, stack)
			c.oweWork()
		}})
	}
	return out
}

// instantiate makes the functions importable in a runtime.
func (m hostModule) instantiate(ctx context.Context, r wazero.Runtime) error {
	builder := r.NewHostModuleBuilder(m.name)
	for _, f := range m.functions {
		run := f.run
		builder.NewFunctionBuilder().WithGoModuleFunction(
			api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
				c := callOf(ctx)
				run(ctx, c, guest.Memory(), stack)
				c.pay(ctx, guest)
			}), valueTypes(f.typ.Params), valueTypes(f.typ.Results)).Export(f.name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// view is guest memory itself: it must be copied before it leaves the host
// function, as the guest changes it later.
func view(memory api.Memory, function string, ptr, length uint64) []byte {
	p, ok := memory.Read(uint32(ptr), uint32(length))
	if !ok {
		violate("%s: %d bytes at %d are outside of the memory of %d bytes", function, uint32(length), uint32(ptr), memory.Size())
	}
	return p
}

// input copies the next bytes of the request, or of the last reply.
func input(_ context.Context, c *call, memory api.Memory, stack []uint64) {
	p := view(memory, abi.ImportInput, stack[0], stack[1])
	if len(p) > len(c.input) {
		violate("input: %d bytes asked for, %d are left", len(p), len(c.input))
	}
	c.input = c.input[copy(p, c.input):]
	c.owe(copyFuel(len(p)))
}

// output appends to the result.
func output(_ context.Context, c *call, memory api.Memory, stack []uint64) {
	p := view(memory, abi.ImportOutput, stack[0], stack[1])
	if len(p) > c.limits.OutputBytes-len(c.output) {
		c.hit(LimitOutput)
		violate("output: more than the limit of %d bytes: write a smaller result", c.limits.OutputBytes)
	}
	c.output = append(c.roomFor(len(p)), p...)
	c.owe(copyFuel(len(p)))
	c.outputCalls++
}

// logOverhead is what a message costs beside its bytes, so that empty
// messages are bounded too.
const logOverhead = 64

func logLine(_ context.Context, c *call, memory api.Memory, stack []uint64) {
	p := view(memory, abi.ImportLog, stack[1], stack[2])
	cost := len(p) + logOverhead
	if cost > c.limits.LogBytes-c.logged {
		c.hit(LimitLog)
		c.logDropped++
		return
	}
	c.logged += cost
	c.owe(logFuel + copyFuel(len(p)))
	c.log(clampLevel(api.DecodeI32(stack[0])), bytes.Clone(p))
}

// capability is a host function that asks the host something: the reply
// becomes the input, and its length or a negative code the answer.
func capability(name string, ask func(HostCalls, context.Context, []byte) ([]byte, int64)) func(context.Context, *call, api.Memory, []uint64) {
	return func(ctx context.Context, c *call, memory api.Memory, stack []uint64) {
		message := view(memory, name, stack[0], stack[1])
		c.input = nil
		if c.hostCalls++; c.hostCalls > c.limits.HostCalls {
			c.hit(LimitHostCalls)
			violate("%s: more than the limit of %d host calls: read less in one run", name, c.limits.HostCalls)
		}
		if c.host == nil {
			stack[0] = api.EncodeI64(abi.CodeDenied)
			return
		}
		if len(message) > abi.MaxCall {
			stack[0] = api.EncodeI64(abi.CodeInvalid)
			return
		}
		c.turn.Leave()
		reply, code := ask(c.host, ctx, bytes.Clone(message))
		if ctx.Err() != nil {
			panic(&overrun{context.Cause(ctx)})
		}
		if err := deadline.Unhurried(ctx, c.turn.Return); err != nil {
			panic(&overrun{err})
		}
		c.owe(askFuel + copyFuel(len(message)+len(reply)))
		stack[0] = api.EncodeI64(c.reply(reply, code))
	}
}

func (c *call) reply(reply []byte, code int64) int64 {
	switch {
	case code < 0:
		return code
	case len(reply) > c.limits.ReplyBytes:
		c.hit(LimitReply)
		return abi.CodeTooLarge
	}
	c.input = reply
	return int64(len(reply))
}
