package queue

import (
	"slices"
	"time"
)

const (
	// recoverySpread is the time over which the keys of an outage become due
	// when it has ended. Many need longer: no more than one per recoveryStep.
	recoverySpread = 5 * time.Second
	recoveryStep   = 5 * time.Millisecond
)

// OutageEnded makes the keys due soon that back off because of an outage of the
// API server: in the order of their deadlines, and spread over seconds, because
// a server that has just come back is easily overloaded again. Deadlines are
// never moved to a later time. It also holds for the keys that are running now:
// their requests may have been sent before the outage ended.
func (q *Queue) OutageEnded() {
	q.mu.Lock()
	defer q.mu.Unlock()
	var waiting []*entry
	for _, e := range q.keys {
		if e.running {
			e.outageEnded = true
		} else if e.backingOff() && e.next.Outage {
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, func(a, b *entry) int { return a.deadline.Compare(b.deadline) })
	due, step := time.Now(), max(recoverySpread/time.Duration(max(len(waiting), 1)), recoveryStep)
	for _, e := range waiting {
		if due.Before(e.deadline) {
			e.deadline = due
			q.update(e)
		}
		due = due.Add(step)
	}
}

// endOutage shortens the backoff of a run during which an outage has ended.
func (e *entry) endOutage(now time.Time) {
	if e.outageEnded && e.next.Outage && e.deadline.After(now.Add(recoverySpread)) {
		e.deadline = now.Add(recoverySpread)
	}
	e.outageEnded = false
}
