package sandbox

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/schedule"
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

	fuel           fuel
	stack          nativeStack
	owed           int64 // for the host function that is running
	clock          virtualClock
	seed           [32]byte
	random         *rand.ChaCha8 // from seed, when first read
	stdout, stderr tail
}

func newCall(limits *Limits, now time.Time, seed [32]byte) *call {
	return &call{
		limits: limits,
		log:    func(int32, []byte) {},
		fuel:   fuel{limit: limits.Fuel, slice: sliceFuel},
		clock:  virtualClock{now: now.UnixNano()},
		seed:   seed,
		stdout: tail{limit: limits.StdioBytes},
		stderr: tail{limit: limits.StdioBytes},
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

// randomBytes fills p from the call's stream.
func (c *call) randomBytes(p []byte) {
	if c.random == nil {
		c.random = rand.NewChaCha8(c.seed)
	}
	_, _ = c.random.Read(p) // never fails
}

// virtualClock is the guest's time, in nanoseconds since 1970: it starts at
// the call's, and moves by each reading and each sleep.
type virtualClock struct{ now int64 }

const clockStep = int64(time.Microsecond)

func (v *virtualClock) read() int64 {
	v.now += clockStep
	return v.now
}

// sleepUntil moves the clock forward, never back.
func (v *virtualClock) sleepUntil(t int64) { v.now = max(v.now, t) }

// tail keeps the last limit bytes of what is written: after a panic these
// hold the message.
type tail struct {
	limit int
	data  []byte
}

// write answers how many bytes it copied.
func (t *tail) write(p []byte) int {
	if len(p) > t.limit {
		p = p[len(p)-t.limit:]
	}
	t.data = append(t.data, p...)
	if len(t.data) > 2*t.limit {
		t.data = append(t.data[:0], t.data[len(t.data)-t.limit:]...)
	}
	return len(p)
}

// bytes is a copy of what is kept, or nil.
func (t *tail) bytes() []byte {
	kept := t.data[max(0, len(t.data)-t.limit):]
	if len(kept) == 0 {
		return nil
	}
	return append([]byte(nil), kept...)
}

func clampLevel(level int32) int32 { return min(max(level, abi.LogDebug), abi.LogError) }
