package sandbox

import (
	"context"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/schedule"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// HostCalls answers what a guest asks during a reconcile. Its methods are
// called on the goroutine of [Guest.Reconcile], one at a time.
type HostCalls interface {
	// Get answers the message of an [abi.GetCall]: the reply and a code that
	// is negative ([abi.CodeNotFound] and so on) or ignored. ctx ends with
	// the call's deadline and must be honoured: nothing else stops a host
	// function. The call's bytes are the method's to keep.
	Get(ctx context.Context, call []byte) (reply []byte, code int64)
	// List answers the message of an [abi.ListCall] in the same way.
	List(ctx context.Context, call []byte) (reply []byte, code int64)
	// Log takes a line of the guest. Levels are those of [abi.LogDebug] to
	// [abi.LogError]; the message may hold any bytes and is the method's to
	// keep.
	Log(level int32, message []byte)
}

// call is the state of one entry into guest code, shared by the host
// functions. It is used by one goroutine at a time.
type call struct {
	limits *Limits
	turn   *schedule.Turn // the slot that guest code runs in
	host   HostCalls      // nil while loading: capabilities answer denied
	log    func(level int32, message []byte)

	input       []byte // what the cursor has not yet copied
	output      []byte
	buffer      *[]byte // that a large output is in, of outputBuffers
	outputCalls int
	hostCalls   int
	logged      int      // bytes, with a share per message
	logDropped  int      // messages
	hits        []string // limits

	fuel    fuel
	stack   nativeStack
	owed    int64 // for the host function that is running
	process wasi.Process
}

func newCall(limits *Limits, now time.Time, seed [32]byte) *call {
	return &call{
		limits:  limits,
		log:     func(int32, []byte) {},
		fuel:    fuel{limit: limits.Fuel, slice: sliceFuel},
		process: wasi.NewProcess(now, seed, limits.StdioBytes),
	}
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	c.turn = turnOf(ctx)
	return context.WithValue(ctx, callKey{}, c)
}

// callOf is the call of a host function's context. Guest code is entered by
// [instance.enter] only, which puts it there.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

func clampLevel(level int32) int32 { return min(max(level, abi.LogDebug), abi.LogError) }
