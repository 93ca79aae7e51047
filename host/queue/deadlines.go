package queue

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
)

// deadlines is a heap of entries by their wake time. client-go's delaying queue
// does not serve here: it can neither replace nor cancel a time.
type deadlines []*entry

func (t deadlines) Len() int           { return len(t) }
func (t deadlines) Less(i, j int) bool { return t[i].wake.Before(t[j].wake) }

func (t deadlines) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].slot, t[j].slot = i, j
}

// Push implements heap.Interface.
func (t *deadlines) Push(x any) {
	e := x.(*entry)
	e.slot = len(*t)
	*t = append(*t, e)
}

// Pop implements heap.Interface.
func (t *deadlines) Pop() any {
	old := *t
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	e.slot = -1
	return e
}

// set gives an entry its wake time, or takes it out of the heap if that is zero.
// It reports whether the entry is the first one now.
func (t *deadlines) set(e *entry, wake time.Time) (first bool) {
	e.wake = wake
	switch {
	case wake.IsZero() && e.slot >= 0:
		heap.Remove(t, e.slot)
	case wake.IsZero():
	case e.slot >= 0:
		heap.Fix(t, e.slot)
	default:
		heap.Push(t, e)
	}
	return e.slot == 0
}

// update must be called after every change of an entry: it sets its wake time, and
// drops an entry that waits for nothing. q.mu is held.
func (q *Queue) update(e *entry) {
	if q.deadlines.set(e, e.wakeTime()) {
		select {
		case q.rescheduled <- struct{}{}:
		default:
		}
	}
	if e.disposable() {
		delete(q.keys, e.key)
		q.shrink()
	}
}

// shrinkFrom is from how many keys on the queue frees what it took for them.
const shrinkFrom = 1024

// shrink frees the place of keys that wait for nothing any more: after the start,
// that is one for each object, and a map never gets smaller. q.mu is held, for as
// long as it takes to copy the few keys that are left.
func (q *Queue) shrink() {
	if q.most < shrinkFrom || len(q.keys) > q.most/16 {
		return
	}
	keys := make(map[Key]*entry, len(q.keys))
	maps.Copy(keys, q.keys)
	q.keys, q.most, q.deadlines = keys, len(keys), slices.Clone(q.deadlines)
}

// expire makes a key due whose edge, spread, deadline or latest has come. q.mu is held.
func (q *Queue) expire(e *entry, now time.Time) {
	come := func(t time.Time) bool { return !t.IsZero() && !t.After(now) }
	if come(e.edge) {
		e.edge = time.Time{}
		q.makeDue(e, e.laneFor(rule{lane: fresh}))
	}
	if come(e.spread) {
		e.spread = time.Time{}
		q.makeDue(e, e.laneFor(ruleOf(abi.ReasonPlugin)))
	}
	if come(e.deadline) {
		e.deadline = time.Time{}
		e.addReason(e.next.Reason, rule{})
		q.makeDue(e, laneOf(e.next))
	}
	if come(e.latest) {
		e.latest = time.Time{}
		e.addReason(abi.ReasonTimer, rule{})
		q.makeDue(e, timed)
	}
}

// expireAll makes every key due whose time has come, and returns how long it is
// until the next one; ok is false if there is none.
func (q *Queue) expireAll() (wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for len(q.deadlines) > 0 {
		e := q.deadlines[0]
		if wait := e.wake.Sub(now); wait > 0 {
			return wait, true
		}
		q.expire(e, now)
		q.update(e)
	}
	return 0, false
}

// runDeadlines is the one goroutine that waits for all deadlines and edges.
func (q *Queue) runDeadlines() {
	defer close(q.deadlinesDone)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if wait, ok := q.expireAll(); ok {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-q.rescheduled:
		case <-q.stop:
			return
		}
	}
}
