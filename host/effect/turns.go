package effect

import (
	"context"
	"sync"
	"time"
)

// turns lets the primaries of a plugin write to a shared object one after the other. Two at once would
// both write to the version that they have read, and one of them would fail.
type turns struct {
	mu sync.Mutex
	of map[objectID]*turn // of the objects that are written to now
}

// turn is the right to write to an object. turns.mu guards users.
type turn struct {
	busy  chan struct{} // capacity 1: full while somebody has the turn
	users int           // who have it or wait for it
}

// longestTurn is how long a write waits for others. An API server that answers more slowly must not
// hold up a worker for each of them.
const longestTurn = 10 * time.Second

// take blocks until no other write to the object is sent, or for longestTurn. The error is the cause
// of ctx's end. Without an error end must be called when the write was answered.
func (t *turns) take(ctx context.Context, id objectID) (end func(), err error) {
	own := t.join(id)
	select {
	case own.busy <- struct{}{}: // nearly always
		return func() { <-own.busy; t.leave(id) }, nil
	default:
	}
	late := time.NewTimer(longestTurn)
	defer late.Stop()
	select {
	case own.busy <- struct{}{}:
		return func() { <-own.busy; t.leave(id) }, nil
	case <-late.C:
		return func() { t.leave(id) }, nil
	case <-ctx.Done():
		t.leave(id)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) join(id objectID) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[objectID]*turn{}
	}
	if t.of[id] == nil {
		t.of[id] = &turn{busy: make(chan struct{}, 1)}
	}
	t.of[id].users++
	return t.of[id]
}

func (t *turns) leave(id objectID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[id].users--; t.of[id].users == 0 {
		delete(t.of, id)
	}
}
