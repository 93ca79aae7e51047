package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/schedule"
	"github.com/thole-dev/thole/host/sanitize"
)

// Guest is a loaded plugin at one digest. It is safe for concurrent use; calls
// beyond [Limits.Instances] wait.
type Guest struct {
	sandbox   *Sandbox
	name      string
	digest    [sha256.Size]byte      // of the file; also the seed of random bytes that are read while loading
	source    func() ([]byte, error) // nil if the file cannot be read again
	manifest  *abi.Manifest
	logger    hclog.Logger
	scheduled *schedule.Plugin
	metrics   Metrics
	pool      *pool
	freed     chan struct{} // closed when Close has freed everything

	// What instances are made from. It does not change once the guest is loaded.
	code    *native.Code
	limits  Limits
	mode    mode
	globals []uint32 // mutable globals, exported under [module.GlobalExport]
	minimum uint32   // pages of memory that the module declares
	beside  uint64   // bytes that an instance takes besides its memory: tables and so on
	memory  *memory.Account

	image     *image // that instances start from; nil in modeFresh
	prewarmer prewarmer

	created, dropped, calls, faults atomic.Uint64
}

// Manifest returns the plugin's manifest, which must not be changed.
func (g *Guest) Manifest() *abi.Manifest { return g.manifest }

// Call is one call of an export that takes a request.
type Call struct {
	// Request is an encoded [abi.Request], or the request of another export, in parts, which
	// are copied when the guest reads them.
	Request [][]byte
	// Namespace is that of the request's object, "" if it is cluster-scoped. What
	// calls in one namespace leave behind is not visible to calls in another one,
	// unless [Limits.PoolNamespaces] is set.
	Namespace string
	// Now is the time at which the guest's clock starts. The clock advances
	// with the guest's readings and sleeps and not with real time. For the zero time
	// clock and random bytes are those of a load.
	Now time.Time
	// Seed is the seed of the random bytes that the guest reads.
	Seed [32]byte
	// Deadline is how long the call may take, without waits for an execution
	// slot. 0, and more than the plugin's [Limits.Deadline], stand for that
	// limit.
	Deadline time.Duration
	// Fuel is how much the call may execute. 0, and more than the plugin's [Limits.Fuel],
	// stand for that limit.
	Fuel int64
	// Host serves what the guest reads and logs, as far as the export may read. If it is
	// nil, get and list return [abi.CodeDenied], and logs go to the sandbox's logger.
	Host HostCalls
	// BeforeRelease is called with the result of a call that succeeded, while
	// the call still holds its execution slot. Decoding a large result takes
	// time, which is then the plugin's and not that of the others. It may be
	// nil.
	BeforeRelease func(Return)
}

// Return is the result of a call that returned as the ABI specifies.
type Return struct {
	// Code is the result code.
	Code abi.Code
	// Output is an encoded [abi.Result], or the result of another export, that has not been
	// checked. It is the caller's to keep.
	Output []byte
	// Usage is what the call used. It is set also if the call failed, as far as
	// guest code ran.
	Usage Usage
}

// Usage is what one call used.
type Usage struct {
	// Duration is the time from the first instruction to the last, with host
	// calls and without waits for an execution slot.
	Duration time.Duration
	// Fuel is the fuel charged: at least what the instructions cost that were
	// executed. The same call uses the same fuel each time.
	Fuel int64
	// MemoryBytes is the size of the instance's memory at the end of the call,
	// which is its largest: memory does not shrink.
	MemoryBytes uint64
}

// Reconcile makes one call. If the guest does not return as the ABI specifies,
// the error is a [*Fault], or wraps one. Any other error has another reason:
// ctx ended, the guest was closed ([ErrClosed]), or no instance could be made.
func (g *Guest) Reconcile(ctx context.Context, call Call) (Return, error) {
	return g.named(g.call(ctx, abi.ExportReconcile, call))
}

// Call is [Guest.Reconcile] for another export, which every guest has whose manifest asks for its calls.
func (g *Guest) Call(ctx context.Context, export string, call Call) (Return, error) {
	return g.named(g.call(ctx, export, call))
}

func (g *Guest) named(out Return, err error) (Return, error) {
	if err != nil {
		err = fmt.Errorf("plugin %q: %w", g.name, err)
	}
	return out, err
}

func (g *Guest) call(ctx context.Context, export string, call Call) (Return, error) {
	namespace := g.stateOf(call)
	in, err := g.pool.acquire(ctx, namespace)
	if err != nil {
		return Return{}, fmt.Errorf("wait for an instance: %w", err)
	}
	var keep *instance // for the next call
	defer func() { g.pool.release(context.WithoutCancel(ctx), keep) }()
	// Code that was unloaded is reloaded before the call holds a slot. While
	// there is an instance it is not unloaded.
	if in == nil {
		if _, err := g.code.Acquire(ctx); err != nil {
			return Return{}, err
		}
		defer g.code.Release()
	}
	ctx, task, err := g.acquireSlot(ctx)
	if err != nil {
		keep = in
		return Return{}, err
	}
	defer task.Release()
	if in, err = g.instanceFor(ctx, in, namespace); err != nil {
		return Return{}, err
	}
	out, returned, err := g.run(ctx, in, export, call)
	if !returned {
		g.drop(ctx, in)
		g.prewarm()
		return out, err
	}
	if err == nil && call.BeforeRelease != nil {
		call.BeforeRelease(out)
	}
	g.prewarmer.allowed.Store(true)
	if g.reset(ctx, in) {
		keep = in
	} else {
		g.prewarm()
	}
	return out, err
}

// run makes a call on an instance. returned reports whether the function returned:
// otherwise the state of the instance is unknown, and it must not be used again.
func (g *Guest) run(ctx context.Context, in *instance, export string, call Call) (out Return, returned bool, err error) {
	ctx, cancel := deadline.With(ctx, min(cmp.Or(max(call.Deadline, 0), g.limits.Deadline), g.limits.Deadline))
	defer cancel()
	c := g.newCall(call)
	c.denied = g.sandbox.denied[export]
	g.calls.Add(1)
	began, waited := time.Now(), taskOf(ctx).Waited()
	c.looked = began
	code, err := in.enter(ctx, c, in.function(export), uint64(uint32(c.input.left)))
	returned = err == nil
	if returned {
		err = checkReturn(c, export, code)
	}
	if err != nil {
		g.faults.Add(1)
	}
	g.reportLimits(c, in.linear)
	return Return{
		Code:   abi.Code(code),
		Output: c.takeOutput(err),
		Usage: Usage{
			Duration:    time.Since(began) - (c.task.Waited() - waited),
			Fuel:        c.fuel.used,
			MemoryBytes: in.linear.Size(),
		},
	}, returned, err
}

func (g *Guest) newCall(from Call) *call {
	if from.Now.IsZero() {
		from.Now, from.Seed = loadTime, g.digest
	}
	c := newCall(&g.limits, from.Now, from.Seed)
	c.fuel.limit = min(cmp.Or(max(from.Fuel, 0), g.limits.Fuel), g.limits.Fuel)
	c.input.set(Bytes(from.Request...))
	c.host = from.Host
	c.log = g.logLine
	if from.Host != nil {
		c.log = from.Host.Log
	}
	return c
}

// checkReturn checks the code of a call that returned, and that there is a
// result.
func checkReturn(c *call, export string, code int32) error {
	switch {
	case code < int32(abi.CodeOK) || code > int32(abi.CodeWaiting):
		return newFault(c, abi.ClassABI, fmt.Sprintf("%s returned %d: the codes are 0 to 3", export, code))
	case code == int32(abi.CodeOK) && len(c.output) == 0:
		return newFault(c, abi.ClassABI, export+" returned 0 without a result: call output before it returns")
	}
	return nil
}

// logLine logs what a guest logs while it is loaded, and in calls without a host.
func (g *Guest) logLine(level int32, message []byte) {
	levels := [...]hclog.Level{hclog.Debug, hclog.Info, hclog.Warn, hclog.Error}
	g.logger.Log(levels[level], sanitize.Line(string(message)))
}

// Close refuses further calls, waits for those in flight, and frees the guest.
// If ctx ends first it returns an error; the guest is then freed when the last
// call has ended.
func (g *Guest) Close(ctx context.Context) error {
	if g.pool.close() {
		go func() {
			g.pool.callers.Wait()
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

// free frees the instances, the image and the compiled code, as far as they
// exist. No call may be in flight.
func (g *Guest) free(ctx context.Context) {
	g.closeIdle(ctx, time.Time{})
	if g.image != nil {
		g.memory.ReleaseImage()
	}
	g.memory.Close()
	if g.code != nil {
		g.code.Close(ctx)
	}
}

// closeIdle closes the idle instances whose last call ended before a time; the
// zero time stands for any.
func (g *Guest) closeIdle(ctx context.Context, before time.Time) {
	for in := g.pool.takeOldest(before); in != nil; in = g.pool.takeOldest(before) {
		in.close(ctx)
	}
}

// Stats describes a guest since it was loaded.
type Stats struct {
	Mode          string // of its instances: reset, pooled or fresh
	Idle, Busy    int    // instances now
	IdleBytes     uint64 // memory of the idle instances
	Calls, Faults uint64 // reconcile calls begun, and those that failed
	Created       uint64 // instances made
	Dropped       uint64 // instances dropped after a failure or because they grew
	Compiled      bool   // whether its native code is in memory
	Reloads       uint64 // how often that was reloaded
}

// Stats returns the state of the guest.
func (g *Guest) Stats() Stats {
	s := Stats{
		Mode:    g.mode.String(),
		Calls:   g.calls.Load(),
		Faults:  g.faults.Load(),
		Created: g.created.Load(),
		Dropped: g.dropped.Load(),
	}
	s.Compiled, s.Reloads = g.code.Stats()
	s.Idle, s.Busy, s.IdleBytes = g.pool.counts()
	return s
}
