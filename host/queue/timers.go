package queue

import (
	"container/heap"
	"time"
)

// timers is a heap of keys by wake; client-go's delaying queue can neither
// replace nor cancel a time.
type timers []*entry

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].wake.Before(t[j].wake) }

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	e := x.(*entry)
	e.place = len(*t)
	*t = append(*t, e)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	old := *t
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	e.place = -1
	return e
}

// set gives a key its time, or none, and says whether it is the earliest now.
func (t *timers) set(e *entry, wake time.Time) (first bool) {
	e.wake = wake
	switch {
	case wake.IsZero() && e.place >= 0:
		heap.Remove(t, e.place)
	case wake.IsZero():
	case e.place >= 0:
		heap.Fix(t, e.place)
	default:
		heap.Push(t, e)
	}
	return e.place == 0
}

// schedule brings the timer of a key in line with its state, and lets go of a
// key that waits for nothing. Every change of a state ends here.
func (q *Queue) schedule(e *entry) {
	if q.timers.set(e, e.wakes()) {
		select {
		case q.poke <- struct{}{}:
		default:
		}
	}
	if e.idle() {
		delete(q.keys, e.key)
	}
}

// fire makes a key due whose edge or deadline has come.
func (q *Queue) fire(e *entry, now time.Time) {
	if !e.edge.IsZero() && !e.edge.After(now) {
		e.edge = time.Time{}
		q.admit(e, urgent)
	}
	if !e.deadline.IsZero() && !e.deadline.After(now) {
		e.deadline = time.Time{}
		e.note(e.next.reason(), rule{})
		q.admit(e, e.next.level())
	}
}

// fireDue fires every key whose time has come and returns how long it is to
// the next one, if there is any.
func (q *Queue) fireDue() (wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for len(q.timers) > 0 {
		e := q.timers[0]
		if wait := e.wake.Sub(now); wait > 0 {
			return wait, true
		}
		q.fire(e, now)
		q.schedule(e)
	}
	return 0, false
}

// keepTime is the one goroutine that watches all times.
func (q *Queue) keepTime() {
	defer close(q.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if wait, ok := q.fireDue(); ok {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-q.poke:
		case <-q.stop:
			return
		}
	}
}
