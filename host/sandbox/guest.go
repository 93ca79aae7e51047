package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/schedule"
)

// Guest is a plugin at one digest, ready to be called. It is safe for
// concurrent use; calls beyond [Limits.Instances] wait.
type Guest struct {
	blueprint
	sandbox  *Sandbox
	name     string
	digest   string
	source   func() ([]byte, error) // nil: the code cannot be made again
	manifest *abi.Manifest
	imports  []string
	mode     mode
	logger   hclog.Logger
	line     *schedule.Plugin // where its calls wait for a slot
	metrics  Metrics
	pool     *pool
	freed    chan struct{} // closed when nothing of the guest is left

	image  atomic.Pointer[image] // set in mode reset
	growth growth
	ahead  ahead

	created, dropped, calls, faults atomic.Uint64
}

// Manifest is what the plugin describes itself with; it must not be changed.
func (g *Guest) Manifest() *abi.Manifest { return g.manifest }

// Name is the plugin's name.
func (g *Guest) Name() string { return g.name }

// Digest is the SHA-256 of the file, in hex.
func (g *Guest) Digest() string { return g.digest }

// Imports lists what the module imports, as "module.name": an import of
// thole/v1 is a requirement that policy can be held against.
func (g *Guest) Imports() []string { return append([]string(nil), g.imports...) }

// Limits are those in force, defaults filled in.
func (g *Guest) Limits() Limits { return g.limits }

// Call is one reconcile.
type Call struct {
	Request  []byte        // an encoded [abi.Request]
	Now      time.Time     // the guest's clock starts here
	Seed     [32]byte      // of the guest's random bytes
	Deadline time.Duration // 0, or more than the plugin's limit: the limit
	Host     HostCalls     // nil: get and list are denied, logs go to the sandbox's logger
	// Then is handed what a call returned that did not fail, before its slot
	// goes to the next one: reading a large result takes time that is the
	// plugin's. It may be nil.
	Then func(Return)
}

// Return is what a reconcile that returned gives.
type Return struct {
	Code           abi.Code
	Output         []byte        // an encoded [abi.Result], not yet looked at; the caller's to keep
	MemoryBytes    uint64        // of the instance, at its largest
	Fuel           int64         // used, in instructions: at least as many as were executed
	Duration       time.Duration // without waits for an execution slot
	HostCalls      int
	LogDropped     int    // messages beyond [Limits.LogBytes]
	Stdout, Stderr []byte // the last bytes written, bounded
}

// Reconcile makes one call. If the guest does not return as the ABI says the
// error is, or wraps, a [*Fault]. Any other error is not the guest's doing:
// ctx ended, the guest was closed, or no instance could be made. Return holds
// the duration and memory in every case in which the guest ran.
func (g *Guest) Reconcile(ctx context.Context, call Call) (Return, error) {
	in, err := g.pool.enter(ctx)
	if err != nil {
		return Return{}, fmt.Errorf("plugin %q: wait for an instance: %w", g.name, err)
	}
	var keep *instance
	defer func() { g.pool.leave(context.WithoutCancel(ctx), keep) }()
	// Code that sleeps is brought back before the call holds a slot. It does
	// not sleep while there is an instance.
	if in == nil {
		if _, err := g.code.Use(ctx); err != nil {
			return Return{}, fmt.Errorf("plugin %q: %w", g.name, err)
		}
		defer g.code.Release()
	}
	ctx, turn, err := g.takeTurn(ctx)
	if err != nil {
		keep = in
		return Return{}, fmt.Errorf("plugin %q: %w", g.name, err)
	}
	defer turn.Release()
	if in, err = g.ready(ctx, in); err != nil {
		return Return{}, fmt.Errorf("plugin %q: %w", g.name, err)
	}
	out, err := g.reconcile(ctx, in, call)
	if !intact(err) {
		g.drop(ctx, in)
		g.replace()
		return out, fmt.Errorf("plugin %q: %w", g.name, err)
	}
	if err == nil && call.Then != nil {
		call.Then(out)
	}
	g.ahead.earned.Store(true)
	if g.recycle(ctx, in) {
		keep = in
	} else {
		g.replace()
	}
	if err != nil {
		err = fmt.Errorf("plugin %q: %w", g.name, err)
	}
	return out, err
}

// broken is a fault of a call that did return: its instance is as good as
// after any other call.
type broken struct{ *Fault }

func (b broken) Unwrap() error { return b.Fault }

func intact(err error) bool {
	var b broken
	return err == nil || errors.As(err, &b)
}

func (g *Guest) reconcile(ctx context.Context, in *instance, call Call) (Return, error) {
	ctx, cancel := deadline.With(ctx, g.deadlineOf(call))
	defer cancel()
	c := g.callFor(call)
	g.calls.Add(1)
	began, waited := time.Now(), turnOf(ctx).Waited()
	code, err := in.enter(ctx, c, in.reconcile, uint64(uint32(len(call.Request))))
	if err == nil {
		err = g.checkReturn(in, c, code)
	}
	if err != nil {
		g.faults.Add(1)
	}
	g.countHits(c, in.linear)
	return Return{
		Code:        abi.Code(code),
		Output:      c.takeOutput(err),
		MemoryBytes: in.linear.Size(),
		Fuel:        c.fuel.used,
		Duration:    time.Since(began) - (c.turn.Waited() - waited),
		HostCalls:   c.hostCalls,
		LogDropped:  c.logDropped,
		Stdout:      c.process.Stdout.Bytes(),
		Stderr:      c.process.Stderr.Bytes(),
	}, err
}

func (g *Guest) deadlineOf(call Call) time.Duration {
	if call.Deadline <= 0 {
		return g.limits.Deadline
	}
	return min(call.Deadline, g.limits.Deadline)
}

func (g *Guest) callFor(from Call) *call {
	c := newCall(&g.limits, from.Now, from.Seed)
	c.input = from.Request
	c.host = from.Host
	c.log = g.logLine
	if from.Host != nil {
		c.log = from.Host.Log
	}
	return c
}

// checkReturn holds a call that returned against the contract.
func (g *Guest) checkReturn(in *instance, c *call, code int32) error {
	switch {
	case code < int32(abi.CodeOK) || code > int32(abi.CodeWaiting):
		return in.broke(c, fmt.Sprintf("reconcile answered %d: the codes are 0 to 3", code))
	case code == int32(abi.CodeOK) && len(c.output) == 0:
		return in.broke(c, "reconcile answered 0 without a result: call output before it returns")
	}
	return nil
}

func (g *Guest) logLine(level int32, message []byte) {
	levels := [...]hclog.Level{hclog.Debug, hclog.Info, hclog.Warn, hclog.Error}
	g.logger.Log(levels[level], string(message))
}

// Close refuses further calls, waits for those in flight, and frees the
// guest. If ctx ends first it says so; what is left is freed when the last
// call has ended.
func (g *Guest) Close(ctx context.Context) error {
	if g.pool.shut() {
		go func() {
			<-g.pool.idle
			g.free(context.WithoutCancel(ctx))
			g.sandbox.remove(g)
			close(g.freed)
		}()
	}
	select {
	case <-g.freed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close plugin %q: calls are still in flight: %w", g.name, context.Cause(ctx))
	}
}

// free closes the instances and the compiled code, as far as there are any. No
// call is in flight.
func (g *Guest) free(ctx context.Context) {
	for _, in := range g.pool.drain(0) {
		in.close(ctx)
	}
	if im := g.image.Swap(nil); im != nil {
		g.memory.Give(im.memory.Bytes())
	}
	g.memory.Close()
	if g.code != nil {
		g.code.Close(ctx)
	}
}
