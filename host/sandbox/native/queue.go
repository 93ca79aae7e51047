package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// queue gives compilations their turns: as many at once as there are processors
// and memory for. Who waits goes by attempts, and then by the size of the file:
// a small one that was not tried yet is next.
//
// The time that the engine needs for a module cannot be told from its size, and
// small modules can keep it busy for minutes. An attempt therefore has a time
// that is enough for what compilers write, and more at each further attempt. One
// that takes longer continues as long as no other module could use its turn.
// Otherwise it ends, and the module waits for another attempt behind those that
// had fewer. A further attempt ends at once for a module that was not tried yet.
type queue struct {
	slots  int    // attempts at once
	memory uint64 // that they have together, in bytes

	mu      sync.Mutex
	waiting []*turn // in the order in which they are granted
	running []*turn
}

const (
	// firstMemory is what a first attempt may have, in bytes: enough for a
	// plugin of TinyGo, so that several run at once in a small container.
	firstMemory = 96 << 20
	// maxMemory is what a further attempt may have.
	maxMemory = 1 << 30

	// A first attempt has timePerByte for each byte of the file, between
	// minTime and maxTime, of processor time. A plugin of TinyGo takes 0.8 us
	// for each (RATIONALE.md).
	timePerByte = 1500 * time.Nanosecond
	minTime     = 100 * time.Millisecond
	maxTime     = time.Second
	// growth is how much more each further attempt has.
	growth = 4
	// maxAttempts bounds attempts that fail because other processes use the
	// memory.
	maxAttempts = 4
)

// turn is a compilation that waits or runs.
type turn struct {
	queue   *queue
	size    int64
	patient bool // it never ends for another one
	attempt int  // that comes next or runs

	granted chan struct{}
	memory  uint64 // in bytes
	share   int    // of the processors

	// Guarded by the queue's mu.
	stop    context.CancelCauseFunc // ends the attempt; nil before it runs
	overdue bool                    // the attempt has had its time
	stopped bool                    // the attempt was ended for another one
}

func newQueue(slots int, memory uint64) *queue {
	return &queue{slots: slots, memory: max(memory, firstMemory)}
}

// time returns how much processor time the attempt has.
func (t *turn) time() time.Duration {
	first := min(max(time.Duration(t.size)*timePerByte, minTime), maxTime)
	for range t.attempt {
		first *= growth
	}
	return first
}

// before is the order in which turns are granted.
func before(a, b *turn) int {
	return cmp.Or(cmp.Compare(a.attempt, b.attempt), cmp.Compare(a.size, b.size))
}

// wait blocks until it is the turn of t. [queue.end] must follow.
func (q *queue) wait(ctx context.Context, t *turn) error {
	q.mu.Lock()
	t.granted, t.stop, t.overdue, t.stopped = make(chan struct{}), nil, false, false
	if t.memory = q.mostMemory(); t.attempt == 0 {
		t.memory = firstMemory
	}
	at, _ := slices.BinarySearchFunc(q.waiting, t, func(a, b *turn) int { return cmp.Or(before(a, b), -1) })
	q.waiting = slices.Insert(q.waiting, at, t)
	q.grant()
	q.mu.Unlock()
	select {
	case <-t.granted:
		return nil
	case <-ctx.Done():
		q.forget(t)
		return fmt.Errorf("wait for other modules: %w", context.Cause(ctx))
	}
}

// mostMemory returns how much memory one attempt may have.
func (q *queue) mostMemory() uint64 { return min(q.memory, maxMemory) }

// grant grants the turns that there is room for, and makes room for the next.
func (q *queue) grant() {
	for len(q.waiting) > 0 {
		next := q.waiting[0]
		if !q.hasRoom(next) {
			q.makeRoom(next)
			return
		}
		q.waiting = q.waiting[1:]
		q.running = append(q.running, next)
		next.share = max(1, q.slots/(len(q.running)+len(q.waiting)))
		close(next.granted)
	}
}

func (q *queue) hasRoom(next *turn) bool {
	used := uint64(0)
	for _, t := range q.running {
		used += t.memory
	}
	return len(q.running) == 0 || len(q.running) < q.slots && used+next.memory <= q.memory
}

// makeRoom ends an attempt for the next one, unless one was ended already.
func (q *queue) makeRoom(next *turn) {
	var last *turn // the one with the most attempts
	for _, t := range q.running {
		switch {
		case t.stopped:
			return
		case t.givesWayTo(next) && (last == nil || t.attempt > last.attempt):
			last = t
		}
	}
	if last != nil {
		last.stopped = true
		if last.stop != nil {
			last.stop(errGaveWay)
		}
	}
}

func (t *turn) givesWayTo(next *turn) bool {
	return !t.patient && (t.overdue && next.attempt <= t.attempt || t.attempt > 0 && next.attempt == 0)
}

// errGaveWay is why an attempt was ended for another one.
var errGaveWay = errors.New("other modules are waiting")

var (
	// errUnfinished is the error of an attempt that has ended by itself: it
	// needs more memory than it had, as far as can be told.
	errUnfinished = fmt.Errorf("%w", ErrTooExpensive)
	// errKilled is the error of an attempt that somebody else has ended, as the
	// kernel does when there is no memory.
	errKilled = fmt.Errorf("%w: the compiler was killed: give the host more memory", ErrTooExpensive)
)

// setStop sets the function that ends the running attempt.
func (q *queue) setStop(t *turn, stop context.CancelCauseFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.stop = stop
	if t.stopped {
		stop(errGaveWay)
	}
}

// stop ends a running attempt for a reason.
func (q *queue) stop(t *turn, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.stop(why)
}

// setOverdue states that a running attempt has had its time.
func (q *queue) setOverdue(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.overdue = true
	q.grant()
}

// end ends an attempt. again reports whether another one may have another
// result: t is to wait once more then.
func (q *queue) end(t *turn, err error) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = slices.DeleteFunc(q.running, func(other *turn) bool { return other == t })
	q.grant()
	switch {
	case errors.Is(err, errGaveWay) && !t.overdue: // it had no time of its own
		return true
	case errors.Is(err, errGaveWay),
		errors.Is(err, errUnfinished) && t.memory < q.mostMemory(),
		errors.Is(err, errKilled) && t.attempt < maxAttempts:
		t.attempt++
		return true
	}
	return false
}

// forget removes a turn that is not wanted any more.
func (q *queue) forget(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	gone := func(other *turn) bool { return other == t }
	q.waiting = slices.DeleteFunc(q.waiting, gone)
	q.running = slices.DeleteFunc(q.running, gone)
	q.grant()
}
