package sandbox

import (
	"context"

	"github.com/thole-dev/thole/host/sandbox/deadline"
)

// This file has what the host gives to a guest that calls a capability.

// ReadCall is a call of a capability by a guest while it is served.
type ReadCall struct {
	Message []byte // as the guest encoded it; the method's to keep
	// MaxReply is how many bytes the reply may have. The method returns
	// [abi.CodeTooLarge] for what would be larger.
	MaxReply int
	// Pay takes the fuel for so many comparisons of an object with a requirement, and
	// gives the execution slot to others when it is their turn. It ends the call by a
	// panic when the fuel is used up or the deadline has passed, so no lock may be held.
	// It may be nil.
	Pay func(comparisons int)
}

// Reply is the reply to a call of a capability. It is not put together: its parts are copied one
// after the other when the guest reads them.
type Reply struct {
	Size int           // of all parts, in bytes
	Next func() []byte // returns the next part; it is not called after the last one
}

// Bytes returns a reply of parts that are there already.
func Bytes(parts ...[]byte) Reply {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	return Reply{Size: size, Next: func() []byte {
		next := parts[0]
		parts = parts[1:]
		return next
	}}
}

// lookCost is what the guest pays for a comparison.
const lookCost = 200

// pay is [ReadCall.Pay]. The call is in a host function that may block.
func (c *call) pay(ctx context.Context, comparisons int) {
	if err := deadline.Pause(ctx, c.task.Unblock); err != nil {
		panic(contextEnded(err))
	}
	c.hostCost += int64(comparisons) * lookCost
	c.payHostCost(ctx)
	c.task.Block()
}

// inputText is a text that the guest reads.
type inputText struct {
	part []byte        // what is left of the present part
	left int           // bytes of all parts that are left
	next func() []byte // returns the part behind it
}

func (t *inputText) set(r Reply) { *t = inputText{left: r.Size, next: r.Next} }

// read fills p, which is not longer than what is left.
func (t *inputText) read(p []byte) {
	t.left -= len(p)
	for len(p) > 0 {
		if len(t.part) == 0 {
			t.part = t.next()
		}
		n := copy(p, t.part)
		p, t.part = p[n:], t.part[n:]
	}
}
