package effect

import (
	"context"
	"time"
)

// turns lets the primaries of a plugin write to a shared object one after the other. Two at once would
// both write to the version that they have read, and one of them would fail. Each is full while a
// write is sent to an object whose digest begins so.
type turns [64]chan struct{}

// longestTurn is how long a write waits for others. An API server that answers more slowly must not
// hold up a worker for each of them.
const longestTurn = 10 * time.Second

func newTurns() (t turns) {
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

// take blocks until no other write to the object is sent, or for longestTurn. The error is the cause
// of ctx's end.
func (t *turns) take(ctx context.Context, id objectID) (end func(), err error) {
	turn, late := t[int(id[0])%len(t)], time.NewTimer(longestTurn)
	defer late.Stop()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-late.C:
		return func() {}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
